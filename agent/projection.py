"""Active scopes as files, for services that read files (protocol.md 4; rules S5).

    <root>/active/index.json
    <root>/active/<scope_type>[@<ids>]/<section>.json

Each change makes a new folder beside the present one and swaps one symlink (generations.py), so nobody sees half of
one: who wants several files of one generation opens the folder first, and the files from there. A file whose bytes
have not changed is linked, not written again; the first projection of a process writes all of them, since it does not
trust what it finds. An expired scope stays, marked in the index; a withdrawn one goes, and all go when the node is
revoked.
"""

import hashlib
import os
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from agent.generations import Generations, Permissions
from snapshot import canonical
from snapshot.identifiers import format_time, parse_scope
from snapshot.manifest import Entry

INDEX = "index.json"
MOST_IDS_BYTES = 180

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ProjectedScope:
    """An active scope; `read` gives a section's bytes, whose hash it has checked. `grade` as of protocol.md 4."""

    scope: str
    authority_epoch: int
    config_version: int
    content_hash: str
    expires_at: int
    grade: str
    sections: Mapping[str, Entry]
    read: Callable[[str], bytes]


@dataclass
class Projection:
    """Synchronous, for one worker thread. What `read` and the disk raise is passed on, and the old files stay."""

    generations: Generations
    _files: dict[str, str] = field(default_factory=dict)  # path in the present folder -> SHA-256 of its bytes
    _present: str | None = None
    _index: bytes = b""
    _count: int = 0

    def start(self) -> None:
        self.generations.prepare()

    def project(self, generation: int, scopes: Iterable[ProjectedScope], now: float) -> bool:
        """Makes these the files; False where they are that already. `now` times the collection of old ones.

        Files that somebody took away (a cleaner of /run) are made anew, with all that they stand in.
        """
        if self._present is not None and not self.generations.stands(self._present, INDEX):
            log.warning("files were gone, making them anew", path=str(self.generations.link))
            self._forget()
        if self._present is None:
            self.start()
        ordered = sorted(scopes, key=lambda scope: scope.scope)
        index = index_bytes(generation, ordered)
        changed = index != self._index
        if changed:
            self.generations.current()  # NotOursError before anything is written
            try:
                self._replace(generation, ordered, index)
            except OSError:
                self._forget()  # what it builds on may be amiss
                raise
        self.generations.collect(now)
        return changed

    def withdraw(self, generation: int, now: float) -> None:
        """All goes, at once and for every reader that has not opened it yet (rules A9)."""
        self.project(generation, (), now)
        self.generations.collect(now, all_of_them=True)

    def _forget(self) -> None:
        """The next ones are written whole, and trust nothing that is there."""
        self._files, self._present, self._index = {}, None, b""

    def _replace(self, generation: int, scopes: list[ProjectedScope], index: bytes) -> None:
        label = self._next_label(generation)
        files: dict[str, str] = {}
        with self.generations.fresh(label) as folder:
            for scope in scopes:
                files |= self._put_scope(folder, scope)
            write_file(folder / INDEX, index, self.generations.permissions)
        self.generations.use(label)
        self._files, self._present, self._index = files, label, index

    def _next_label(self, generation: int) -> str:
        """Unused, also by another process before this one."""
        taken = self.generations.labels()
        while (label := f"{generation}.{self._count}") in taken:
            self._count += 1
        return label

    def _put_scope(self, folder: Path, scope: ProjectedScope) -> dict[str, str]:
        """Written or linked; the files by their path, with their hashes."""
        place = folder_of(scope.scope)
        files = {f"{place}/{name}.json": entry.sha256 for name, entry in scope.sections.items()}
        same = {path for path, sha256 in files.items() if self._present is not None and self._files.get(path) == sha256}
        write_scope(folder, scope, self.generations.permissions, same, self.generations.folder / (self._present or ""))
        return files


def write_scope(
    folder: Path, scope: ProjectedScope, permissions: Permissions, same: Container[str] = (), before: Path | None = None
) -> None:
    """The files of a scope below `folder`; those in `same` are linked from below `before`."""
    place = folder_of(scope.scope)
    (folder / place).mkdir(mode=0o700)
    for name in scope.sections:
        path = f"{place}/{name}.json"
        if before is not None and path in same:
            os.link(before / path, folder / path)
        else:
            write_file(folder / path, scope.read(name), permissions)
    permissions.give(folder / place, permissions.folder_mode)


def write_file(target: Path, data: bytes, permissions: Permissions) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    permissions.give(target, permissions.file_mode)


def folder_of(scope: str) -> str:
    """`<scope_type>[@<ids>]`; ids of more than 180 bytes are given by their hash."""
    scope_type, ids = parse_scope(scope)
    if not ids:
        return scope_type
    joined = ",".join(ids)
    if len(joined.encode()) > MOST_IDS_BYTES:
        return f"{scope_type}@sha256-{hashlib.sha256(joined.encode()).hexdigest()}"
    return f"{scope_type}@{joined}"


def index_bytes(generation: int, scopes: Iterable[ProjectedScope]) -> bytes:
    """`index.json`: the generation, and for each scope its path, version, hash, expiry and grade."""
    entries = {
        scope.scope: {
            "path": folder_of(scope.scope),
            "authority_epoch": scope.authority_epoch,
            "config_version": scope.config_version,
            "content_hash": scope.content_hash,
            "expires_at": format_time(scope.expires_at),
            "grade": scope.grade,
        }
        for scope in scopes
    }
    return canonical.dumps({"generation": generation, "scopes": entries})

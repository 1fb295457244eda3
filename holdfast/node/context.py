"""What a reader knows, from a file: the context of `holdfast verify` (protocol.md 5).

load        a VerifierState, and the kind of document that is asked for
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from snapshot import bundle, envelope, manifest
from snapshot.bundle import TrustBundle
from snapshot.container import ChunkParts
from snapshot.envelope import KINDS, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD, is_hash, is_id, is_integer, is_nonce
from snapshot.manifest import Revocations, SectionEntry
from snapshot.reasons import Rejected
from snapshot.verifier_state import Mark, Roots, VerifierState

CHUNK_BYTES = 256 * 1024


class BadContext(ValueError):
    """The context cannot be used; the text says which member, and why."""


def load(path: Path) -> tuple[VerifierState, str]:
    """The holder that the context file describes; its paths are relative to the folder above its own."""
    members = _object(path)
    _refuse_unknown(members)
    folder = path.resolve().parent.parent
    files = _files(members, folder)
    kind = _member(members, "kind", lambda value: value in KINDS)
    active = _mapping(members, "active")
    head = active.pop(HEAD, None)
    holder = VerifierState(
        cluster_id=str(_member(members, "cluster_id", is_id)),
        node_id=str(_member(members, "node_id", is_id)),
        roles=frozenset(_ids(members, "roles")),
        organization_ids=frozenset(_ids(members, "organization_ids")),
        bundle=_bundle(members, files),
        roots=_roots(members),
        marks={scope: _mark(scope, value) for scope, value in _mapping(members, "floors").items()},
        active={scope: HeldFile.open(files(value, "active")) for scope, value in active.items()},
        recoveries=tuple(_read(files(value, "recovery")) for value in _list(members, "recovery")),
        used_nonces=frozenset(_nonces(members)),
        revocations=_head_revocations(files(head, "active")) if head is not None else Revocations(),
        clock_synchronised=members.get("clock") != "unsynchronised",
    )
    return holder, str(kind)


def chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, a bounded piece at a time."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


@dataclass(frozen=True)
class HeldFile:
    """An accepted document in a file; its sections are read where they lie, when they are asked for."""

    path: Path
    envelope: Envelope
    sections: Mapping[str, SectionEntry]
    offsets: Mapping[str, int]

    @property
    def content_hash(self) -> str:
        return self.envelope.content_hash

    @classmethod
    def open(cls, path: Path) -> "HeldFile":
        try:
            parts = ChunkParts(chunks(path))
            held = envelope.parse(parts.opening().envelope, SNAPSHOT)
            sections = manifest.parse_state(parts.manifest())
        except Rejected as fault:
            raise BadContext(f"{path}: {fault.reason}: {fault.detail}") from None
        except OSError as error:
            raise BadContext(f"{path}: {error.strerror}") from None
        return cls(path, held, sections, _offsets(path.stat().st_size, sections))

    def read(self, name: str) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offsets[name])
            return file.read(self.sections[name].size)


def _offsets(length: int, sections: Mapping[str, SectionEntry]) -> dict[str, int]:
    """Where each section's bytes begin, counted from the end, where the last one stops."""
    offsets, end = {}, length
    for name, entry in reversed(list(sections.items())):
        offsets[name] = end - entry.size
        head = 2 if entry.size < 1 << 8 else 3 if entry.size < 1 << 16 else 5
        end = offsets[name] - head
    return offsets


_KNOWN = (
    "cluster_id",
    "node_id",
    "roles",
    "organization_ids",
    "kind",
    "trust_bundle",
    "root_keys",
    "root_threshold",
    "floors",
    "active",
    "recovery",
    "used_nonces",
    "clock",
)


def _object(path: Path) -> dict[str, object]:
    data = _read(path)
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        raise BadContext(f"{path}: not JSON") from None
    if not isinstance(members, dict):
        raise BadContext(f"{path}: not an object")
    return members


def _refuse_unknown(members: Mapping[str, object]) -> None:
    for name in members:
        if name not in _KNOWN:
            raise BadContext(f"unknown member {name!r}; a context has {', '.join(_KNOWN)}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadContext(f"{path}: {error.strerror}") from None


def _files(members: Mapping[str, object], folder: Path) -> Callable[[object, str], Path]:
    def file(value: object, member: str) -> Path:
        if not isinstance(value, str):
            raise BadContext(f"{member}: not a path")
        return folder / value

    return file


def _bundle(members: Mapping[str, object], files: Callable[[object, str], Path]) -> TrustBundle | None:
    if members.get("trust_bundle") is None:
        return None
    held = HeldFile.open(files(members["trust_bundle"], "trust_bundle"))
    try:
        return bundle.from_bytes(held.envelope, {name: held.read(name) for name in held.sections})
    except Rejected as fault:
        raise BadContext(f"trust_bundle: {fault.reason}: {fault.detail}") from None


def _head_revocations(path: Path) -> Revocations:
    """What the last accepted head revoked holds on (format.md 5)."""
    parts = ChunkParts(chunks(path))
    try:
        envelope.parse(parts.opening().envelope, HEAD)
        return manifest.parse_head(parts.manifest()).revocations
    except Rejected as fault:
        raise BadContext(f"{path}: {fault.reason}: {fault.detail}") from None
    except OSError as error:
        raise BadContext(f"{path}: {error.strerror}") from None


def _roots(members: Mapping[str, object]) -> Roots | None:
    if "root_keys" not in members:
        return None
    threshold = _member(members, "root_threshold", is_integer)
    try:
        return Roots(bundle.parse_keys(members["root_keys"]), int(str(threshold)))
    except Rejected as fault:
        raise BadContext(f"root_keys: {fault.detail}") from None


def _mark(scope: str, value: object) -> Mark:
    form = {"authority_epoch": is_integer, "config_version": is_integer, "content_hash": is_hash}
    if not isinstance(value, dict) or value.keys() != form.keys():
        raise BadContext(f"floors: {scope} has exactly the members {', '.join(form)}")
    return Mark(**{name: _member(value, name, is_form) for name, is_form in form.items()})  # type: ignore[arg-type]


def _member(members: Mapping[str, object], name: str, is_form: Callable[[object], bool]) -> object:
    if name not in members or not is_form(members[name]):
        raise BadContext(f"{name}: missing, or not in the form of format.md 1")
    return members[name]


def _mapping(members: Mapping[str, object], name: str) -> dict[str, object]:
    value = members.get(name, {})
    if not isinstance(value, dict):
        raise BadContext(f"{name}: not an object by scope")
    return dict(value)


def _list(members: Mapping[str, object], name: str) -> list[object]:
    value = members.get(name, [])
    if not isinstance(value, list):
        raise BadContext(f"{name}: not an array")
    return value


def _ids(members: Mapping[str, object], name: str) -> list[str]:
    return [str(_member({name: value}, name, is_id)) for value in _list(members, name)]


def _nonces(members: Mapping[str, object]) -> list[str]:
    return [str(_member({"used_nonces": value}, "used_nonces", is_nonce)) for value in _list(members, "used_nonces")]

"""All that is published as a tree of files, for a mirror or an object store (`holdfastctl publish --to`).

Which files there are, published_tree.py says. What a head announces is durable before the head comes; what is no longer
announced goes last. What has no name of ours is left alone.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.database.documents import Document, container_of
from coordinator.keys.tree_folder import Folder
from coordinator.storage.published_tree import FOLDERS, HEADS, TRUST, NodeFiles, PublishedTree, TreeReader
from wire.operators.operator_answers import Written

HASHED = re.compile(r"[0-9a-f]{64}\.hfs", re.ASCII)
NUMBERED = re.compile(r"[1-9][0-9]*\.hfs", re.ASCII)


def publish(database: Database, directory: Path) -> Written:
    """Bring the tree at `directory` to what is published now. Interrupted anywhere, it can be run again.

    `conflict` while another one does the same; `bad_request` for a directory that cannot be written, by name.
    """
    published = TreeReader(database).read()
    try:
        tree = _Tree(directory, database)
        with _alone(directory):
            tree.write(published)
            return tree.sweep()
    except OSError as error:
        remedy = "name a directory of ours with room in it, and run this again"
        raise Refused(Code.BAD_REQUEST, f"{error.filename or directory}: {error.strerror}", remedy=remedy) from error


def names_in(folder: str) -> re.Pattern[str]:
    """Those that files of ours have there."""
    return NUMBERED if folder == TRUST else HASHED


def is_name(path: str) -> bool:
    """Whether a file of ours has this path."""
    folder, _, name = path.partition("/")
    return folder in FOLDERS and names_in(folder).fullmatch(name) is not None


class _Tree:
    """One run over the folders."""

    def __init__(self, directory: Path, database: Database) -> None:
        self._database = database
        self._folders = {name: Folder(directory / name, names_in(name)) for name in FOLDERS}
        self._wanted: dict[str, set[str]] = {name: set() for name in FOLDERS}
        self._new = 0
        self._is_overtaken = False
        for folder in self._folders.values():
            folder.make()

    def write(self, published: PublishedTree) -> None:
        heads = [(node.head_path, head) for node in published.nodes.values() if (head := self._write(node)) is not None]
        for path, file in published.trust.items():
            self._put(path, documents.stored_document(self._database, file.snapshot_id))
        for folder in self._folders.values():
            folder.sync()
        for path, head in heads:
            self._put(path, head)
        self._folders[HEADS].sync()

    def sweep(self) -> Written:
        """After all is written. Where a head has been overtaken, an older one may stand: its documents stay as well."""
        folders = {} if self._is_overtaken else self._folders
        removed = sum(folder.take_away(self._wanted[name]) for name, folder in folders.items())
        for folder in folders.values():
            folder.sync()
        return Written(self._new, sum(map(len, self._wanted.values())) - self._new, removed)

    def _write(self, node: NodeFiles) -> Document | None:
        """The node's head, after every document that it announces; None where a later head takes its place just now."""
        try:
            head = documents.stored_document(self._database, node.head.snapshot_id)
            for path, file in node.files.items():
                if not self._has(path):
                    self._put(path, documents.stored_document(self._database, file.snapshot_id))
        except Refused:  # the next run writes its successor
            self._is_overtaken = True
            return None
        return head

    def _has(self, path: str) -> bool:
        folder, _, name = path.partition("/")
        return name in self._wanted[folder]

    def _put(self, path: str, document: Document) -> None:
        folder, _, name = path.partition("/")
        self._wanted[folder].add(name)
        self._new += self._folders[folder].put(name, container_of(document))


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """While no other run writes there: each would take away what the other has half written."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        detail = f"{directory}: another publish writes there"
        raise Refused(Code.CONFLICT, detail, remedy="wait until it is done, then repeat") from None

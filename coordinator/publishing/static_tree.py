"""All that is published as a tree of files, for a mirror or an object store (`holdfastctl publish --to`).

    trust/<version>.hfs                  the trust bundles
    documents/<sha256 of the id>.hfs     each document that a head announces, also as coming (format.md 5)
    heads/<sha256 of the node id>.hfs    each node's head

The names are hashes of ids, so that a listing tells nobody who the nodes are. What a head announces is durable before
the head comes; what is no longer announced goes last. What has no name of ours is left alone.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, documents, schema
from coordinator.database.database import Database
from coordinator.database.documents import TRUST_BUNDLE, Document, container_of
from coordinator.keys.tree_folder import Folder
from snapshot.manifest import parse_head
from wire.operators.operator_answers import Written

SUFFIX = ".hfs"
_HASHED = re.compile(r"[0-9a-f]{64}\.hfs", re.ASCII)
_NUMBERED = re.compile(r"[1-9][0-9]*\.hfs", re.ASCII)


def publish(database: Database, directory: Path) -> Written:
    """Bring the tree at `directory` to what is published now. Interrupted anywhere, it can be run again.

    `conflict` while another one does the same; `bad_request` for a directory that cannot be written, by name.
    """
    with database.read() as transaction:
        cluster_state.sound(transaction)
        node_ids = sorted(row.node_id for row in transaction.rows(select(schema.heads.c.node_id)))
    try:
        tree = _Tree(directory)
        with _alone(directory):
            tree.write(database, node_ids)
            return tree.sweep()
    except OSError as error:
        remedy = "name a directory of ours with room in it, and run this again"
        raise Refused(Code.BAD_REQUEST, f"{error.filename or directory}: {error.strerror}", remedy=remedy) from error


def name_of(identifier: str) -> str:
    """The file of a document or a node."""
    return hashlib.sha256(identifier.encode()).hexdigest() + SUFFIX


class _Tree:
    """One run over the three folders."""

    def __init__(self, directory: Path) -> None:
        self._trust = Folder(directory / "trust", _NUMBERED)
        self._documents = Folder(directory / "documents", _HASHED)
        self._heads = Folder(directory / "heads", _HASHED)
        self._wanted: dict[Folder, set[str]] = {folder: set() for folder in (self._trust, self._documents, self._heads)}
        self._new = 0
        self._is_overtaken = False
        for folder in self._wanted:
            folder.make()

    def write(self, database: Database, node_ids: list[str]) -> None:
        heads = [(node_id, head) for node_id in node_ids if (head := self._write_head(database, node_id)) is not None]
        for bundle in _bundles(database):
            self._put(self._trust, f"{bundle.config_version}{SUFFIX}", bundle)
        self._documents.sync()
        self._trust.sync()
        for node_id, head in heads:
            self._put(self._heads, name_of(node_id), head)
        self._heads.sync()

    def sweep(self) -> Written:
        """After all is written. Where a head has been overtaken, an older one may stand: its documents stay as well."""
        folders = () if self._is_overtaken else self._wanted
        removed = sum(folder.take_away(self._wanted[folder]) for folder in folders)
        for folder in folders:
            folder.sync()
        return Written(self._new, sum(map(len, self._wanted.values())) - self._new, removed)

    def _write_head(self, database: Database, node_id: str) -> Document | None:
        """The node's head, after every document that it announces; None where a later head takes its place just now."""
        try:
            head = documents.head(database, node_id)
            said = parse_head(head.manifest)
            for scope, entry in (*said.scopes.items(), *said.candidates.items()):
                name = name_of(entry.snapshot_id)
                if scope != TRUST_BUNDLE and name not in self._wanted[self._documents]:
                    self._put(self._documents, name, documents.document(database, node_id, entry.snapshot_id))
        except Refused:  # the next run writes its successor
            self._is_overtaken = True
            return None
        return head

    def _put(self, folder: Folder, name: str, document: Document) -> None:
        self._wanted[folder].add(name)
        self._new += folder.put(name, container_of(document))


def _bundles(database: Database) -> Iterator[Document]:
    """All of them, as many at a time as one answer holds."""
    after = 0
    while found := documents.trust_bundles(database, after):
        yield from found
        after = found[-1].config_version


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

"""All that is published as a tree of files, for a mirror or an object store (`holdfastctl publish --to`).

    trust/<version>.hfs                  the trust bundles
    documents/<sha256 of the id>.hfs     each document that a head announces
    heads/<sha256 of the node id>.hfs    each node's head

The names are hashes of ids, so that a listing tells nobody who the nodes are. Each file comes by a rename, documents
before the heads that announce them; what is no longer announced goes last.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator import authority, documents
from coordinator.database import Database
from coordinator.documents import TRUST_BUNDLE, Document
from coordinator.publisher import container_of
from coordinator.refusal import Code, Refused

SUFFIX = ".hfs"
FOLDERS = ("trust", "documents", "heads")


@dataclass(frozen=True)
class Written:
    """Files by what became of them."""

    new: int
    unchanged: int
    removed: int


def publish(database: Database, directory: Path) -> Written:
    """Bring the tree at `directory` to what is published now. Interrupted anywhere, it can be run again."""
    for folder in FOLDERS:
        _make(directory / folder)
    wanted: set[Path] = set()
    new = 0
    for name, read in _plan(database):
        path = directory / name
        wanted.add(path)
        # Documents and bundles never change: what is there is there.
        if name.startswith("heads/") or not path.exists():
            new += _put(path, read)
    stale = [path for folder in FOLDERS for path in (directory / folder).iterdir() if path not in wanted]
    for path in stale:
        path.unlink()
    return Written(new, len(wanted) - new, len(stale))


def name_of(identifier: str) -> str:
    """The file of a document or a node."""
    return hashlib.sha256(identifier.encode()).hexdigest() + SUFFIX


def _plan(database: Database) -> Iterator[tuple[str, Callable[[], Document]]]:
    """The path of each file and how its content is read, in the order in which they are written."""
    with database.read() as transaction:
        authority.sound(transaction)
        listings = documents.listings(transaction)
    for bundle in documents.trust_bundles(database, 0):
        yield f"trust/{bundle.config_version}{SUFFIX}", _reading(_itself, bundle)
    announced = {
        entry.snapshot_id: node_id
        for node_id, listing in listings.items()
        for scope, entry in listing.items()
        if scope != TRUST_BUNDLE
    }
    for snapshot_id, node_id in sorted(announced.items()):
        yield f"documents/{name_of(snapshot_id)}", _reading(documents.document, database, node_id, snapshot_id)
    for node_id in sorted(listings):
        yield f"heads/{name_of(node_id)}", _reading(documents.head, database, node_id)


def _itself(document: Document) -> Document:
    return document


def _reading(read: Callable[..., Document], *arguments: object) -> Callable[[], Document]:
    return lambda: read(*arguments)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(Code.BAD_REQUEST, f"{folder}: {error.strerror}", remedy="name a directory of ours") from error


def _put(path: Path, read: Callable[[], Document]) -> bool:
    """Whether the file is new or another one. A reader sees the old bytes or the new ones, never half of them."""
    try:
        data = container_of(read())
    except Refused:  # superseded a moment ago: the next run writes its successor
        return False
    if path.exists() and path.read_bytes() == data:
        return False
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        os.fchmod(descriptor, 0o644)
    Path(temporary).replace(path)
    return True

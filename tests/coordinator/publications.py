"""Documents and publications for tests of the store, which looks at their members and never into them."""

import hashlib
import itertools

from coordinator.database.database import Database
from coordinator.database.documents import Document, HeadEntry
from coordinator.publishing import heads
from coordinator.publishing.heads import Basis, Publication
from tests.coordinator.candidates import NOW

_numbers = itertools.count()
ISSUED = int(NOW)


def document(scope: str, version: int, *sections: bytes, subject: str = "node-a", **other: object) -> Document:
    """A document of these sections; its content hash is that of its sections."""
    content = "sha256:" + hashlib.sha256(b"\0".join(sections)).hexdigest()
    values = {
        "snapshot_id": f"doc-{next(_numbers)}",
        "kind": "snapshot",
        "authority_epoch": 1,
        "content_hash": content,
        "issued_at": ISSUED,
        "expires_at": ISSUED + 86_400,
        "envelope": b"envelope",
        "signatures": (("sha256:" + "ab" * 32, b"signature"),),
        "manifest": b"{}",
    }
    return Document(subject=subject, scope=scope, config_version=version, sections=sections, **{**values, **other})


def entry(document: Document) -> HeadEntry:
    return HeadEntry(document.authority_epoch, document.config_version, document.content_hash, document.snapshot_id)


def publication(
    based_on: Basis, *documents: Document, node_id: str = "node-a", generation: int | None = None, **other: object
) -> Publication:
    """The next head of a node, announcing these documents."""
    number = max(based_on.generation, based_on.published + 1) if generation is None else generation
    head = document("head", number, subject=node_id, kind="head", issued_at=other.pop("issued_at", ISSUED))
    listing = {each.scope: entry(each) for each in documents if each.kind == "snapshot"}
    values = {"listing": listing, "documents": documents, "refresh_after": ISSUED + 900}
    return Publication(node_id, based_on, head, **{**values, **other})


def basis(database: Database, node_id: str = "node-a") -> Basis:
    with database.read() as transaction:
        return heads.bases(transaction, [node_id]).get(node_id, Basis(0, 0))


def publish(database: Database, *publications: Publication, now: float = NOW):
    return heads.publish(database, publications, actor="coordinator", now=now)

"""What the nodes of one batch have in common: the counters of versions, and documents that are for many of them.

    number(scope)            the next version of a scope, and `taken(...)` once a document has it
    newest(content)          the newest shared document of this content for this audience, kept or made in this batch
    add(content, made)       one that was made: whoever comes later finds it
    delta(held, content)     what changes from one content to another, where an increment is smaller than the document
    increment(held, to)      what leads from one shared document to another

Equal content for the same audience (roles and organizations of the envelope) is one document: signed once, reviewed
once, kept once, whichever node needed it first. A node is given the newest one, if that is above all that it ever had;
else a new version is made, which is then everybody's who comes after.

Example. `config/edge` 5 says A and 6 says B. A node goes from A to B, and back. 5 lies behind it, so A is signed once
more as 7; the others stay at 5. When 5 is to be renewed, they find 7, and nothing is signed.

Two coordinators may sign the same content at once: each says which counters it has read, and whoever publishes second
is told `conflict` (heads.py), looks again, and finds the document of the first.

Rejected:

- Moving all nodes of a group to a version that was made for one of them: what one node's change costs would grow with
  the group.
- Versions that follow from the content: they would not rise.
- To count only what is shared: a node may go from a document of its own to a shared one, and back (a Config whose file
  becomes a template).
"""

from dataclasses import dataclass, field

from sqlalchemy import bindparam, select

from coordinator.base.refusal import Refused
from coordinator.database import schema, scope_versions
from coordinator.database.database import Transaction
from coordinator.database.documents import EVERYBODY, Document
from coordinator.declared import increments
from coordinator.declared.compiler import Audience, ScopeContent, StoredSection
from coordinator.declared.increments import Delta
from coordinator.keys import signer
from coordinator.publishing import published_state
from coordinator.publishing.published_state import PublishedDocument
from coordinator.publishing.remembered import KnownDocument, PublishedMemory
from coordinator.publishing.review import Reviewer
from snapshot.envelope import INCREMENT, SNAPSHOT

Key = tuple[str, str, Audience]
"""Scope, content hash and audience."""

_kept = schema.documents.c
# The newest first. Made once: making a statement costs as much as running it, and a node that joins asks for a dozen.
# By its hash: SQLite would rather go by subject, scope and kind, through all directories of a fleet for each of them,
# where an index has these three; of a subject that is worked out it has none.
_OF_CONTENT = (
    select(_kept.snapshot_id)
    .where(
        _kept.scope == bindparam("of_scope"),
        _kept.content_hash == bindparam("content"),
        _kept.authority_epoch == bindparam("epoch"),
        _kept.subject.concat("") == EVERYBODY,
        _kept.kind == SNAPSHOT,
    )
    .order_by(_kept.config_version.desc(), _kept.published_at.desc())
)
_INCREMENT_BETWEEN = (
    select(_kept.snapshot_id)
    .where(
        _kept.subject == EVERYBODY,
        _kept.scope == bindparam("of_scope"),
        _kept.kind == INCREMENT,
        _kept.base_config_version == bindparam("base"),
        _kept.config_version == bindparam("version"),
        _kept.authority_epoch == bindparam("epoch"),
    )
    .limit(1)
)


@dataclass(frozen=True)
class SharedDocument:
    """`unkept`: the document where this batch has made it; with the head that lists it first it is kept."""

    held: PublishedDocument
    unkept: Document | None = None


@dataclass
class SharedDocuments:
    """Of one batch, and of the transaction in which its nodes were read; `reviewer` and `remembered` outlast it."""

    transaction: Transaction
    reviewer: Reviewer = field(default_factory=Reviewer)
    remembered: PublishedMemory = field(default_factory=PublishedMemory)
    read: dict[str, int] = field(default_factory=dict)  # counters as they stand in the database
    _last: dict[str, int] = field(default_factory=dict)
    _newest: dict[Key, SharedDocument | None] = field(default_factory=dict)
    _increments: dict[tuple[str, str], Document | None] = field(default_factory=dict)
    _deltas: dict[tuple[str, str], Delta | None] = field(default_factory=dict)

    def number(self, scope: str) -> int:
        """The version that the next document of a scope gets."""
        if scope not in self.read:
            self.read[scope] = scope_versions.read(self.transaction, [scope]).get(scope, 0)
        return max(self.read[scope], self._last.get(scope, 0)) + 1

    def take(self, scope: str, version: int) -> None:
        """A document has it; one that was not signed after all takes none."""
        self._last[scope] = max(version, self._last.get(scope, 0))

    def newest(self, content: ScopeContent, epoch: int) -> SharedDocument | None:
        """Of this epoch."""
        key = _key(content)
        if key not in self._newest:
            self._newest[key] = self._find(content, epoch)
        return self._newest[key]

    def add(self, content: ScopeContent, made: SharedDocument) -> None:
        self._newest[_key(content)] = made

    def is_sought(self, held: PublishedDocument, to: PublishedDocument) -> bool:
        """Whether it is known how one leads to the other; or that no increment is worth it."""
        pair = (held.entry.snapshot_id, to.entry.snapshot_id)
        if pair not in self._increments and self._is_kept(held, to):
            self._increments[pair] = None
        return pair in self._increments

    def increment(self, held: PublishedDocument, to: PublishedDocument) -> Document | None:
        """The one that this batch has made."""
        return self._increments[held.entry.snapshot_id, to.entry.snapshot_id]

    def add_increment(self, held: PublishedDocument, to: PublishedDocument, made: Document | None) -> None:
        self._increments[held.entry.snapshot_id, to.entry.snapshot_id] = made

    def delta(self, held: PublishedDocument, content: ScopeContent) -> Delta | None:
        """Worked out once for all that go from the one content to the other, also with documents of their own. None
        also where what the base was made of is lost.
        """
        pair = (held.content_hash, content.content_hash)
        if pair not in self._deltas:
            try:
                self._deltas[pair] = _smaller_delta(held, content)
            except Refused:  # and it is all that is lost
                self._deltas[pair] = None
        return self._deltas[pair]

    def _find(self, content: ScopeContent, epoch: int) -> SharedDocument | None:
        of_content = {"of_scope": content.scope.name, "content": content.content_hash, "epoch": epoch}
        for row in self.transaction.rows(_OF_CONTENT, of_content):
            document = self._document(row.snapshot_id)
            one = document.envelope
            if Audience(one.roles, one.organization_ids) == content.audience:
                return SharedDocument(document)
        return None

    def _document(self, snapshot_id: str) -> PublishedDocument:
        """It is kept; a document never changes under its id, so it is read once."""
        known = self.remembered.documents.get(snapshot_id)
        if known is None:
            document = published_state.read_document(self.transaction, snapshot_id)
            self.remembered.keep_document(KnownDocument(document.entry, document.envelope, document.manifest_bytes))
            return document
        source = published_state.reader(self.transaction)
        return PublishedDocument(known.entry, known.envelope, known.manifest, source)

    def _is_kept(self, held: PublishedDocument, to: PublishedDocument) -> bool:
        between = {"base": held.entry.config_version, "version": to.entry.config_version}
        about = {"of_scope": to.envelope.scope, "epoch": to.entry.authority_epoch, **between}
        return self.transaction.row(_INCREMENT_BETWEEN, about) is not None


def _smaller_delta(held: PublishedDocument, content: ScopeContent) -> Delta | None:
    """The envelopes are about the same."""
    delta = increments.changes(held.sections, held.read, content.sections, content.raw, content.always)
    brought = sum(
        section.size if isinstance(section, StoredSection) else len(section) for section in delta.brought.values()
    )
    whole = sum(entry.size for entry in content.entries.values()) + len(content.manifest)
    return delta if brought + len(signer.increment_bytes(delta.changes)) < whole else None


def _key(content: ScopeContent) -> Key:
    return (content.scope.name, content.content_hash, content.audience)

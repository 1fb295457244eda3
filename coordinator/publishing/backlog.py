"""Which scopes of which nodes have to be compiled again, and a batch of them compiled (rules K21, S69).

After a start nothing is known, so each node is compiled whole, once. From then on a change of the declared state adds
what change_impact.py names, and a node whose publication went out is struck off. Where that was made from another model
than the declared one (gates.py), what the two differ in is noted again, and so is what could not be made, or was given
in place of what the node refuses: what is noted of a node is always what may differ between what it was given last and
what is declared. So it counts only while the head that is out is the one that was published here: of what another
coordinator has published meanwhile, from a state that was perhaps never seen here, nothing is noted, and the node is
compiled whole. One that lost its swap to a change is not: its head is what it was. Losing this costs work, never
correctness.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.changes.undoing import UndoneModels
from coordinator.configs.compiled_contents import CompiledContents
from coordinator.database import catalog
from coordinator.database.database import Database, Transaction
from coordinator.declared import views
from coordinator.declared.change_impact import scopes_on_the_way
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import heads, published_state
from coordinator.publishing.gates import Gates, NodeGate
from coordinator.publishing.heads import Pair
from coordinator.publishing.publication import Compile, Draft, NodeContents, Offered, draft
from coordinator.publishing.published_state import Situation
from coordinator.publishing.remembered import PublishedMemory
from coordinator.publishing.review import Reviewer
from coordinator.publishing.shared_documents import SharedDocuments
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.reports import features
from snapshot.identifiers import Scope

MOST_SCOPES = 512  # of all nodes of a batch, that are compiled anew
SCOPES_OF_NODE = 8  # about so many, where it is compiled whole
MOST_EQUAL = (
    4_096  # sets of scopes that nodes held before a change and none may hold any more; then they are looked for
)


@dataclass
class Backlog:
    """`followed`: the state up to which changes are noted. `known`: nodes published whole since the start, and with
    which head last. `models`: what nodes go by that are held back. `remembered`: of what is out. `reviewer`: of what is
    signed. `unlisted`: why nodes must not be told of these CAs, or nothing.
    """

    followed: Model | None = None
    known: dict[str, Pair] = field(default_factory=dict)
    changed: dict[str, set[Scope]] = field(default_factory=dict)
    models: UndoneModels = field(default_factory=UndoneModels)
    remembered: PublishedMemory = field(default_factory=PublishedMemory)
    reviewer: Reviewer = field(default_factory=Reviewer)
    unlisted: Callable[[Sequence[bytes]], str] = field(default=lambda _authorities: "")
    _otherwise: dict[str, frozenset[Scope]] = field(default_factory=dict)
    _held: dict[str, tuple[Scope, ...]] = field(default_factory=dict)  # by node, of the state that is followed
    _equal: dict[tuple[Scope, ...], tuple[Scope, ...]] = field(default_factory=dict)  # of many nodes, kept once

    def follow(self, model: Model) -> None:
        if self.followed is not None and model is not self.followed:
            for node_id, scope in scopes_on_the_way(self.followed, model):
                self.changed.setdefault(node_id, set()).add(scope)
                self._follow_scopes(model, node_id, scope)
        if len(self._equal) > len(self._held) + MOST_EQUAL:  # each node may hold others
            self._equal = {held: held for held in self._held.values()}
        self.followed = model

    def _follow_scopes(self, model: Model, node_id: str, scope: Scope) -> None:
        """Most changes say something else in scopes that a node holds before and after: what it holds stays. Where a
        scope comes or goes it is among the affected ones, and all that the node holds is found anew.
        """
        held, subject = self._held.get(node_id), model.subjects.get(node_id)
        if held is not None and (scope in held) != (subject is not None and views.holds(model, subject, scope)):
            del self._held[node_id]

    def scopes(self, gate: NodeGate, situation: Situation) -> tuple[tuple[Scope, ...], frozenset[Scope]]:
        """What the node may hold and can read; and what is to be compiled again, of that and perhaps of more. What was
        held back has nothing published, so it is compiled as soon as it is not.
        """
        node_id = situation.node_id
        self._otherwise[node_id] = gate.otherwise
        held = self._scopes_of(gate.model, node_id)
        if waiting := features.unreadable_scopes(held, situation.features):
            held = tuple(scope for scope in held if scope not in waiting)
        if self.known.get(node_id) != situation.head:
            return held, frozenset(held)
        return held, gate.otherwise.union(self.changed.get(node_id, ()))

    def _scopes_of(self, model: Model, node_id: str) -> tuple[Scope, ...]:
        """Of one state they are always the same, and most heads are renewals. Of another one few nodes hold others."""
        if model is self.followed and node_id in self._held:
            return self._held[node_id]
        subject = model.subjects.get(node_id)
        found = () if subject is None else views.scopes(model, subject)
        if model is self.followed:
            self._held[node_id] = self._equal.setdefault(found, found)
        return found

    def first_of(self, node_ids: Sequence[str]) -> Sequence[str]:
        """As many as may be published at once: while a batch is written, every report waits for the one writer."""
        left = MOST_SCOPES
        for count, node_id in enumerate(node_ids):
            left -= len(self.changed.get(node_id, ())) if node_id in self.known else SCOPES_OF_NODE
            if left < 0 and count:
                return node_ids[:count]
        return node_ids

    def note_published(self, draft: Draft) -> None:
        node_id = draft.publication.node_id
        self.remembered.heads.put(node_id, draft.known)
        for document in draft.new:
            self.remembered.keep_document(document)
        self.known[node_id] = (draft.publication.head.authority_epoch, draft.publication.head.config_version)
        self.changed.pop(node_id, None)
        if otherwise := self._otherwise.pop(node_id, frozenset()) | draft.otherwise:
            self.changed[node_id] = set(otherwise)

    def note_failure(self, node_id: str) -> None:
        """Whole again, next time."""
        self.known.pop(node_id, None)


@dataclass(frozen=True)
class Batch:
    """Of these nodes, `unsigned`: by node, why not even a head could be made."""

    drafts: tuple[Draft, ...]
    unsigned: Mapping[str, Unpublishable]
    node_ids: Sequence[str] = ()


def due(database: Database, now: float, *, round_s: float = 0, most: int = 0) -> list[str]:
    """heads.due"""
    with database.read() as transaction:
        return heads.due(transaction, now, round_s=round_s, most=most)


def prepare(
    database: Database,
    backlog: Backlog,
    keys: Sequence[SigningKey],
    settings: CoordinatorSettings,
    node_ids: Sequence[str],
    now: float,
) -> Batch:
    """The next publication of the first of these nodes, from one consistent reading. Nothing is written. Refused
    `stale_state` where the database is from before an exchange of CAs that this coordinator has gone through.
    """
    with database.read() as transaction:
        return prepare_within(transaction, backlog, keys, settings, node_ids, now)


def prepare_within(
    transaction: Transaction,
    backlog: Backlog,
    keys: Sequence[SigningKey],
    settings: CoordinatorSettings,
    node_ids: Sequence[str],
    now: float,
    is_enough: Callable[[], bool] = bool,
) -> Batch:
    """The same, from what is read in this transaction. `is_enough`: asked after each node; the others are left."""
    drafts: list[Draft] = []
    unsigned: dict[str, Unpublishable] = {}
    model = catalog.load(transaction)
    if why := backlog.unlisted(model.authorities):
        raise Refused(Code.STALE_STATE, why, remedy="it is listed at the next look at the database")
    backlog.follow(model)
    node_ids = backlog.first_of(node_ids)
    issue = published_state.read_issue(transaction, keys, settings, now)
    read = published_state.reader(transaction)
    gates = Gates.read(transaction, model, node_ids, backlog.models, read)
    backlog.reviewer.begin(issue.bundle, issue.revocations)
    case = _Round(issue, backlog, SharedDocuments(transaction, backlog.reviewer, backlog.remembered), read)
    situations = published_state.read_situations(transaction, node_ids, backlog.remembered)
    for count, node_id in enumerate(node_ids):
        if count and is_enough():
            return Batch(tuple(drafts), unsigned, node_ids[:count])
        situation = situations.get(node_id)
        if situation is None:
            continue
        try:
            drafts.append(_draft(case, situation, gates.of(node_id, situation.held.keys())))
        except Unpublishable as fault:
            unsigned[node_id] = fault
    return Batch(tuple(drafts), unsigned, node_ids)


@dataclass
class _Round:
    """What the nodes of a batch have in common."""

    issue: Issue
    backlog: Backlog
    shared: SharedDocuments
    read: ReadPart
    _contents: dict[int, CompiledContents] = field(default_factory=dict)

    def compiler(self, model: Model, node_id: str) -> Compile:
        if id(model) not in self._contents:
            self._contents[id(model)] = CompiledContents(model, self.read)
        return partial(self._contents[id(model)].compile, node_id)


def _draft(case: _Round, situation: Situation, gate: NodeGate) -> Draft:
    node_id = situation.node_id
    told = NodeContents(
        gate.model.subjects.get(node_id),
        *case.backlog.scopes(gate, situation),
        case.compiler(gate.model, node_id),
        gate.marks,
        tuple(_offered_contents(case, situation, gate)),
        gate.rows,
    )
    return draft(case.issue, situation, told, case.shared)


def _offered_contents(case: _Round, situation: Situation, gate: NodeGate) -> Iterator[Offered]:
    """Nothing to a node that cannot judge it: it is told once it is its turn."""
    for offer in gate.offers if features.reads_candidates(situation.features) else ():
        unreadable = features.unreadable_scopes(offer.scopes, situation.features)
        yield Offered(
            offer.mark,
            offer.model.subjects[situation.node_id],
            tuple(scope for scope in offer.scopes if scope not in unreadable),
            case.compiler(offer.model, situation.node_id),
        )

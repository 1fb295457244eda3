"""Which scopes of which nodes have to be compiled again, and a batch of them compiled (rules K21, S69).

After a start nothing is known, so each node is compiled whole, once. From then on a change of the declared state adds
what change_impact.py names, and a node whose publication went out is struck off. Losing this costs work, never
correctness.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared import views
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import heads, published_state
from coordinator.publishing.publication import Draft, draft
from coordinator.publishing.published_state import Situation
from coordinator.publishing.shared_documents import SharedDocuments
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.reports import features
from snapshot.identifiers import Scope


@dataclass
class Backlog:
    """`followed`: the state up to which changes are noted. `known`: nodes published whole since the start."""

    followed: Model | None = None
    known: set[str] = field(default_factory=set)
    changed: dict[str, set[Scope]] = field(default_factory=dict)

    def follow(self, model: Model) -> None:
        if self.followed is not None and model is not self.followed:
            for node_id, scope in affected_scopes(self.followed, model):
                self.changed.setdefault(node_id, set()).add(scope)
        self.followed = model

    def scopes(self, model: Model, node_id: str, reads: Set[str] | None = None) -> dict[Scope, bool]:
        """What the node may hold and can read; True for what is to be compiled again. What was held back has nothing
        published, so it is compiled as soon as it is not.
        """
        subject = model.subjects.get(node_id)
        held = () if subject is None else views.scopes(model, subject)
        changed, waiting = self.changed.get(node_id, set()), features.unreadable_scopes(held, reads)
        return {scope: node_id not in self.known or scope in changed for scope in held if scope not in waiting}

    def note_published(self, node_id: str) -> None:
        self.known.add(node_id)
        self.changed.pop(node_id, None)

    def note_failure(self, node_id: str) -> None:
        """Whole again, next time."""
        self.known.discard(node_id)


@dataclass
class CompiledContents:
    """What the nodes of one batch are told. A Config that is shared says the same to all who are given it, whatever
    roles they have, and may have thousands of files: it is compiled once.
    """

    model: Model
    read: ReadPart
    _common: dict[Scope, ScopeContent] = field(default_factory=dict)

    def compile(self, node_id: str, scope: Scope) -> ScopeContent:
        """As `compile_scope`."""
        subject = self.model.subjects.get(node_id)
        if scope in self._common and subject is not None and views.holds(self.model, subject, scope):
            return self._common[scope]
        content = compile_scope(self.model, node_id, scope, self.read)
        if scope.type == CONFIG and content.is_shared:
            self._common[scope] = content
        return content


@dataclass(frozen=True)
class Batch:
    """`unsigned`: by node, why not even a head could be made."""

    drafts: tuple[Draft, ...]
    unsigned: Mapping[str, Unpublishable]


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
    """The next publication of each of these nodes, from one consistent reading. Nothing is written."""
    drafts, unsigned = [], {}
    with database.read() as transaction:
        model = catalog.load(transaction)
        backlog.follow(model)
        issue = published_state.read_issue(transaction, keys, settings, now)
        read = published_state.reader(transaction)
        shared, contents = SharedDocuments(transaction), CompiledContents(model, read)
        for node_id, situation in published_state.read_situations(transaction, node_ids).items():
            try:
                drafts.append(_draft(issue, backlog, situation, contents, shared))
            except Unpublishable as fault:
                unsigned[node_id] = fault
    return Batch(tuple(drafts), unsigned)


def _draft(
    issue: Issue, backlog: Backlog, each: Situation, contents: CompiledContents, shared: SharedDocuments
) -> Draft:
    model = contents.model
    subject, scopes = model.subjects.get(each.node_id), backlog.scopes(model, each.node_id, each.features)
    return draft(issue, each, subject, scopes, partial(contents.compile, each.node_id), shared)

"""What an apply would make of one state, worked out while nothing is locked: carrying it out only compares and writes.

    propose(database, declared)     from the state as it stands
    work_out(before, declared)      from a state that was read already
    weigh(database, proposal)       the same, with what it changes of what nodes are told (effect.py)

For a large fleet it is seconds of work, and every report of a node waits for the one writer. So a proposal names the
state that it was made from; where that has moved on meanwhile it is worked out again, a few times before anything is
locked, and at last under the lock (declarations.py).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from coordinator.base.refusal import Code, Refused
from coordinator.base.releasing import ReleasedInSlices
from coordinator.configs.compiled_pairs import CompiledPair
from coordinator.database import catalog, declared_places
from coordinator.database.catalog import StateName
from coordinator.database.database import CanonicalText, Database, Transaction
from coordinator.database.declared_places import Place
from coordinator.declared import plans, resources
from coordinator.declared.change_impact import Touched, affected_scopes
from coordinator.declared.model import Key, Model
from coordinator.declared.next_model import next_model
from coordinator.declared.plans import ResourceChange
from coordinator.declared.resources import Declared
from coordinator.publishing import effect, published_state
from coordinator.publishing.effect import Effect
from snapshot import canonical


@dataclass(frozen=True)
class PlanVerdict:
    """`refusals`: what a plan is not carried out for, though it is in form. `warnings`: what is said of it all the
    same.
    """

    refusals: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()
    is_allowed: bool = False  # it is too much, and somebody means it


NO_VERDICT = PlanVerdict()
NOTHING = "null"


@dataclass(frozen=True)
class Proposal(ReleasedInSlices):
    """Changes of one state, which hold together. `bodies`: what is written of each resource that is new or changed."""

    declared: Mapping[Key, Declared]
    prune: bool
    before: Model
    after: Model
    changes: tuple[ResourceChange, ...]
    bodies: Mapping[Key, str]
    touched: frozenset[Touched]
    state: StateName
    effect: Effect | None = None  # where it was weighed
    verdict: PlanVerdict | None = None  # where it was judged (plan_check.py)

    @property
    def state_id(self) -> str:
        return self.state.state_id

    @cached_property
    def plan(self) -> str:
        """As canonical JSON: of each resource what it was and what it is."""
        return f"[{','.join(map(_plan_entry, self.changes, self.texts))}]"

    @cached_property
    def texts(self) -> list[tuple[CanonicalText, CanonicalText]]:
        """Of each change the specification before and after, as canonical JSON."""
        return [
            (_text(change.specs[0]), CanonicalText(self.bodies.get(change.key, NOTHING))) for change in self.changes
        ]

    @cached_property
    def places(self) -> Mapping[Key, Place]:
        """Where all of it is declared."""
        return {key: declared_places.place_of(entry) for key, entry in self.declared.items()}

    @cached_property
    def touched_nodes(self) -> frozenset[str]:
        return frozenset(node_id for node_id, _ in self.touched)

    def write_out(self) -> "Proposal":
        """The same, with all that it will write written out: for a large fleet that takes a second, and while it is
        carried out everybody waits.
        """
        _ = self.plan_hash, self.places, self.touched_nodes
        return self

    @cached_property
    def plan_hash(self) -> str:
        """Names exactly this plan, made from exactly what is declared. Not from exactly this state: each node that
        joins makes another one, and who has looked at a plan of a fleet that grows could never let it pass.
        """
        declared_id = canonical.dumps(self.state.declared_id).decode()
        text = f'{{"changes":{self.plan},"declared_id":{declared_id}}}'  # canonical as it is
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    @property
    def unchanged_count(self) -> int:
        return len(self.after.resources) - len(self.bodies)


def propose(
    database: Database, declared: Mapping[Key, Declared], *, prune: bool = False, based_on: str | None = None
) -> Proposal:
    """InvalidResources where they do not hold together; `concurrent_update` as `check_base` has it."""
    with database.read() as transaction:
        state = catalog.state_name(transaction)
        check_base(based_on, state.state_id)
        before = catalog.load(transaction)
    return work_out(before, declared, prune=prune, state=state)


def work_out(before: Model, declared: Mapping[Key, Declared], *, prune: bool, state: StateName) -> Proposal:
    """The changes to the state `before`, with what they touch; InvalidResources where they do not hold together."""
    wanted = {key: entry.resource for key, entry in declared.items()}
    made = plans.changes(before.resources, wanted, prune=prune)
    after = next_model(before, {change.key: change.after for change in made})
    resources.check_in(declared, after)
    bodies = {change.key: canonical.dumps(change.specs[1]).decode() for change in made if change.after is not None}
    touched = affected_scopes(before, after) if made else frozenset()
    return Proposal(declared, prune, before, after, made, bodies, touched, state)


def weigh(
    database: Database,
    proposal: Proposal,
    *,
    reverts: int | None = None,
    look: Callable[[CompiledPair], None] | None = None,
) -> Proposal:
    """With its effect: seconds for a large fleet. `look` is shown each scope of each node that is told another thing,
    before and after; what it raises, this raises.
    """
    with database.read() as transaction:
        return weigh_in(transaction, proposal, reverts=reverts, look=look)


def weigh_in(
    transaction: Transaction,
    proposal: Proposal,
    *,
    reverts: int | None = None,
    look: Callable[[CompiledPair], None] | None = None,
) -> Proposal:
    found = effect.weigh(
        transaction,
        proposal.before,
        proposal.after,
        proposal.touched,
        [change.key for change in proposal.changes],
        published_state.reader(transaction),
        reverts=reverts,
        look=look,
    )
    return replace(proposal, effect=found)


def _plan_entry(change: ResourceChange, texts: tuple[str, str]) -> str:
    kind, id_ = map(_text, change.key)
    return f'{{"after":{texts[1]},"before":{texts[0]},"id":{id_},"kind":{kind},"verb":{_text(change.verb)}}}'


def _text(value: object) -> CanonicalText:
    return CanonicalText(canonical.dumps(value).decode())


def check_base(based_on: str | None, state_id: str) -> None:
    """`concurrent_update` when the state is no longer the one that a plan was made from (rules H38)."""
    if based_on is not None and based_on != state_id:
        raise Refused(Code.CONCURRENT_UPDATE, "the state has changed since this plan was made", remedy="diff again")

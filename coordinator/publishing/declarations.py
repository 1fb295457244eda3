"""Applying declared resources as a whole, in one transaction (protocol 2; rules S69, K21, H38).

apply(database, texts, ...)           `holdfastctl apply -f DIR`: the plan, carried out
carry_out(database, proposal, ...)    the same of what was worked out already (proposals.py)
with dry_run=True                     the same code, stopped before the commit: `diff` and `--dry-run`
with ask=ChangeRequest(...)           nodes that have something already are held back, and a change begins in the same
                                      transaction: who gets it when is the rollout's (coordinator/rollout)

Where each resource was declared is kept beside it (declared_places.py), also when nothing but lines changed: the plan
says how many have moved, and `holdfastctl apply` then has it carried out without a question, since no node is touched
and the state stays the one that it is. To wait for an apply that changes something would leave lines that lead an
operator astray exactly where files are edited most.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from sqlalchemy import bindparam, delete, select

from coordinator.base.refusal import Code, Refused
from coordinator.changes import change_start, four_eyes, records
from coordinator.changes.change_start import ChangeDraft, StartedChange
from coordinator.changes.records import ChangeRequest
from coordinator.configs import config_diff
from coordinator.database import catalog, cluster_state, declared_places, schema, sites, uploads
from coordinator.database.database import Database, Transaction, is_in
from coordinator.declared import resources, value_shapes
from coordinator.declared.change_impact import Touched
from coordinator.declared.contents import ReadPart, read_none
from coordinator.declared.fields import FieldFault
from coordinator.declared.kinds import EXEMPTING, Config, Exemption, Node
from coordinator.declared.model import Key, Model
from coordinator.declared.plans import ResourceChange
from coordinator.declared.resources import Declared, DeclaredProblem, InvalidResources
from coordinator.publishing import endpoints, file_contents, plan_check, proposals
from coordinator.publishing.effect import halted_changes
from coordinator.publishing.proposals import NO_VERDICT, PlanVerdict, Proposal

ALLOWED = "change.allow"
FEW = 500  # nodes


@dataclass(frozen=True)
class ApplyPlan:
    """What an apply does: its changes, what stays, and the scopes that have to be compiled again."""

    changes: tuple[ResourceChange, ...]
    unchanged: int
    touched: frozenset[Touched]
    based_on: str  # the state that it was made from; hand it to `apply` to carry out exactly this plan
    after: Model  # the state that it makes
    moved: int = 0  # resources that are declared in another place than is known
    plan_hash: str = ""
    change: StartedChange | None = None  # None where nothing was changed, or none was asked for
    verdict: PlanVerdict = NO_VERDICT  # what it was, or would be, refused for

    def lines(self, read: ReadPart = read_none) -> list[str]:
        """For people. `read`: what files hold, of which texts are shown line by line."""
        nodes = len({node_id for node_id, _ in self.touched})
        made = [line for change in self.changes for line in change_lines(change, read)]
        found = [f"{len(self.changes)} changes, {self.unchanged} unchanged, {nodes} nodes touched"]
        return [*made, *found, *(self.change.lines() if self.change is not None else ())]


def change_lines(change: ResourceChange, read: ReadPart = read_none) -> Iterator[str]:
    """One resource, for people."""
    before, after = change.before, change.after
    if not isinstance(before or after, Config):
        yield from change.lines()
        return
    yield change.title
    old, new = (resource if isinstance(resource, Config) else None for resource in (before, after))
    yield from config_diff.lines(old, new, read)


def apply(
    database: Database,
    texts: Mapping[str, str],
    *,
    actor: str,
    now: float,
    prune: bool = False,
    drop_endpoints: bool = False,
    dry_run: bool = False,
    based_on: str | None = None,
) -> ApplyPlan:
    """Apply the YAML of `texts` (file name to text) as a whole; InvalidResources with every problem."""
    settled = file_contents.settle(database, resources.read(texts), {}, value_shapes.shipped_shapes())
    uploads.add_all(database, settled.parts.values(), now=now)
    proposal = proposals.propose(database, settled.declared, prune=prune, based_on=based_on)
    return carry_out(
        database,
        proposal,
        actor=actor,
        now=now,
        drop_endpoints=drop_endpoints,
        dry_run=dry_run,
        based_on=based_on,
    )


class OutdatedProposal(Refused):
    """What it was made from is over. Nothing was changed: propose again."""

    def __init__(self) -> None:
        message = "another apply has changed the state since this plan was made"
        super().__init__(Code.CONCURRENT_UPDATE, message, remedy="look at the plan again, and apply once more")


def carry_out(
    database: Database,
    proposal: Proposal,
    *,
    actor: str,
    now: float,
    drop_endpoints: bool = False,
    dry_run: bool = False,
    based_on: str | None = None,
    ask: ChangeRequest | None = None,
) -> ApplyPlan:
    """Apply what is proposed, as a whole; with `ask` as a change, which holds nodes back.

    InvalidResources where the catalog says otherwise; `concurrent_update` when the state is no longer the one that
    `based_on` names (rules H38): nothing of the loser remains. `endpoint_in_use` when members need an endpoint that
    would go, unless `drop_endpoints` (rules L15); what the plan was judged to be refused for. OutdatedProposal where it
    was weighed or judged in another state; what was not is, here, while everybody waits.
    """
    enter = database.rehearse if dry_run else database.change
    with enter(actor=actor, now=now) as transaction:
        current = _current(transaction, proposal, based_on, ask)
        if current.verdict is not None and current.verdict.refusals and not dry_run:
            raise current.verdict.refusals[0]
        return _make(transaction, current, ask, drop_endpoints=drop_endpoints)


def _current(transaction: Transaction, proposal: Proposal, based_on: str | None, ask: ChangeRequest | None) -> Proposal:
    """The proposal, or where the state has moved on meanwhile another one: this is the state it will be made to."""
    state = catalog.state_name(transaction)
    proposals.check_base(based_on, state.state_id)
    if state.state_id != proposal.state_id:
        if proposal.effect is not None or proposal.verdict is not None:
            raise OutdatedProposal
        before = catalog.load(transaction)
        proposal = proposals.work_out(before, proposal.declared, prune=proposal.prune, state=state)
    if ask is None:
        return proposal
    halted = halted_changes(records.open_changes(transaction))
    if proposal.effect is not None:
        if proposal.effect.stands_on != halted:
            raise OutdatedProposal
        return proposal
    return plan_check.judge_in(transaction, proposal, ask)


def _make(
    transaction: Transaction, proposal: Proposal, ask: ChangeRequest | None, *, drop_endpoints: bool
) -> ApplyPlan:
    before, made = proposal.before, proposal.changes
    _check_catalog(transaction, proposal.declared)
    if left := [*sites.problems(transaction, made), *four_eyes.problems(transaction, proposal.declared, made)]:
        raise InvalidResources(left)
    if not drop_endpoints:
        endpoints.check(transaction, before.cluster, proposal.after.cluster)
    if ask is not None:
        four_eyes.check_policies(transaction, before, proposal.after)
    _check_contents(transaction, made)
    sites.follow(transaction, made)
    _write(transaction, proposal)
    moved = declared_places.follow(transaction, proposal.places, [change.key for change in made if not change.after])
    change = None if ask is None or not made else _begin(transaction, proposal, ask)
    if made:
        kept_back = change.held.keys() if change is not None else frozenset[str]()
        cluster_state.raise_generations(transaction, proposal.touched_nodes - kept_back)
        catalog.remember(transaction, proposal.after)
    flags = {"prune": proposal.prune, "drop_endpoints": drop_endpoints}
    transaction.audit("apply", before.cluster_id, None, {"changes": len(made), **flags})
    return ApplyPlan(
        made,
        proposal.unchanged_count,
        proposal.touched,
        proposal.state_id,
        proposal.after,
        moved,
        proposal.plan_hash,
        change,
        proposal.verdict or NO_VERDICT,
    )


def _begin(transaction: Transaction, proposal: Proposal, ask: ChangeRequest) -> StartedChange:
    effect = proposal.effect
    if effect is None:
        raise AssertionError("a change is weighed before it begins")
    plan = (proposal.plan, proposal.plan_hash, proposal.state_id)
    verdict = proposal.verdict or NO_VERDICT
    if not verdict.is_allowed:
        ask = replace(ask, allow="")  # there was nothing to let pass
    draft = ChangeDraft(ask, *plan, effect.held, effect.supersedes, effect.follows)
    change = change_start.begin(transaction, proposal.after, draft)
    if verdict.is_allowed:
        transaction.audit(ALLOWED, change.record.name, None, {"plan_hash": ask.allow, "worst": list(verdict.warnings)})
    return change


def _write(transaction: Transaction, proposal: Proposal) -> None:
    table, made = schema.resources, proposal.changes
    this = delete(table).where(table.c.kind == bindparam("of_kind"), table.c.id == bindparam("of_id"))
    gone = [change.key for change in made if change.after is None]
    transaction.run(this, [{"of_kind": kind, "of_id": id_} for kind, id_ in gone])
    revision = cluster_state.standing(transaction).revision + 1
    bodies = proposal.bodies.items()
    rows = [{"kind": kind, "id": id_, "body": body, "revision": revision} for (kind, id_), body in bodies]
    transaction.put(table, rows)
    acts = zip(made, proposal.texts, strict=True)
    transaction.audit_all([(f"resource.{change.verb}", " ".join(change.key), *texts) for change, texts in acts])
    transaction.audit_all([("resource.exempt", " ".join(key), None, asdict(change)) for key, change in _exempt(made)])


def _exempt(made: Iterable[ResourceChange]) -> Iterator[tuple[Key, Exemption]]:
    """Each value of what is written now that looks like a secret and is said to be none."""
    for change in made:
        if isinstance(change.after, EXEMPTING):
            yield from ((change.key, exemption) for exemption in change.after.exempt)


def _check_contents(transaction: Transaction, made: Iterable[ResourceChange]) -> None:
    """Whether all that is named is kept: it was when it was settled, and may have been trimmed since."""
    configs = (change.after for change in made if isinstance(change.after, Config))
    named = {part for config in configs for part in config.parts}
    if named and (gone := named - uploads.existing_parts(transaction, named)):
        message = f"{len(gone)} parts of files are not kept any more"
        raise Refused(Code.CONFLICT, message, remedy="apply once more: they are uploaded again")


def _check_catalog(transaction: Transaction, declared: Mapping[Key, Declared]) -> None:
    """What is declared of a node may not contradict what it is, or is allowed as (rules H-000-1)."""
    problems = list(
        _contradictions(transaction, {id_: entry for (kind, id_), entry in declared.items() if kind == Node.KIND})
    )
    if problems:
        raise InvalidResources(problems)


def _contradictions(transaction: Transaction, nodes: Mapping[str, Declared]) -> Iterator[DeclaredProblem]:
    """Of a few nodes their rows are asked for; of many, all that there are: naming them took longer."""
    for table, what in ((schema.nodes, "a member"), (schema.allowlist, "on the allowlist")):
        chosen = select(table.c.node_id, table.c.kind, table.c.site_id)
        asked = chosen.where(is_in(table.c.node_id, nodes)) if len(nodes) <= FEW else chosen
        for row in transaction.rows(asked):
            entry = nodes.get(row.node_id)
            if entry is not None:
                yield from _contradictions_of(entry, what, row.kind, row.site_id)


def _contradictions_of(each: Declared, what: str, kind: str, site_id: str) -> Iterator[DeclaredProblem]:
    node = each.resource
    if not isinstance(node, Node):
        return
    for field, given, there in (("kind", node.kind, kind), ("site", node.site, site_id)):
        if given != there:
            message = f"{node.id} is {what} with {field} {there}"
            yield each.problem(FieldFault(("spec", field), message, "remove it first, or declare it so"))

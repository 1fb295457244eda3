"""What a plan would make of the nodes, judged before anything of it is written: whether Expectations are met, and
whether it changes more than anybody usually means (plan_guard.py).

    judge(database, proposal, ask)    -> Proposal, weighed, with what it is refused for, and what is only said

Who means it all the same names the plan (`--allow PLAN_HASH`). Its hash is of this state and of this plan, so it lets
nothing else pass, and this once: afterwards the state is another one. A guard without a way through gets switched off.

Outside of the writer's lock, like the proposal itself: compiling is the dear part of an apply. A plan that was judged
is carried out to the state that it was judged in, and no other (declarations.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.changes.records import ChangeRequest
from coordinator.database import declared_places
from coordinator.database.database import Database, Transaction
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.foresight import with_declared_members
from coordinator.declared.kinds import Expectation
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.expected import expectations
from coordinator.expected.expectations import REMEDY, Judgement, UnmetExpectation
from coordinator.expected.plan_guard import GuardFinding, PlanGuard
from coordinator.publishing import proposals, published_state
from coordinator.publishing.proposals import PlanVerdict, Proposal
from coordinator.reports import service_limits

MOST_TOLD = 20  # of one sort
MOST_SHOWN = 1_024
WORST = 5
_LOOK_AGAIN = "look at the plan again: the state or the files are others than they were"


def judge(database: Database, proposal: Proposal, ask: ChangeRequest | None) -> Proposal:
    """From one consistent reading. What takes a change back is judged by nothing: it leads to where all has been."""
    if ask is not None and ask.reverts is not None:
        return proposals.weigh(database, proposal, reverts=ask.reverts).write_out()
    with database.read() as transaction:
        return judge_in(transaction, proposal, ask).write_out()


def judge_in(transaction: Transaction, proposal: Proposal, ask: ChangeRequest | None) -> Proposal:
    """The same in a transaction."""
    if ask is None:
        return replace(proposal, verdict=_judge_expectations(transaction, proposal))
    if ask.reverts is not None:
        return proposals.weigh_in(transaction, proposal, reverts=ask.reverts)
    touched = {node_id for node_id, _ in proposal.touched}
    guard = PlanGuard(len(proposal.before.members), service_limits.read(transaction, touched))
    weighed = proposals.weigh_in(transaction, proposal, look=lambda pair: guard.look(*pair))
    expected, usual = _judge_expectations(transaction, weighed), _judge_extent(weighed, guard.findings, ask)
    refusals = (*expected.refusals, *usual.refusals)
    verdict = PlanVerdict(refusals, (*expected.warnings, *usual.warnings), is_allowed=usual.is_allowed)
    return replace(weighed, verdict=verdict)


def _judge_extent(proposal: Proposal, findings: Sequence[GuardFinding], ask: ChangeRequest) -> PlanVerdict:
    """What lets another plan pass lets nothing pass: whoever gives it looked at something else."""
    if ask.allow and ask.allow != proposal.plan_hash:
        message = f"--allow names {bound_text(ask.allow, 80)}, and this plan is {proposal.plan_hash}"
        return PlanVerdict((Refused(Code.PLAN_DIFFERS, message, remedy=_LOOK_AGAIN),))
    if not findings:
        return PlanVerdict()
    if ask.allow:
        return PlanVerdict(warnings=tuple(f"allowed: {found.words}" for found in findings[:WORST]), is_allowed=True)
    return PlanVerdict((too_much(findings, proposal.plan_hash),))


def too_much(findings: Sequence[GuardFinding], plan_hash: str) -> Refused:
    """With the worst of it, and the way through."""
    more = f", of which these are the worst {WORST}" if len(findings) > WORST else ""
    what = "1 thing is" if len(findings) == 1 else f"{len(findings):,} things are"
    message = f"{what} more than a change usually does{more}; nothing was changed"
    remedy = f"look at the plan; if it is meant: holdfastctl apply --allow {plan_hash}"
    return Refused(Code.TOO_MUCH_CHANGE, message, remedy=remedy, lines=[found.words for found in findings[:WORST]])


def _judge_expectations(transaction: Transaction, proposal: Proposal) -> PlanVerdict:
    if not proposal.changes or not proposal.after.of(Expectation):
        return PlanVerdict()
    before, after = with_declared_members(proposal.before), with_declared_members(proposal.after)
    judged = expectations.judge(before, after, affected_scopes(before, after), published_state.reader(transaction))
    warnings = (*(f"Expectation {unmet.words}" for unmet in judged.warning[:MOST_TOLD]), *_idle(judged))
    if not judged.refusing:
        return PlanVerdict(warnings=warnings)
    problems = _problems(transaction, proposal, judged.refusing)
    return PlanVerdict((InvalidResources(problems, Code.EXPECTATION_FAILED),), warnings)


def _idle(judged: Judgement) -> Iterator[str]:
    for expectation in judged.idle[:MOST_TOLD]:
        yield f"Expectation {expectation.id} concerns no node; correct its `of` or its `scope`"


def _problems(
    transaction: Transaction, proposal: Proposal, unmet: Iterable[UnmetExpectation]
) -> Iterator[DeclaredProblem]:
    """Each where its Expectation begins, by what is applied now or was last."""
    told = list(unmet)[:MOST_TOLD]
    known = declared_places.read(transaction, [fault.expectation.key for fault in told])
    for fault in told:
        key = fault.expectation.key
        entry = proposal.declared.get(key)
        file, line = declared_places.place_of(entry) if entry is not None else known.get(key, ("(declared)", 0))
        yield DeclaredProblem(file, line, "spec.is", bound_text(fault.words, MOST_SHOWN), REMEDY)

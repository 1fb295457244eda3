"""What comes next for a change: votes, rings, bakes, what halts it, and who holds nothing up."""

import math
from dataclasses import replace

import pytest

from coordinator.changes import progress
from coordinator.changes.groups import ChangeGroup, parse_group
from coordinator.changes.progress import ACTIVATE_S, NOW_S, PREPARE_S, ChangeProgress, NextMoves, NodeProgress, decide
from coordinator.changes.rollout_policy import DEFAULT, EVERYBODY, Rollout
from coordinator.changes.states import ChangeState, GroupPhase, Outcome, Presence, Step, Verdict
from coordinator.declared.kinds import RolloutRing

BAKE_S = 30.0
TWO = Rollout(rings=(RolloutRing(nodes=1), *EVERYBODY))


def change(phase: GroupPhase, ring: int = 0, rollout: Rollout = TWO, **values: object) -> ChangeProgress:
    state = ChangeState.ROLLING if ring else ChangeState.PREPARING
    made = ChangeProgress(41, state, (ChangeGroup("", rollout, ring, phase=phase),))
    return replace(made, **values)


def nodes(count: int, **values: object) -> list[NodeProgress]:
    return [NodeProgress(f"n{number}", **values) for number in range(count)]


def asked(count: int, verdict: Verdict = Verdict.NONE, told_s: float = 1.0, **values: object) -> list[NodeProgress]:
    return nodes(count, step=Step.OFFERED, verdict=verdict, told_s=told_s, **values)


def given_to(node: NodeProgress, outcome: Outcome, ring: int = 1, **values: object) -> NodeProgress:
    active_s = BAKE_S if outcome in (Outcome.ACTIVE, Outcome.GOOD) else None
    made = replace(node, step=Step.RELEASED, ring=ring, outcome=outcome, told_s=40.0, active_s=active_s)
    return replace(made, **values)


def phase_of(decision: NextMoves) -> GroupPhase:
    (move,) = decision.moves
    return move.phase


def released(decision: NextMoves) -> set[str]:
    return {node_id for move in decision.moves for node_id in move.release}


# ---- who is asked


def test_all_are_asked_before_the_first_runs_it() -> None:
    (move,) = decide(change(GroupPhase.PENDING), nodes(5)).moves
    assert (move.phase, len(move.offer), move.release) == (GroupPhase.VOTING, 5, ())
    waiting = decide(change(GroupPhase.VOTING), [*asked(4, Verdict.ACCEPTED), asked(5)[-1]])
    assert waiting.moves == () and "n4" in waiting.waits[0]
    assert phase_of(decide(change(GroupPhase.VOTING), asked(5, Verdict.ACCEPTED))) is GroupPhase.READY
    go = decide(change(GroupPhase.READY), asked(5, Verdict.ACCEPTED))
    assert (go.state, len(released(go))) == (ChangeState.ROLLING, 1)


def test_of_a_ring_only_that_ring_is_asked() -> None:
    rollout = replace(TWO, prepare="ring")
    (move,) = decide(change(GroupPhase.PENDING, rollout=rollout), nodes(5)).moves
    assert (move.phase, len(move.offer)) == (GroupPhase.VOTING, 1)
    fleet = [replace(node, step=Step.OFFERED if node.node_id in move.offer else Step.HELD) for node in nodes(5)]
    accepted = [replace(node, verdict=Verdict.ACCEPTED) for node in fleet]
    assert phase_of(decide(change(GroupPhase.VOTING, rollout=rollout), accepted)) is GroupPhase.READY
    assert released(decide(change(GroupPhase.READY, rollout=rollout), accepted)) == set(move.offer)


def test_where_nobody_is_asked_the_first_ring_gets_it() -> None:
    rollout = replace(TWO, prepare="none")
    for phase in (GroupPhase.PENDING, GroupPhase.READY):
        go = decide(change(phase, rollout=rollout), nodes(5))
        assert (go.state, phase_of(go), len(released(go))) == (ChangeState.ROLLING, GroupPhase.BAKING, 1)
    away = nodes(5, presence=Presence.UNKNOWN)
    assert phase_of(decide(change(GroupPhase.PENDING, rollout=rollout), away)) is GroupPhase.READY


def test_where_nobody_is_asked_it_waits_for_those_that_are() -> None:
    """With the first look at both, and for as long as the others vote."""
    unasked, asked_first = ChangeGroup("", replace(TWO, prepare="none")), ChangeGroup("b", TWO)
    made = replace(change(GroupPhase.PENDING), groups=(unasked, asked_first))
    fleet = [*nodes(2), replace(nodes(3)[2], group=1)]
    moves = decide(made, fleet).moves
    assert [(move.phase, move.release) for move in moves] == [(GroupPhase.READY, ()), (GroupPhase.VOTING, ())]
    for phase in (GroupPhase.PENDING, GroupPhase.READY):
        voting = replace(made, groups=(replace(unasked, phase=phase), replace(asked_first, phase=GroupPhase.VOTING)))
        assert released(decide(voting, fleet)) == set()


def test_a_refusal_beyond_the_tolerance_halts_at_once_with_nobody_changed() -> None:
    fleet = [*asked(4), replace(asked(5)[-1], verdict=Verdict.REFUSED, words="nginx: no such upstream")]
    halted = decide(change(GroupPhase.VOTING, rollout=replace(TWO, on_failure="revert")), fleet)
    assert halted.state is ChangeState.HALTED, "there is nothing to give back"
    assert "n4 refused (nginx: no such upstream)" in halted.why and "1 of 5" in halted.why
    assert [move.outcomes for move in halted.moves] == [{"n4": Outcome.REFUSED}]
    assert released(halted) == set()


def test_a_refusal_within_the_tolerance_leaves_that_node_aside() -> None:
    rollout = replace(TWO, success_percent=80)
    fleet = [*asked(4, Verdict.ACCEPTED), replace(asked(5)[-1], verdict=Verdict.REFUSED)]
    (move,) = decide(change(GroupPhase.VOTING, rollout=rollout), fleet).moves
    assert (move.phase, move.outcomes) == (GroupPhase.READY, {"n4": Outcome.REFUSED})
    aside = [*fleet[:4], replace(fleet[4], outcome=Outcome.REFUSED)]
    everybody = replace(rollout, rings=EVERYBODY)
    assert released(decide(change(GroupPhase.READY, rollout=everybody), aside)) == {"n0", "n1", "n2", "n3"}


def test_who_is_reachable_and_silent_did_not_accept() -> None:
    fleet = [*asked(4, Verdict.ACCEPTED), asked(5, told_s=PREPARE_S)[-1]]
    halted = decide(change(GroupPhase.VOTING), fleet)
    assert halted.state is ChangeState.HALTED and "n4 silent" in halted.why


def test_who_was_not_told_yet_is_waited_for() -> None:
    fleet = [*asked(4, Verdict.ACCEPTED), replace(asked(5)[-1], told_s=None)]
    decision = decide(change(GroupPhase.VOTING), fleet)
    assert decision.moves == () and "1 of them not told yet" in decision.waits[0]


def test_offline_nodes_hold_nothing_up_and_agents_that_cannot_vote_are_not_asked() -> None:
    fleet = [
        *asked(3, Verdict.ACCEPTED),
        replace(asked(4)[-1], presence=Presence.OFFLINE),
        replace(asked(5)[-1], can_vote=False, told_s=PREPARE_S),
    ]
    assert phase_of(decide(change(GroupPhase.VOTING), fleet)) is GroupPhase.READY
    everybody = replace(TWO, rings=EVERYBODY)
    assert released(decide(change(GroupPhase.READY, rollout=everybody), fleet)) == {"n0", "n1", "n2", "n4"}


def test_nobody_reachable_at_all_is_waited_for() -> None:
    decision = decide(change(GroupPhase.VOTING), asked(3, presence=Presence.OFFLINE))
    assert decision == NextMoves(waits={0: "no node is reachable"})
    cut_off = [given_to(nodes(1)[0], Outcome.GOOD), *asked(3, Verdict.ACCEPTED)[1:]]
    away = [replace(node, presence=Presence.OFFLINE) for node in cut_off]
    assert decide(change(GroupPhase.READY, 1), away).waits == {0: "no node is reachable"}


def test_what_takes_a_change_back_waits_for_nobody_that_is_gone() -> None:
    """Nor does what comes after it. It has to be known of all of them."""
    gone = asked(2, presence=Presence.OFFLINE)
    assert phase_of(decide(change(GroupPhase.VOTING, takes_back=True), gone)) is GroupPhase.READY
    assert decide(change(GroupPhase.READY, takes_back=True), gone).state is ChangeState.DONE
    for presence in (Presence.UNKNOWN, Presence.REACHABLE):
        decision = decide(change(GroupPhase.VOTING, takes_back=True), [gone[0], asked(2, presence=presence)[1]])
        assert decision.moves == () and decision.waits


def test_before_it_is_known_who_is_reachable_nothing_is_let_go() -> None:
    fleet = [*asked(3, Verdict.ACCEPTED), replace(asked(4)[-1], presence=Presence.UNKNOWN)]
    for phase in (GroupPhase.VOTING, GroupPhase.READY):
        decision = decide(change(phase), fleet)
        assert decision.moves == () and decision.waits


def test_now_asks_those_that_answer_at_once() -> None:
    at_once = change(GroupPhase.VOTING, rollout=DEFAULT.at_once, is_immediate=True)
    slow = [*asked(3, Verdict.ACCEPTED), asked(4, told_s=NOW_S)[-1]]
    assert phase_of(decide(at_once, slow)) is GroupPhase.READY
    assert (
        len(released(decide(replace(at_once, groups=(replace(at_once.groups[0], phase=GroupPhase.READY),)), slow))) == 4
    )
    refused = [*slow[:3], replace(slow[3], verdict=Verdict.REFUSED)]
    assert decide(at_once, refused).state is ChangeState.HALTED, "a no is a no"


def test_no_group_begins_before_all_were_asked() -> None:
    groups = (ChangeGroup("a", TWO, phase=GroupPhase.READY), ChangeGroup("b", TWO, phase=GroupPhase.VOTING))
    made = replace(change(GroupPhase.READY), groups=groups)
    fleet = [*asked(2, Verdict.ACCEPTED), *(replace(node, group=1) for node in asked(4)[2:])]
    assert decide(made, fleet).moves == ()
    said = [replace(node, verdict=Verdict.ACCEPTED) for node in fleet]
    assert phase_of(decide(made, said)) is GroupPhase.READY


def test_what_was_accepted_may_be_refused_by_the_time_it_would_be_given() -> None:
    fleet = [given_to(nodes(1)[0], Outcome.GOOD), *asked(5, Verdict.ACCEPTED)[1:4], asked(5, Verdict.REFUSED)[4]]
    assert decide(change(GroupPhase.READY, 1), fleet).state is ChangeState.HALTED


# ---- how it goes


def ring_of(*outcomes: Outcome, rest: int = 3, **values: object) -> list[NodeProgress]:
    given = [given_to(node, outcome, **values) for node, outcome in zip(nodes(len(outcomes)), outcomes, strict=True)]
    return [*given, *asked(len(outcomes) + rest, Verdict.ACCEPTED)[len(outcomes) :]]


def test_a_ring_passes_when_all_have_run_it_for_the_bake() -> None:
    assert phase_of(decide(change(GroupPhase.BAKING, 1), ring_of(Outcome.ACTIVE))) is GroupPhase.READY
    early = decide(change(GroupPhase.BAKING, 1), ring_of(Outcome.ACTIVE, active_s=BAKE_S - 1))
    assert (early.moves, early.waits, early.due_s) == ((), {0: "ring 1 bakes for 1 s more"}, 1.0)
    absent = decide(change(GroupPhase.BAKING, 1), ring_of(Outcome.ACTIVE, Outcome.NONE))
    assert (absent.moves, absent.due_s) == ((), math.inf), "that one runs it is said by a report"
    last = decide(change(GroupPhase.READY, 2), ring_of(Outcome.GOOD, Outcome.GOOD, rest=0))
    assert (phase_of(last), last.state) == (GroupPhase.PASSED, ChangeState.DONE)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.REVERTED, Outcome.SILENT])
@pytest.mark.parametrize(("on_failure", "state"), [("halt", ChangeState.HALTED), ("revert", ChangeState.REVERTING)])
def test_a_ring_that_fails_is_not_waited_for(outcome: Outcome, on_failure: str, state: ChangeState) -> None:
    fleet = ring_of(outcome, Outcome.NONE)
    decision = decide(change(GroupPhase.BAKING, 1, replace(TWO, on_failure=on_failure)), fleet)
    assert decision.state is state and f"n0 {outcome}" in decision.why
    assert released(decision) == set()


def test_who_is_not_heard_of_with_it_has_failed_also_where_it_is_gone() -> None:
    for presence in Presence:
        fleet = ring_of(Outcome.NONE, told_s=ACTIVATE_S, presence=presence)
        decision = decide(change(GroupPhase.BAKING, 1), fleet)
        assert decision.state is ChangeState.HALTED
        assert [move.outcomes for move in decision.moves] == [{"n0": Outcome.SILENT}]
    assert decide(change(GroupPhase.BAKING, 1), ring_of(Outcome.NONE, told_s=None)).state is None, "it was not told"


def test_who_vanishes_in_the_bake_has_failed() -> None:
    gone = ring_of(Outcome.ACTIVE, presence=Presence.OFFLINE)
    assert decide(change(GroupPhase.BAKING, 1), gone).state is ChangeState.HALTED
    unknown = ring_of(Outcome.ACTIVE, presence=Presence.UNKNOWN)
    assert decide(change(GroupPhase.BAKING, 1), unknown).moves == ()


def test_who_can_prove_it_has_to() -> None:
    owing = ring_of(Outcome.ACTIVE, proves=True)
    decision = decide(change(GroupPhase.BAKING, 1), owing)
    assert decision.moves == () and "not said yet that all is well: n0" in decision.waits[0]
    late = ring_of(Outcome.ACTIVE, proves=True, active_s=BAKE_S + ACTIVATE_S)
    assert decide(change(GroupPhase.BAKING, 1), late).state is ChangeState.HALTED
    assert phase_of(decide(change(GroupPhase.BAKING, 1), ring_of(Outcome.GOOD, proves=True))) is GroupPhase.READY


def test_a_failure_within_the_tolerance_is_left_aside() -> None:
    rollout = replace(TWO, success_percent=50)
    fleet = ring_of(Outcome.GOOD, Outcome.REFUSED)
    assert phase_of(decide(change(GroupPhase.BAKING, 1, rollout), fleet)) is GroupPhase.READY
    silent = ring_of(Outcome.GOOD, Outcome.NONE)
    silent[1] = replace(silent[1], told_s=ACTIVATE_S)
    decision = decide(change(GroupPhase.BAKING, 1, rollout), silent)
    assert (decision.state, decision.moves[0].outcomes) == (None, {"n1": Outcome.SILENT})


def test_damage_that_comes_late_is_that_of_its_ring() -> None:
    """The canary goes back while the second ring bakes: one of many, and all of its ring."""
    fleet = [given_to(nodes(1)[0], Outcome.REVERTED, 1), *(given_to(node, Outcome.GOOD, 2) for node in nodes(200)[1:])]
    decision = decide(change(GroupPhase.BAKING, 2), fleet)
    assert decision.state is ChangeState.HALTED and "1 of 1 nodes of ring 1" in decision.why


@pytest.mark.parametrize("phase", list(GroupPhase))
def test_a_ring_that_has_passed_is_looked_at_for_as_long_as_the_change_is_open(phase: GroupPhase) -> None:
    """Also while the next ring is asked, or the group is over and another one is not."""
    made = change(phase, 1, replace(TWO, prepare="ring"))
    other = replace(made, groups=(*made.groups, ChangeGroup("b", TWO, 1, phase=GroupPhase.BAKING)))
    decision = decide(other, ring_of(Outcome.REVERTED))
    assert decision.state is ChangeState.HALTED and "n0 reverted" in decision.why


def test_who_joins_meanwhile_is_asked_too() -> None:
    fleet = [*ring_of(Outcome.ACTIVE), NodeProgress("late")]
    (move,) = decide(change(GroupPhase.BAKING, 1), fleet).moves
    assert (move.phase, move.ring, move.offer) == (GroupPhase.BAKING, 1, ("late",))


def test_before_the_last_ring_those_that_have_come_back_may_say() -> None:
    fleet = [given_to(nodes(1)[0], Outcome.GOOD), *asked(4, Verdict.ACCEPTED)[1:3], asked(4)[3]]
    decision = decide(change(GroupPhase.READY, 1), fleet)
    assert decision.moves == () and "n3" in decision.waits[0]


def test_offline_nodes_get_it_when_it_is_done() -> None:
    fleet = [
        *(given_to(node, Outcome.GOOD, 2) for node in nodes(3)),
        replace(asked(4, Verdict.ACCEPTED)[3], presence=Presence.OFFLINE),
    ]
    assert decide(change(GroupPhase.READY, 2), fleet).state is ChangeState.DONE


def test_where_all_have_left_it_is_done() -> None:
    assert decide(change(GroupPhase.VOTING), []).state is ChangeState.DONE
    assert decide(replace(change(GroupPhase.VOTING), groups=()), []).state is ChangeState.DONE


# ---- people


@pytest.mark.parametrize("state", [state for state in ChangeState if state not in ("preparing", "rolling")])
def test_what_waits_for_a_person_or_is_over_goes_nowhere(state: ChangeState) -> None:
    for phase in GroupPhase:
        assert decide(replace(change(phase), state=state), nodes(3)) == NextMoves()
    assert decide(replace(change(GroupPhase.PENDING), is_waiting=True), nodes(3)) == NextMoves()


def test_a_ring_of_which_nothing_is_left_is_let_go_again_with_others() -> None:
    fleet = ring_of(Outcome.REVERTED)
    resumed = progress.resume(change(GroupPhase.BAKING, 1), fleet)
    (group,) = resumed.groups
    assert (group.phase, group.ring, resumed.aside) == (GroupPhase.READY, 0, ("n0",))
    after = [replace(fleet[0], ring=None), *fleet[1:]]
    again = decide(replace(change(GroupPhase.READY, 1), groups=resumed.groups), after)
    assert len(released(again)) == 1 and "n0" not in released(again) and again.moves[0].ring == 1


def test_a_ring_of_which_something_is_left_bakes_on() -> None:
    fleet = ring_of(Outcome.REVERTED, Outcome.ACTIVE)
    resumed = progress.resume(change(GroupPhase.BAKING, 1), fleet)
    assert (resumed.groups[0].phase, resumed.groups[0].ring, resumed.aside) == (GroupPhase.BAKING, 1, ("n0",))


def refused_by_all(count: int = 3, **values: object) -> list[NodeProgress]:
    return asked(count, outcome=Outcome.REFUSED, words="no such upstream", **values)


def test_where_nobody_accepts_it_is_halted_and_never_done() -> None:
    """A person has resumed it over every refusal, and each is said again."""
    fleet = refused_by_all(verdict=Verdict.REFUSED)
    assert phase_of(decide(change(GroupPhase.VOTING), fleet)) is GroupPhase.READY
    halted = decide(change(GroupPhase.READY), fleet)
    assert (halted.state, halted.moves) == (ChangeState.HALTED, ())
    assert halted.why.startswith("none of 3 nodes has accepted it: n0 refused (no such upstream); n1 refused")


def test_who_has_refused_is_heard_anew_before_that() -> None:
    """For as long as any vote is waited for; one that says yes has it."""
    fleet = refused_by_all()
    assert "n0, n1, n2" in decide(change(GroupPhase.READY), fleet).waits[0]
    mended = [*fleet[:2], replace(fleet[2], verdict=Verdict.ACCEPTED, outcome=Outcome.NONE)]
    assert released(decide(change(GroupPhase.READY), mended)) == {"n2"}
    assert decide(change(GroupPhase.READY), refused_by_all(told_s=PREPARE_S)).state is ChangeState.HALTED


def test_who_is_offline_is_not_waited_for_where_all_others_refuse() -> None:
    """What comes after it would wait as long. But where nobody is reachable, it is us who are cut off."""
    away = asked(4, presence=Presence.OFFLINE)[-1]
    fleet = refused_by_all(verdict=Verdict.REFUSED)
    assert decide(change(GroupPhase.READY), [*fleet, away]).state is ChangeState.HALTED
    all_away = [replace(node, presence=Presence.OFFLINE) for node in fleet]
    assert decide(change(GroupPhase.READY), all_away) == NextMoves(waits={0: "no node is reachable"})


def test_a_group_is_read_as_it_was_written() -> None:
    group = ChangeGroup("standard", TWO, 2, 7.0, GroupPhase.BAKING, {"active": 3}, {"p50": 1.5})
    assert parse_group(group.to_value()) == group

"""Changes from ring to ring over a real database: votes, bakes, failures, restarts, two coordinators."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coordinator.changes import records
from coordinator.changes.progress import ACTIVATE_S
from coordinator.changes.states import ChangeState, Outcome, Step
from coordinator.database import catalog
from coordinator.database.database import Database, Transaction
from coordinator.rollout import commands, facts
from coordinator.rollout.rollout import Rollouts
from tests.coordinator.rollouts import SCOPE, RolloutFleet

BAKE_S = 20
OLD = "sha256:" + "0" * 64
POLICY = """
kind: RolloutPolicy
id: standard
spec: {{rings: [{{nodes: 1}}, {{percent: 50}}, {{percent: 100}}], bake_s: 20, on_failure: {on_failure}}}
"""

AT_ONCE = "{kind: RolloutPolicy, id: standard, spec: {prepare: none, rings: [{percent: 100}], bake_s: 0}}"


@pytest.fixture
def fleet(database: Database) -> RolloutFleet:
    return RolloutFleet.of(database, 4, POLICY.format(on_failure="halt"))


def ask(fleet: RolloutFleet, **asked: object) -> None:
    """All are asked, and told so."""
    fleet.change(9, **asked)
    fleet.look()
    fleet.tell()


def roll(fleet: RolloutFleet) -> set[str]:
    """Until the first ring has it."""
    ask(fleet)
    fleet.report(*fleet.ids, vote="accepted")
    fleet.look()
    fleet.tell()
    return fleet.at(Step.RELEASED)


def test_a_change_goes_from_ring_to_ring_until_it_is_done(fleet: RolloutFleet) -> None:
    fleet.change(9)
    assert fleet.at(Step.HELD) == set(fleet.ids)
    fleet.look()
    assert fleet.at(Step.OFFERED) == set(fleet.ids) and fleet.woken
    fleet.tell()
    fleet.report(*fleet.ids[:3], vote="accepted")
    fleet.look()
    assert fleet.at(Step.OFFERED) == set(fleet.ids), "one has not voted"
    fleet.report(fleet.ids[3], vote="accepted")
    sizes = []
    for _ in range(3):
        fleet.look()
        fleet.tell()
        sizes.append(len(fleet.at(Step.RELEASED)))
        fleet.report(*fleet.ids)
        fleet.wait(19, *fleet.ids)
        assert fleet.record().state is ChangeState.ROLLING
        fleet.wait(1, *fleet.ids)
    record = fleet.record()
    assert (sizes, record.state, record.settled_at) == ([1, 2, 4], ChangeState.DONE, fleet.now)
    assert record.groups[0].counts == {"active": 4} and record.groups[0].took["p99"] == 40.0
    assert fleet.rows() == {}
    said = [event.what for event in fleet.timeline()]
    assert said == ["preparing", "asked", "accepted", "given", "passed", "given", "passed", "given", "passed", "done"]


def test_what_is_given_to_nodes_is_not_looked_at_again_before_they_say_something(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look reads all nodes of the change: it would hold up the publisher, which makes their heads then."""
    fleet, looks = RolloutFleet.of(database, 3, AT_ONCE), list[int]()
    look_at = Rollouts._look_at
    monkeypatch.setattr(Rollouts, "_look_at", lambda engine, *of: looks.append(fleet.woken) or look_at(engine, *of))
    fleet.change(9)
    fleet.look()
    assert (fleet.at(Step.RELEASED), looks, fleet.woken) == (set(fleet.ids), [0], 1)
    fleet.tell()
    fleet.report(*fleet.ids)
    fleet.look()
    assert fleet.record().state is ChangeState.DONE


def test_what_nodes_say_of_themselves_is_not_read_while_all_who_write_wait(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10,000 nodes that takes half a second, in which no report would be written: it is read before."""
    fleet, open_ones, read = RolloutFleet.of(database, 3, AT_ONCE), list[Database](), list[bool]()
    parse, change = facts._parse, Database.change

    @contextmanager
    def watched(at: Database, **said: object) -> Iterator[Transaction]:
        with change(at, **said) as transaction:
            open_ones.append(at)
            try:
                yield transaction
            finally:
                open_ones.pop()

    monkeypatch.setattr(facts, "_parse", lambda *of: (read.append(bool(open_ones)), parse(*of))[1])
    fleet.change(9)
    monkeypatch.setattr(Database, "change", watched)
    fleet.look()
    assert fleet.at(Step.RELEASED) == set(fleet.ids)
    assert read == [False] * 3


def test_a_change_that_has_just_begun_and_cannot_go_on_says_why(database: Database) -> None:
    fleet = RolloutFleet.of(database, 3, AT_ONCE.replace("none", "ring"))
    fleet.now, fleet.elapsed = fleet.now + 1_000, fleet.elapsed + 1_000
    fleet.change(9)
    engine = fleet.new_engine()
    fleet.look(engine)
    assert (fleet.record().revision, engine.health.waits) == (1, {fleet.record().name: ("no node is reachable",)})
    fleet.report(*fleet.ids)
    fleet.look(engine)
    assert fleet.at(Step.OFFERED) == set(fleet.ids)


def test_a_refusal_halts_with_nobody_changed(fleet: RolloutFleet) -> None:
    ask(fleet)
    fleet.report(*fleet.ids[:3], vote="accepted")
    fleet.report("n3", vote="refused", reason="nginx: no such upstream")
    fleet.look()
    record = fleet.record()
    assert record.state is ChangeState.HALTED and "n3 refused" in record.why and "no such upstream" in record.why
    assert fleet.at(Step.HELD) == set(fleet.ids), "nothing is offered any more"
    assert [(event.node_id, event.detail) for event in fleet.timeline() if event.what == "refused"] == [
        ("n3", "service_assignment/web: nginx: no such upstream: it says no")
    ]
    restarted = fleet.new_engine()
    for _ in range(3):
        fleet.look(restarted)
    assert fleet.record() == record, "halted stays halted"


def refused_by_all(fleet: RolloutFleet) -> None:
    """Then a person has let it go on, and each node is told that it is asked anew."""
    ask(fleet)
    fleet.report(*fleet.ids, vote="refused", reason="nginx: no such upstream")
    fleet.look()
    assert {row.outcome for row in fleet.rows().values()} == {Outcome.REFUSED}
    fleet.tell()
    commands.resume(fleet.database, 1, "looked", actor="operator:ann", now=fleet.now)
    fleet.look()
    fleet.tell()
    fleet.wait(10, *fleet.ids)
    assert fleet.record().state is ChangeState.PREPARING, "what was said before does not count"


def test_what_all_refuse_again_is_halted_again(fleet: RolloutFleet) -> None:
    """Whatever comes after it would wait for ever otherwise."""
    refused_by_all(fleet)
    fleet.report(*fleet.ids, vote="refused", reason="nginx: no such upstream")
    fleet.look()
    record = fleet.record()
    assert record.state is ChangeState.HALTED and record.why.startswith("none of 4 nodes has accepted it: n0 refused")
    assert fleet.at(Step.HELD) == set(fleet.ids)


def test_whose_validator_was_mended_says_yes_anew(fleet: RolloutFleet) -> None:
    refused_by_all(fleet)
    fleet.report(*fleet.ids[1:], vote="accepted")
    fleet.report("n0", vote="refused", reason="nginx: no such upstream")
    fleet.look()
    assert fleet.record().state is ChangeState.ROLLING and len(fleet.at(Step.RELEASED)) == 1
    assert {id_ for id_, row in fleet.rows().items() if row.outcome == Outcome.REFUSED} == {"n0"}


def test_a_ring_that_fails_goes_no_further(fleet: RolloutFleet) -> None:
    (canary,) = roll(fleet)
    fleet.wait(130, *(node_id for node_id in fleet.ids if node_id != canary), runs=OLD, every_s=10)
    record = fleet.record()
    assert record.state is ChangeState.HALTED and f"{canary} silent" in record.why
    assert fleet.at(Step.RELEASED) == {canary} and fleet.at(Step.HELD) == set(fleet.ids) - {canary}
    assert fleet.rows()[canary].outcome == Outcome.SILENT


RAN = {"good": "sha256:" + "0" * 64}  # of an agent that watches what it runs


def test_a_canary_that_does_not_come_back(fleet: RolloutFleet) -> None:
    """A file that its parser does not survive, at no start of the machine (CrowdStrike, July 2024): the node has run
    it, and says nothing any more. Nobody else is given it, and the next change goes to all that are there.
    """
    fleet.report(*fleet.ids, scope=RAN)
    (canary,) = roll(fleet)
    others = [node_id for node_id in fleet.ids if node_id != canary]
    fleet.report(canary, scope=RAN)
    fleet.wait(int(BAKE_S + ACTIVATE_S) - 10, *others, runs=OLD, every_s=10)
    assert fleet.rows()[canary].outcome == Outcome.ACTIVE and fleet.record().state is ChangeState.ROLLING
    fleet.wait(10, *others, runs=OLD, every_s=10)
    record = fleet.record()
    assert (
        record.state is ChangeState.HALTED and f"1 of 1 nodes of ring 1 did not keep it: {canary} silent" in record.why
    )
    assert fleet.at(Step.RELEASED) == {canary}
    fleet.change(10)
    fleet.look()
    fleet.tell()
    fleet.report(*others, vote="accepted")
    fleet.look()
    fleet.tell()
    assert fleet.record(1).state is ChangeState.SUPERSEDED
    assert len(fleet.at(Step.RELEASED, 2)) == 1 and canary not in fleet.at(Step.RELEASED, 2)


def test_a_canary_that_is_gone_keeps_nobody_from_the_next_change(database: Database) -> None:
    """What takes its change back leads where all have been, and does not wait for it; it gets that when it returns."""
    fleet = RolloutFleet.of(database, 4, POLICY.format(on_failure="revert"))
    (canary,) = roll(fleet)
    others = [node_id for node_id in fleet.ids if node_id != canary]
    tried = fleet.listed(canary)[SCOPE]["content_hash"]
    fleet.wait(120, *others, runs=OLD, every_s=10)
    assert fleet.record(1).state is ChangeState.ROLLING
    fleet.wait(10, *others, runs=OLD, every_s=10)
    assert (fleet.record(1).state, fleet.record(2).state) == (ChangeState.REVERTED, ChangeState.DONE)
    assert fleet.record(2).reverts == 1 and fleet.listed(canary)[SCOPE]["content_hash"] != tried
    fleet.change(10)
    fleet.look()
    fleet.tell()
    fleet.report(*others, vote="accepted", runs=OLD)
    fleet.look()
    fleet.tell()
    assert len(fleet.at(Step.RELEASED, 3)) == 1 and canary not in fleet.at(Step.RELEASED, 3)


def test_a_canary_that_comes_back_without_it(fleet: RolloutFleet) -> None:
    """It has gone back by itself before anybody heard of it: that is a no like any other, within the bake."""
    (canary,) = roll(fleet)
    others = [node_id for node_id in fleet.ids if node_id != canary]
    fleet.report(canary, scope=RAN)
    fleet.wait(10, *others, runs=OLD, every_s=10)
    tried = fleet.listed(canary)[SCOPE]
    back = {"config_version": tried["config_version"], "content_hash": tried["content_hash"], "check": "start"}
    back |= {"detail": "the machine ended 2 times without order", "at": "2027-01-15T08:00:00Z"}
    fleet.report(canary, scope={"reverted": back}, runs=OLD)
    fleet.look()
    record = fleet.record()
    assert record.state is ChangeState.HALTED and f"{canary} reverted" in record.why
    assert "the machine ended 2 times without order" in record.why
    assert fleet.at(Step.RELEASED) == {canary}


def test_a_failure_takes_it_back_where_the_policy_says_so(database: Database) -> None:
    fleet = RolloutFleet.of(database, 4, POLICY.format(on_failure="revert"))
    (canary,) = roll(fleet)
    fleet.report(canary, scope={"last_rejected": {**_rejection(fleet, canary)}}, runs="sha256:" + "0" * 64)
    fleet.look()
    assert fleet.record().state is ChangeState.REVERTING and f"{canary} refused" in fleet.record().why
    revert = fleet.record(2)
    assert (revert.reverts, revert.actor, revert.state) == (1, "coordinator", ChangeState.PREPARING)
    assert set(fleet.rows(2)) == {canary}, "the others have nothing that is to be taken back"
    fleet.tell()
    fleet.report(canary, vote="accepted", runs="sha256:" + "0" * 64)
    fleet.look()
    fleet.tell()
    assert fleet.at(Step.RELEASED, 2) == {canary}
    fleet.report(*fleet.ids)
    fleet.look()
    assert (fleet.record(1).state, fleet.record(2).state) == (ChangeState.REVERTED, ChangeState.DONE)
    assert fleet.rows(1) == {} == fleet.rows(2)


def test_what_failed_in_the_place_of_what_was_refused_goes_back_behind_both(database: Database) -> None:
    """Nobody has run what was refused: a state that every node would refuse again is no way back."""
    fleet = RolloutFleet.of(database, 4, POLICY.format(on_failure="revert"))
    fleet.change(2)
    fleet.look()
    fleet.tell()
    fleet.report(*fleet.ids, vote="refused")
    fleet.look()
    assert fleet.record(1).state is ChangeState.HALTED
    fleet.tell()
    roll(fleet)
    (canary,) = fleet.at(Step.RELEASED, 2)
    assert fleet.record(1).superseded_by == 2
    fleet.report(canary, scope={"last_rejected": {**_rejection(fleet, canary)}}, runs="sha256:" + "0" * 64)
    fleet.look()
    assert fleet.record(3).reverts == 2 and fleet.record(2).state is ChangeState.REVERTING
    with database.read() as transaction:
        (web,) = (found for key, found in catalog.load(transaction).resources.items() if key == ("Service", "web"))
        (made,) = records.plan_of(transaction, 3)
    assert web.spec()["settings"] == {"workers": 1} and made.before["settings"] == {"workers": 9}
    fleet.tell()
    fleet.report(canary, vote="accepted", runs="sha256:" + "0" * 64)
    fleet.look()
    fleet.tell()
    fleet.report(*fleet.ids)
    fleet.look()
    assert [fleet.record(number).state for number in (1, 2, 3)] == [
        ChangeState.SUPERSEDED,
        ChangeState.REVERTED,
        ChangeState.DONE,
    ]


def test_what_takes_a_change_back_is_not_taken_back_itself(database: Database) -> None:
    """It would go to and fro for ever: where the way back fails, too, a person looks."""
    fleet = RolloutFleet.of(database, 4, POLICY.format(on_failure="revert"))
    (canary,) = roll(fleet)
    wrong = {"runs": "sha256:" + "0" * 64}
    fleet.report(canary, scope={"last_rejected": _rejection(fleet, canary)}, **wrong)
    fleet.look()
    fleet.tell()
    fleet.report(canary, vote="accepted", **wrong)
    fleet.look()
    fleet.tell()
    assert fleet.at(Step.RELEASED, 2) == {canary}
    fleet.report(canary, scope={"last_rejected": _rejection(fleet, canary)}, **wrong)
    fleet.wait(5)
    assert (fleet.record(1).state, fleet.record(2).state) == (ChangeState.REVERTING, ChangeState.HALTED)
    assert [group.rollout.on_failure for group in fleet.record(2).groups] == ["halt"]
    with fleet.database.read() as transaction:
        assert len(records.list_changes(transaction)) == 2
    commands.resume(fleet.database, 2, "looked", actor="operator:ann", now=fleet.now)
    fleet.look()
    fleet.tell()
    fleet.report(canary)
    fleet.wait(3, *fleet.ids)
    assert (fleet.record(1).state, fleet.record(2).state) == (ChangeState.REVERTED, ChangeState.DONE)


def _rejection(fleet: RolloutFleet, node_id: str) -> dict[str, object]:
    from tests.coordinator import reports

    listed = fleet.listed(node_id)["service_assignment/web"]
    return reports.rejected(listed["config_version"], "validator")


def test_of_which_no_node_is_there_it_waits_until_a_person_says_so(fleet: RolloutFleet) -> None:
    """And so does what comes after it, for nobody has judged it; halted, the next apply takes its place."""
    fleet.wait(130, every_s=10)
    fleet.change(9)
    fleet.look()
    fleet.tell()
    fleet.wait(20, every_s=10)
    assert fleet.record(1).state is ChangeState.PREPARING
    assert fleet.engine.health.waits["c-1"] == ("no node is reachable",)
    assert fleet.change(10).record.waits_for == 1
    commands.halt(fleet.database, 1, "nobody is there", actor="operator:ann", now=fleet.now)
    fleet.change(11)
    fleet.look()
    found = [fleet.record(number).state for number in (1, 2, 3)]
    assert found == [ChangeState.SUPERSEDED, ChangeState.SUPERSEDED, ChangeState.PREPARING]
    fleet.report(*fleet.ids)
    fleet.tell()
    fleet.report(*fleet.ids, vote="accepted")
    fleet.look()
    assert len(fleet.at(Step.RELEASED, 3)) == 1

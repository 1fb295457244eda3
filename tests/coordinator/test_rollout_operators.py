"""Two operators who decide at once, each by a coordinator of its own: one wins, the other is told what came of it."""

import threading
from collections.abc import Callable

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.rollout import commands
from tests.coordinator.candidates import contents
from tests.coordinator.rollouts import SERVICE, RolloutFleet
from tests.coordinator.test_rollout import POLICY

ANN, BOB = "operator:ann", "operator:bob"


@pytest.fixture
def fleet(database: Database) -> RolloutFleet:
    """Four nodes that are asked about c-1."""
    fleet = RolloutFleet.of(database, 4, POLICY.format(on_failure="halt"))
    fleet.change(9)
    fleet.look()
    fleet.tell()
    return fleet


def at_once(*acts: Callable[[], object]) -> list[object]:
    """What each came to: its answer, or its refusal."""
    came: list[object] = [None] * len(acts)
    ready = threading.Barrier(len(acts))

    def run(place: int) -> None:
        ready.wait(60)
        try:
            came[place] = acts[place]()
        except Refused as refused:
            came[place] = refused

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(acts))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    return came


def of_two(came: list[object], said: str) -> object:
    """The answer of the one who won; the other was refused with a reason and a remedy."""
    (loser,) = (each for each in came if isinstance(each, Refused))
    assert loser.code is Code.CONFLICT and said in loser.detail and loser.remedy
    (winner,) = (each for each in came if not isinstance(each, Refused))
    return winner


def audited(database: Database, action: str) -> int:
    return sum(f"'{action}'" in row for row in contents(database, "audit")["audit"])


def test_halted_twice(fleet: RolloutFleet, second: Database) -> None:
    came = at_once(
        lambda: commands.halt(fleet.database, 1, "look first", actor=ANN, now=fleet.now),
        lambda: commands.halt(second, 1, "me too", actor=BOB, now=fleet.now),
    )
    assert of_two(came, "c-1 is halted").state is ChangeState.HALTED
    assert audited(second, "change.halt") == 1
    assert [event.what for event in fleet.timeline()].count("halted") == 1


def test_resumed_twice(fleet: RolloutFleet, second: Database) -> None:
    commands.halt(fleet.database, 1, "", actor=ANN, now=fleet.now)
    came = at_once(
        lambda: commands.resume(fleet.database, 1, "go", actor=ANN, now=fleet.now),
        lambda: commands.resume(second, 1, "go", actor=BOB, now=fleet.now),
    )
    assert of_two(came, "was not halted").state is ChangeState.PREPARING
    assert audited(second, "change.resume") == 1


def test_one_halts_and_one_lets_go_on(fleet: RolloutFleet, second: Database) -> None:
    """In whichever order it comes; what stands at the end is what the last one was told."""
    commands.halt(fleet.database, 1, "", actor=ANN, now=fleet.now)
    halted, resumed = at_once(
        lambda: commands.halt(fleet.database, 1, "no", actor=ANN, now=fleet.now),
        lambda: commands.resume(second, 1, "go", actor=BOB, now=fleet.now),
    )
    assert resumed.state is ChangeState.PREPARING
    stands = fleet.record().state
    if isinstance(halted, Refused):
        assert halted.code is Code.CONFLICT and "c-1 is halted" in halted.detail
        assert stands is ChangeState.PREPARING
    else:
        assert stands is halted.state is ChangeState.HALTED


def test_a_halt_while_the_task_lets_a_ring_go(fleet: RolloutFleet, second: Database) -> None:
    """Either nobody was given it, or one ring was; nobody after the halt."""
    fleet.report(*fleet.ids, vote="accepted")
    engine = fleet.new_engine()
    halted, _ = at_once(lambda: commands.halt(second, 1, "stop", actor=ANN, now=fleet.now), lambda: fleet.look(engine))
    assert halted.state is ChangeState.HALTED
    given = fleet.at(Step.RELEASED)
    assert len(given) <= 1 and fleet.at(Step.HELD) == set(fleet.ids) - given
    fleet.tell()
    fleet.wait(30, *fleet.ids)
    assert fleet.at(Step.RELEASED) == given and fleet.record().state is ChangeState.HALTED


@pytest.mark.parametrize(
    ("has_a_node_it", "said"), [(True, "c-2 takes c-1 back already"), (False, "c-1 was taken back already")]
)
def test_taken_back_twice(fleet: RolloutFleet, second: Database, has_a_node_it: bool, said: str) -> None:
    """One change takes it back, and who comes second is told so; of what no node has, there is nothing to wait for."""
    if has_a_node_it:
        fleet.report(*fleet.ids, vote="accepted")
        fleet.look()
    came = at_once(
        lambda: commands.revert(fleet.database, 1, actor=ANN, now=fleet.now),
        lambda: commands.revert(second, 1, actor=BOB, now=fleet.now),
    )
    made = of_two(came, said).change.record
    assert (made.name, made.reverts) == ("c-2", 1)
    with second.read() as transaction:
        assert commands.reverting(transaction, 1).change_id == 2
    assert audited(second, "change.begin") == 2


def test_an_apply_on_an_apply(fleet: RolloutFleet, second: Database) -> None:
    """Both of another state than each thought: none is lost, and none is half of the other."""
    elsewhere = RolloutFleet(second, 4)
    came = at_once(
        lambda: fleet.press.change(SERVICE.format(workers=3), actor=ANN),
        lambda: elsewhere.press.change(SERVICE.format(workers=4), actor=BOB),
    )
    refused = [each for each in came if isinstance(each, Refused)]
    made = sorted(each.record.change_id for each in came if not isinstance(each, Refused))
    assert made == list(range(2, 2 + len(made))) and made
    assert {each.code for each in refused} <= {Code.CONCURRENT_UPDATE} and all(each.remedy for each in refused)
    assert [fleet.record(change_id).follows[0] for change_id in made] == [1] * len(made)
    assert audited(second, "change.begin") == 1 + len(made)

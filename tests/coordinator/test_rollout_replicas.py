"""Two coordinators over one PostgreSQL, each with its task: every step of a change is made once, and where one is gone
the other goes on with it.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
import trio

from coordinator.base.settings import CoordinatorSettings
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.rollout.rollout import Rollouts
from tests.coordinator.candidates import contents
from tests.coordinator.rollouts import RolloutFleet
from tests.coordinator.test_rollout import POLICY

STEPS = ["preparing", "asked", "accepted", "given", "passed", "given", "passed", "given", "passed", "done"]


@pytest.fixture
def fleet(postgresql_url: str) -> Iterator[RolloutFleet]:
    database = Database(postgresql_url)
    yield RolloutFleet.of(database, 4, POLICY.format(on_failure="halt"))
    database.close()


@pytest.fixture
def other(fleet: RolloutFleet, postgresql_url: str) -> Iterator[Rollouts]:
    """The task of another coordinator, with a connection of its own."""
    database = Database(postgresql_url)
    yield Rollouts(database, CoordinatorSettings(), lambda: fleet.now, lambda: fleet.elapsed, lambda: None)
    database.close()


def look_both(fleet: RolloutFleet, other: Rollouts) -> None:
    """At the same moment, and to the end of either."""

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet.engine.look)
            nursery.start_soon(other.look)

    trio.run(both)


def said(fleet: RolloutFleet) -> list[str]:
    return [event.what for event in fleet.timeline()]


def test_each_step_is_made_once(fleet: RolloutFleet, other: Rollouts) -> None:
    """However they race: no node is in two rings, no line and no row of the audit log is there twice."""
    fleet.change(9)
    look_both(fleet, other)
    fleet.tell()
    fleet.report(*fleet.ids, vote="accepted")
    sizes = []
    for _ in range(3):
        look_both(fleet, other)
        fleet.tell()
        sizes.append(len(fleet.at(Step.RELEASED)))
        for second in range(21):
            fleet.report(*fleet.ids)
            fleet.now, fleet.elapsed = fleet.now + 1, fleet.elapsed + 1
            if fleet.record().state is ChangeState.ROLLING and len(fleet.at(Step.RELEASED)) == sizes[-1]:
                if second in (5, 19):
                    look_both(fleet, other)
                else:
                    fleet.look(other)
    look_both(fleet, other)
    assert fleet.record().state is ChangeState.DONE and said(fleet) == STEPS
    assert sizes == sorted(set(sizes)) and sizes[0] == 1
    audited = Counter(row.split("'change.")[1].split("'")[0] for row in actions(fleet))
    assert audited["done"] == audited["begin"] == 1


def actions(fleet: RolloutFleet) -> list[str]:
    return [row for row in contents(fleet.database, "audit")["audit"] if "'change." in row]


@pytest.mark.parametrize("given", [0, 1, 2], ids=["asked", "the first ring", "the second ring"])
def test_where_one_is_gone_the_other_goes_on(fleet: RolloutFleet, other: Rollouts, given: int) -> None:
    """It has looked all the while, and bakes nothing anew."""
    fleet.change(9)
    fleet.look()
    fleet.tell()
    fleet.report(*fleet.ids, vote="accepted")
    for _ in range(given):
        fleet.look()
        fleet.look(other)
        fleet.tell()
        fleet.report(*fleet.ids)
        fleet.wait(20, *fleet.ids)
    begun = fleet.elapsed
    fleet.engine = other  # the first one has been killed: it looks no more
    for _ in range(3 - given + 1):
        fleet.look()
        fleet.tell()
        fleet.report(*fleet.ids)
        fleet.wait(20, *fleet.ids)
    assert fleet.record().state is ChangeState.DONE and said(fleet) == STEPS
    assert fleet.elapsed - begun <= (3 - given + 1) * 20

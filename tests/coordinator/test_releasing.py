"""What is large goes in slices: so many objects at a time, whoever was the last to hold it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from weakref import finalize, ref

import pytest
import trio
import trio.testing

from coordinator.base import interpreter, releasing
from coordinator.base.releasing import LARGE, SLICE, ReleasedInSlices
from coordinator.changes.undoing import UndoneModels
from coordinator.database import catalog
from coordinator.database.database import STATES, Database
from coordinator.declared.kinds import Node
from coordinator.declared.model import Model
from coordinator.declared.next_model import next_model
from coordinator.publishing import declarations
from tests.coordinator.models import model

COUNT = LARGE + SLICE


class Gone:
    """How many of some values have gone."""

    def __init__(self, values: Iterator[object]) -> None:
        self.count = 0
        for value in values:
            finalize(value, self._add)

    def _add(self) -> None:
        self.count += 1

    def by_slice(self) -> list[int]:
        """How many went in each slice."""
        found = []
        for _ in releasing.slices():
            found.append(self.count - sum(found))
        return found


def fleet(port: int, count: int = COUNT) -> Model:
    """With all that is worked out of it."""
    nodes = (Node(f"n{number}", roles=("core_mesh",), addresses=(f"h:{port}",)) for number in range(count))
    made = model(*nodes)
    assert len(made.subjects) == len(made.declared_subjects) == count and made.by_kind["Node"]
    return made


def test_a_model_that_nobody_holds_goes_in_slices() -> None:
    held = [fleet(1)]
    gone = Gone(iter([*held[0].resources.values(), *held[0].members.values()]))
    with releasing.releasing():
        held.clear()
        assert gone.count == 0
        slices = gone.by_slice()
    assert gone.count == 2 * COUNT
    assert max(slices) <= 2 * SLICE  # of a subject a member and a node
    assert not releasing._waiting


def test_what_another_one_holds_as_well_stays_as_it_is() -> None:
    before = fleet(1)
    after = next_model(before, {("Node", "n7"): None}, {"n7": None})
    said = [dict(part) for part in (after.resources, after.members, after.subjects, after.by_kind["Node"])]
    gone = Gone(iter(before.resources.values()))
    shared = Model("prod", after.resources, after.members)
    with releasing.releasing():
        del before
        assert sum(gone.by_slice()) == 1
        del shared
        releasing.release()
        assert gone.count == 1
    assert said == [after.resources, after.members, after.subjects, after.by_kind["Node"]]


def test_where_nobody_takes_the_slices_all_goes_at_once() -> None:
    held = [fleet(1)]
    gone = Gone(iter(held[0].resources.values()))
    held.clear()
    assert gone.count == COUNT
    assert not releasing._waiting


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, what goes goes at once; at the end of it all has gone."""
    most, gone = 4, []
    monkeypatch.setattr(releasing, "MOST", most)
    with releasing.releasing():
        for number in range(most + 2):
            held = [fleet(number, LARGE)]
            gone.append(Gone(iter(held[0].resources.values())))
            held.clear()
        assert [each.count for each in gone] == [0] * most + [LARGE] * 2
    assert [each.count for each in gone] == [LARGE] * (most + 2)


def test_a_small_one_goes_at_once() -> None:
    held = [fleet(1, LARGE - 1)]
    gone = Gone(iter(held[0].resources.values()))
    with releasing.releasing():
        held.clear()
        assert gone.count == LARGE - 1


def declared(port: int) -> dict[str, str]:
    nodes = (
        f"kind: Node\nid: n{number}\nspec: {{roles: [core_mesh], addresses: ['h:{port}']}}" for number in range(COUNT)
    )
    return {"fleet.yaml": "\n---\n".join(nodes)}


def test_the_last_of_all_states_that_are_remembered_goes_in_slices(cluster: Database) -> None:
    """By the memory of states, plans and changes of the whole fleet: nothing of it goes at once."""
    declarations.apply(cluster, declared(1), actor="op", now=1.0)
    with cluster.read() as transaction:
        first = catalog.load(transaction)
    gone, known = Gone(iter(first.resources.values())), ref(first)
    with releasing.releasing():
        declarations.apply(cluster, declared(2), actor="op", now=2.0)
        del first
        others = Gone(iter(())).by_slice()  # of the plan
        for number in range(STATES):
            assert gone.count == 0, others
            text = f"kind: Node\nid: n5\nspec: {{roles: [core_mesh], addresses: ['h:{10 + number}']}}"
            declarations.apply(cluster, {"one.yaml": text}, actor="op", now=3.0)
        assert known() is None and gone.count == 0
        assert max(gone.by_slice()) <= SLICE
        assert gone.count == COUNT


def test_plans_of_changes_go_in_slices() -> None:
    models = UndoneModels()
    nodes = [Node(f"n{number}") for number in range(COUNT)]
    models._plans[0] = tuple((node.key, node) for node in nodes)
    gone = Gone(iter(nodes))
    nodes.clear()
    with releasing.releasing():
        models._forget_oldest()
        assert gone.count == 0
        assert max(gone.by_slice()) <= SLICE
    assert gone.count == COUNT


def test_who_is_held_to_the_end_of_the_program_says_nothing() -> None:
    """What is named in a module may go before what others hold: the program would end with a traceback."""
    held = (
        "import functools\nfrom coordinator.base import releasing\nfrom coordinator.declared.model import Model\n"
        "functools.held = [releasing, Model('prod')]"
    )
    ended = subprocess.run([sys.executable, "-c", held], check=True, capture_output=True, text=True)
    assert ended.stderr == ""


class Held(ReleasedInSlices):
    def __init__(self, values: list[object]) -> None:
        self.values = values


class Value:
    pass


async def test_a_coordinator_has_a_thread_for_it(autojump_clock) -> None:
    here, where = threading.get_ident(), set()
    values: list[object] = [Value() for _ in range(COUNT)]
    for value in values:
        finalize(value, lambda: where.add(threading.get_ident()))
    held = [Held(values)]
    del values, value
    async with trio.open_nursery() as nursery:
        nursery.start_soon(interpreter.release_in_slices)
        await trio.testing.wait_all_tasks_blocked()
        held.clear()
        assert not where
        await trio.sleep(interpreter.RELEASE_S + 0.5)
        nursery.cancel_scope.cancel()  # what the thread has begun it does: the clock has not waited for it
    assert len(where) == 1 and here not in where
    assert not releasing._open

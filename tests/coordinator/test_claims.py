"""Which replica is at work on which nodes: no two on one, nothing left lying, whoever dies in between.

The machine is a fleet of three nodes and three replicas, whose clocks differ, in any order of taking, publishing,
finishing, saying that one is at it still, dying, and time.
"""

from collections.abc import Callable

import pytest
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, select, update

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.publishing import publisher
from coordinator.publishing.board import Board
from coordinator.publishing.publisher import Publisher
from coordinator.replicas import claims
from coordinator.replicas.claims import LEASE_S, Claims
from tests.coordinator.candidates import NOW
from tests.coordinator.publishing import STATE, Press
from tests.examples import examples

NODES = ["node-a", "node-b", "node-c"]
NAMES = ("one", "two", "three")
CLOCKS = {"one": 0.0, "two": -500.0, "three": 9_000.0}


@pytest.fixture
def press(server: Database) -> Press:
    return Press.founded(server, *NODES)


def due_again(database: Database) -> None:
    with database.record() as transaction:
        transaction.run(update(schema.nodes).values(generation=schema.nodes.c.generation + 1))


def settle(database: Database, node_ids: list[str]) -> None:
    """As a publication leaves them."""
    nodes = schema.nodes
    with database.record() as transaction:
        transaction.run(update(nodes).where(nodes.c.node_id.in_(node_ids)).values(published=nodes.c.generation))


class AtWork(RuleBasedStateMachine):
    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database, self.now = database, 0.0
        with database.record() as transaction:
            transaction.run(delete(schema.publishing_claims))
        due_again(database)
        self.claims = {name: Claims(database, name) for name in NAMES}
        self.working: dict[str, list[str]] = {name: [] for name in NAMES}
        self.due = set(NODES)
        self.last_word = dict.fromkeys(NAMES, 0.0)

    def takes(self, name: str, wanted: list[str]) -> list[str]:
        taken = self.claims[name].take(wanted, at=self.now + CLOCKS[name], due_by=NOW)
        self.working[name], self.last_word[name] = taken, self.now
        return taken

    @rule(name=st.sampled_from(NAMES), wanted=st.permutations(NODES))
    def takes_some(self, name: str, wanted: list[str]) -> None:
        mine = self.takes(name, wanted[:2])
        assert mine == [node_id for node_id in wanted[:2] if node_id in mine], "in the order that was asked for"
        assert self.due.issuperset(mine), "what another one has just finished is not made once more"
        for other in NAMES:
            if other != name and self.now - self.last_word[other] < LEASE_S:
                assert not {*mine} & {*self.working[other]}, "no two at one"

    @rule(name=st.sampled_from(NAMES))
    def publishes(self, name: str) -> None:
        """Whoever was overtaken would be refused by the swap (heads.py)."""
        settle(self.database, self.working[name])
        self.due.difference_update(self.working[name])

    @rule(name=st.sampled_from(NAMES))
    def is_done(self, name: str) -> None:
        self.claims[name].release()
        self.working[name] = []

    @rule(name=st.sampled_from(NAMES))
    def is_at_it_still(self, name: str) -> None:
        if self.working[name] and self.now - self.last_word[name] < LEASE_S:
            self.claims[name].keep()
            self.last_word[name] = self.now

    @rule(name=st.sampled_from(NAMES))
    def dies(self, name: str) -> None:
        """Its successor has the name, and knows nothing."""
        self.claims[name] = Claims(self.database, name)

    @rule()
    def changes(self) -> None:
        due_again(self.database)
        self.due = set(NODES)

    @rule(seconds=st.sampled_from([0.5, 2.0, LEASE_S]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def what_is_due_is_known(self) -> None:
        with self.database.read() as transaction:
            table = schema.nodes
            behind = transaction.rows(select(table.c.node_id).where(table.c.published < table.c.generation))
        assert {row.node_id for row in behind} == self.due

    def teardown(self) -> None:
        """Whatever the others have left lying: who lives on gets all of it, a lease after it has first looked."""
        for name in NAMES:
            if name != "one":
                self.working[name] = []
        self.takes("one", NODES)
        self.now += LEASE_S
        assert {*self.takes("one", NODES)} == self.due
        self.claims["one"].release()


def test_no_two_replicas_are_at_one_node_and_nothing_is_left(press: Press) -> None:
    """rules K21, H10; a lease, which ends with who dies; nothing is made twice, nothing left."""
    run_state_machine_as_test(lambda: AtWork(press.database), settings=examples(8, stateful_step_count=20))


def publishers(press: Press, *, fault: str = "") -> tuple[list[Publisher], list[Board]]:
    """Two; `fault`: why the first of them may sign nothing."""
    boards = [Board(), Board()]
    made = [
        Publisher(
            press.database,
            press.keys,
            CoordinatorSettings(),
            board,
            lambda: press.now,
            standstill=lambda said=said: said,
            claimed=Claims(press.database, name),
        )
        for name, said, board in zip(("one", "two"), (fault, ""), boards, strict=True)
    ]
    return made, boards


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.01)


async def test_two_that_publish_at_once_make_each_head_once(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules K21: nobody comes second, so nothing is signed for nothing."""
    monkeypatch.setattr(publisher, "TICK_S", 0.05)
    made, _ = publishers(press)
    async with trio.open_nursery() as nursery:
        for each in made:
            nursery.start_soon(each.run)
        for round_ in range(5, 9):
            press.apply(STATE.replace("workers: 4", f"workers: {round_}").replace("www.example", f"w{round_}.example"))
            for each in made:
                each.wake()
            await until(lambda: not is_behind(press.database))
        nursery.cancel_scope.cancel()
    assert sum(each.health.conflicts for each in made) == 0
    assert sum(each.health.published_heads for each in made) >= len(NODES)


def is_behind(database: Database) -> bool:
    with database.read() as transaction:
        table = schema.nodes
        return transaction.row(select(table.c.node_id).where(table.c.published < table.c.generation)) is not None


async def test_what_a_dead_one_was_at_is_taken_over(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed in a batch, and says no more: the others wait for the end of the lease, and for nothing else."""
    monkeypatch.setattr(publisher, "TICK_S", 0.05)
    monkeypatch.setattr(claims, "LEASE_S", 0.5)
    Claims(press.database, "dead").take(NODES[:2], at=0.0, due_by=NOW)
    (one, _), (board, _) = publishers(press)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await until(lambda: board.latest("node-c"))
        assert board.latest("node-a") is None, "that one is at it"
        await until(lambda: board.latest("node-a") and board.latest("node-b"))
        nursery.cancel_scope.cancel()
    assert (one.health.published_heads, one.health.conflicts) == (3, 0)
    with press.database.read() as transaction:
        left = {row.coordinator_id: row.node_ids for row in transaction.rows(select(schema.publishing_claims))}
    assert left == {"one": "[]"}


async def test_one_that_cannot_sign_takes_nothing(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules H21: it keeps no other from its work."""
    monkeypatch.setattr(publisher, "TICK_S", 0.05)
    made, boards = publishers(press, fault="no_signer")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made[0].run)
        await until(lambda: made[0].health.fault)
        with press.database.read() as transaction:
            assert transaction.row(select(schema.publishing_claims)) is None
        nursery.start_soon(made[1].run)
        await until(lambda: all(boards[1].latest(node_id) for node_id in NODES))
        nursery.cancel_scope.cancel()

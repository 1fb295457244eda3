"""The task that publishes: woken or not, it gets there; what fails is made again from what then stands."""

import threading
from dataclasses import dataclass

import pytest
import trio
import trio.testing
from sqlalchemy import func, select, update
from sqlalchemy.exc import OperationalError

from coordinator.base import backoff
from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_database
from coordinator.database import cluster_state, schema
from coordinator.database.database import Database
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import revocation
from coordinator.publishing import declarations, heads, publisher
from coordinator.publishing.board import Board
from coordinator.publishing.publisher import Publisher
from tests.coordinator.candidates import NOW, admit
from tests.coordinator.founding import set_restored
from tests.coordinator.publishing import STATE, Press
from tests.logs import capture_logs


@pytest.fixture(autouse=True)
def _ticks_are_short(monkeypatch) -> None:
    """How long one is counts nowhere here."""
    monkeypatch.setattr(publisher, "TICK_S", 0.05)


def publisher_of(press: Press, keys: tuple[SigningKey, ...] | None = None) -> tuple[Publisher, Board]:
    board = Board()
    made = Publisher(
        press.database, press.keys if keys is None else keys, CoordinatorSettings(), board, lambda: press.now
    )
    return made, board


async def published(made: Publisher, node_id: str = "node-a") -> None:
    with trio.fail_after(60):
        await made.wait_published(node_id)


async def test_what_is_due_is_published_and_who_waits_is_told(database: Database) -> None:
    press = Press.founded(database, "node-a", "node-b")
    made, board = publisher_of(press)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await published(made)
        assert board.latest("node-a").pair == (1, press.reader().follow().holder.marks["head"].config_version)
        nursery.cancel_scope.cancel()


async def test_who_is_told_of_a_head_finds_it_counted(database: Database, monkeypatch) -> None:
    """Also where somebody has asked for another one meanwhile, who is to go first then."""
    press = Press.founded(database, "node-a")
    made, _ = publisher_of(press)
    publish = publisher.heads.publish

    def asked_meanwhile(*arguments, **named):
        made._urgent.append("node-a")
        return publish(*arguments, **named)

    monkeypatch.setattr(publisher.heads, "publish", asked_meanwhile)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await published(made)
        assert (made.health.published_heads, made.health.behind) == (1, 0)
        nursery.cancel_scope.cancel()


async def test_it_is_at_rest_once_what_was_due_is_out(database: Database, monkeypatch) -> None:
    """Also where it could not be published; by then whoever waits to be admitted goes on (admissions.py)."""
    press = Press.founded(database, "node-a")
    made, board = publisher_of(press)
    await made.wait_at_rest()
    at_work, may_publish = threading.Event(), threading.Event()
    publish, is_at_rest = publisher.heads.publish, []

    def held_back(*arguments, **named):
        at_work.set()
        assert may_publish.wait(60)
        may_publish.clear()  # once: the next time is looked for anew
        if not is_at_rest:
            raise OperationalError("x", {}, Exception("gone"))
        return publish(*arguments, **named)

    async def wait_at_rest() -> None:
        await made.wait_at_rest()
        is_at_rest.append(board.latest("node-a"))

    monkeypatch.setattr(publisher.heads, "publish", held_back)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        for _ in range(2):
            await trio.to_thread.run_sync(at_work.wait)
            at_work.clear()
            async with trio.open_nursery() as waiting:
                waiting.start_soon(wait_at_rest)
                await trio.testing.wait_all_tasks_blocked()
                before = len(is_at_rest)
                may_publish.set()
            assert len(is_at_rest) == before + 1
        assert is_at_rest[0] is None and is_at_rest[1] is not None
        nursery.cancel_scope.cancel()


async def test_who_is_asked_for_while_others_are_published_is_next(database: Database, monkeypatch) -> None:
    """Without a tick in between; and who is out by then is not looked for again."""
    monkeypatch.setattr(publisher, "TICK_S", 3_600.0)
    press = Press.founded(database, "node-a")
    made, board = publisher_of(press)
    at_work, may_publish = threading.Event(), threading.Event()
    publish, looks = publisher.heads.publish, []

    def held_back(*arguments, **named):
        if not at_work.is_set():
            admit(database, "node-z")  # without roles it is nobody's peer
            at_work.set()
            assert may_publish.wait(60)
        return publish(*arguments, **named)

    due = publisher.backlog.due
    monkeypatch.setattr(publisher.heads, "publish", held_back)
    monkeypatch.setattr(publisher.backlog, "due", lambda *a, **named: looks.append(due(*a, **named)) or looks[-1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await trio.to_thread.run_sync(at_work.wait)
        async with trio.open_nursery() as waiting:
            for node_id in ("node-a", "node-z"):
                waiting.start_soon(published, made, node_id)
            await trio.testing.wait_all_tasks_blocked()
            may_publish.set()
        assert board.latest("node-a") is not None and board.latest("node-z") is not None
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert [sorted(found) for found in looks] == [["node-a"], ["node-z"]]
        nursery.cancel_scope.cancel()


async def test_of_those_that_are_asked_for_the_first_is_first(database: Database, monkeypatch) -> None:
    """Or of many that wait for their grants one would be the last as long as others come."""
    monkeypatch.setattr(publisher, "BATCH", 1)
    names = [f"node-{letter}" for letter in "cfaebd"]
    press = Press.founded(database, *names)
    made, board = publisher_of(press)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as waiting:
            for node_id in names:
                waiting.start_soon(published, made, node_id)
                await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(made.run)
        nursery.cancel_scope.cancel()
    assert [node_id for node_id, _ in board.items()] == names


async def test_a_missed_wake_up_costs_a_tick_and_nothing_else(database: Database) -> None:
    """rules J42"""
    press = Press.founded(database, "node-a")
    made, board = publisher_of(press)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await published(made)
        before = board.latest("node-a").pair
        await in_database(
            declarations.apply, database, {"s": STATE.replace("workers: 4", "workers: 5")}, actor="x", now=NOW
        )
        with trio.fail_after(60):
            await board.wait("node-a")
        assert board.latest("node-a").pair > before
        nursery.cancel_scope.cancel()


async def test_a_database_that_fails_is_asked_again(database: Database, monkeypatch) -> None:
    """rules P1: nothing ends, and what was due goes out when it is back."""
    press = Press.founded(database, "node-a")
    made, board = publisher_of(press)
    failures = iter([OperationalError("x", {}, Exception("gone")), OperationalError("x", {}, Exception("gone"))])
    original = publisher.heads.publish

    def failing(*arguments, **named):
        for failure in failures:
            raise failure
        return original(*arguments, **named)

    monkeypatch.setattr(publisher.heads, "publish", failing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        with trio.fail_after(60):
            await board.wait("node-a")
        nursery.cancel_scope.cancel()
    assert made.health.database_faults == 2
    assert press.reader().follow().holder.roles == {"core_mesh", "egress_service"}


async def test_a_database_found_to_be_put_back_in_between_ends_nothing(database: Database) -> None:
    """rules K41, P1: what was signed just before is not published, and the task lives to publish after the epoch."""
    press = Press.founded(database, "node-a")
    made, board = publisher_of(press)
    times = iter(range(1_000))

    def now() -> float:
        """Asked for what is due, for preparing, and for publishing: there it has just become known."""
        if next(times) == 2:
            set_restored(database, 1)
        return press.now

    made._now = now
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        with trio.fail_after(60):
            while not made.health.fault:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert "holdfastctl epoch raise" in made.health.fault and board.latest("node-a") is None
        with database.read() as transaction:
            assert heads.published_head(transaction, "node-a") is None
        set_restored(database, None)
        await published(made)
        assert made.health.fault == ""
        nursery.cancel_scope.cancel()


async def test_without_a_key_that_signs_it_says_so_and_goes_on(database: Database) -> None:
    """rules S72, S40"""
    press = Press.founded(database, "node-a")
    made, board = publisher_of(press, ())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        made.wake()
        with trio.fail_after(60):
            while not made.health.fault:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert made.health.fault.startswith("no_signer") and board.latest("node-a") is None
        made.keys = press.keys
        await published(made)
        assert made.health.fault == "" and made.health.failed == {}
        nursery.cancel_scope.cancel()


@dataclass(frozen=True)
class FailingKey(SigningKey):
    """One whose device or library refuses to sign what holds `refused`."""

    refused: bytes = b""

    def sign(self, message: bytes) -> bytes:
        if self.refused in message:
            raise ValueError("the device does not sign")
        return super().sign(message)


def failing(keys: tuple[SigningKey, ...], refused: bytes) -> tuple[SigningKey, ...]:
    return tuple(FailingKey(one.key_id, one.algorithm, one.public_key, one._private, refused) for one in keys)


async def test_a_key_that_fails_while_it_signs_is_said_and_tried_again(database: Database) -> None:
    """rules P1: the task lives on, and with a key that signs it publishes."""
    press = Press.founded(database, "node-a")
    made, _ = publisher_of(press, failing(press.keys, b""))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        with trio.fail_after(60):
            while not made.health.reason:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert "the device does not sign" in made.health.reason
        assert made.health.failed["node-a"]["head"].reason == "cannot_sign"
        made.sign_with(press.keys)
        await published(made)
        assert (made.health.reason, made.health.failed) == ("", {})
        nursery.cancel_scope.cancel()


async def test_a_scope_that_cannot_be_signed_keeps_the_others_from_nobody(database: Database) -> None:
    press = Press.founded(database, "node-a")
    made, _ = publisher_of(press, failing(press.keys, b'"scope_type":"peer_directory"'))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await published(made)
        assert made.health.failed["node-a"]["peer_directory"].reason == "cannot_sign"
        assert set(made.health.failed["node-a"]) == {"peer_directory"}
        nursery.cancel_scope.cancel()


async def test_new_keys_end_what_was_said_of_the_keys_before(database: Database, monkeypatch) -> None:
    """rules S40: at once, although the nodes rest by then; and a batch begun with those keys says nothing any more"""
    press = Press.founded(database, "node-a")
    made, _ = publisher_of(press, ())
    prepare, held = publisher.backlog.prepare, []

    def prepare_slowly(*arguments):
        batch = prepare(*arguments)
        if held:
            trio.from_thread.run_sync(held.pop(), press.keys)
        return batch

    monkeypatch.setattr(publisher.backlog, "prepare", prepare_slowly)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        with trio.fail_after(60):
            while len(made._resting) == 0:
                await trio.testing.wait_all_tasks_blocked(0.01)
        made.sign_with(())
        assert made.health.reason == "" and len(made._resting) == 0
        faults: list[str] = []
        monkeypatch.setattr(made, "_cannot", faults.append)
        held.append(made.sign_with)
        await published(made)
        assert faults == [] and made.health.failed == {}
        nursery.cancel_scope.cancel()


async def test_while_the_clock_is_not_believed_nothing_is_signed(database: Database) -> None:
    """rules K47"""
    press = Press.founded(database, "node-a")
    made, board = publisher_of(press)
    said = ["clock_jumped: by 100000 s"]
    made.clock_fault = lambda: said[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        with trio.fail_after(60):
            while not made.health.fault:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert made.health.fault == said[0] and board.latest("node-a") is None
        said[0] = ""
        await published(made)
        assert made.health.fault == ""
        nursery.cancel_scope.cancel()


async def test_who_has_just_joined_goes_first(database: Database, monkeypatch) -> None:
    """rules J9: a join waits for its grant."""
    monkeypatch.setattr(publisher, "BATCH", 2)
    press = Press.founded(database, *(f"a{number}" for number in range(6)))
    made, board = publisher_of(press)
    admit(database, "z-new")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(published, made, "z-new")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(made.run)
        with trio.fail_after(60):
            await board.wait("z-new")
        assert len(board.nodes()) <= 2
        nursery.cancel_scope.cancel()


async def test_a_batch_that_cannot_be_signed_keeps_nobody_else_waiting(database: Database, monkeypatch) -> None:
    """rules P1, J42: heads of the first nodes are of an epoch that is not the cluster's; the others get theirs."""
    monkeypatch.setattr(publisher, "BATCH", 2)
    press = Press.founded(database, *(f"a{number}" for number in range(3)), "node-a", "node-b")
    made, board = publisher_of(press)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        with trio.fail_after(60):
            while len(board.nodes()) < 5:
                await trio.testing.wait_all_tasks_blocked(0.01)
        with database.change(actor="x", now=NOW) as transaction:
            nodes, table = schema.nodes.c, schema.heads
            transaction.run(update(schema.nodes).values(generation=nodes.generation + 1))
            transaction.run(update(table).where(table.c.node_id.like("a%")).values(authority_epoch=9))
            transaction.audit("test", "a*", None, {})
        for _ in range(2):
            with trio.fail_after(60):
                await board.wait("node-b")
            with database.change(actor="x", now=NOW) as transaction:
                transaction.run(update(schema.nodes).values(generation=nodes.generation + 1))
                transaction.audit("test", "a*", None, {})
        assert {"a0", "a1"} <= set(made.health.failed) <= {"a0", "a1", "a2"}
        assert made.health.failed["a0"]["head"].reason == "stale_epoch"
        nursery.cancel_scope.cancel()


NODES = tuple(f"node-{letter}" for letter in "abcdef")


class Disturbed:
    """A publisher whose every batch is met by a change that touches all nodes, between its reading and its swap; where
    there is no such moment, right after it.
    """

    def __init__(self, press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
        self.press, self.changes = press, 0
        self.made, self.board = publisher_of(press)
        monkeypatch.setattr(backoff, "LEAST_S", 0.0)
        monkeypatch.setattr(publisher.backlog, "prepare", self._changed_after(publisher.backlog.prepare))
        monkeypatch.setattr(publisher.locked_batch, "publish", self._changed_after(publisher.locked_batch.publish))

    def _changed_after(self, operation):
        def disturbed(*arguments, **named):
            found = operation(*arguments, **named)
            self.change()
            return found

        return disturbed

    def change(self) -> None:
        self.changes += 1
        self.press.apply(STATE.replace("workers: 4", f"workers: {self.changes}"))
        with self.press.database.change(actor="root", now=self.press.now) as transaction:
            transaction.audit("touch", "everybody")
            cluster_state.raise_generations(transaction, NODES)

    def heads(self) -> dict[str, int]:
        with self.press.database.read() as transaction:
            return {node_id: basis.published for node_id, basis in heads.bases(transaction, NODES).items()}


async def test_steady_changes_of_all_nodes_keep_no_head_from_being_renewed(database: Database, monkeypatch) -> None:
    """rules K21, H2: each swap is lost, and every node has a new head all the same, again and again; what is signed is
    what was declared when it went out, and the node's verifier takes it.
    """
    press = Press.founded(database, *NODES)
    disturbed = Disturbed(press, monkeypatch)
    before = disturbed.heads()
    for _ in range(3):
        for _ in range(publisher.MOST_OUTRUN + 1):
            await disturbed.made._publish_due()
        after = disturbed.heads()
        assert all(after[node_id] > before[node_id] for node_id in NODES), (before, after)
        before = after
        for node_id in NODES:
            press.reader(node_id).follow()
    assert disturbed.made.health.conflicts >= len(NODES) * publisher.MOST_OUTRUN
    assert disturbed.made.health.failed == {}


async def test_a_batch_that_is_lost_is_one_line_of_the_log(database: Database, monkeypatch) -> None:
    """A fleet that reports while it is published for the first time loses hundreds of swaps a second."""
    disturbed = Disturbed(Press.founded(database, *NODES), monkeypatch)
    with capture_logs() as lines:
        await disturbed.made._publish_due()
    told = [line for line in lines if line["event"].startswith("changed or published by somebody else")]
    assert [(line["nodes"], line["node"]) for line in told] == [(len(NODES), min(NODES))]


async def test_where_one_node_is_compiled_at_a_time_those_go_first_whose_heads_end_first(
    database: Database, monkeypatch
) -> None:
    """rules H2: though what was published just now is due again before the next one is, none is passed over."""
    press = Press.founded(database, *NODES)
    for node_id in reversed(NODES):
        press.publish(node_id)
        press.now += 1
    monkeypatch.setattr(publisher.locked_batch, "HELD_S", 0.0)
    disturbed = Disturbed(press, monkeypatch)
    disturbed.change()
    order: list[str] = []
    announce = disturbed.board.announce
    monkeypatch.setattr(
        disturbed.board, "announce", lambda node_id, news: (order.append(node_id), announce(node_id, news))
    )
    for _ in range(publisher.MOST_OUTRUN + 1):
        await disturbed.made._publish_due()
    assert order == [*reversed(NODES)]


async def test_who_is_revoked_while_changes_are_steady_is_in_no_head_after_it(database: Database, monkeypatch) -> None:
    """rules K22: what is published under the lock is of the state that is committed, with its revocations."""
    press = Press.founded(database, *NODES)
    disturbed = Disturbed(press, monkeypatch)
    for _ in range(publisher.MOST_OUTRUN - 1):
        await disturbed.made._publish_due()
    change = disturbed.change

    def revoke() -> None:
        """It is the change to which the first batch is lost now."""
        revocation.revoke_node(database, "node-f", reason="stolen", actor="root", now=press.now)
        monkeypatch.setattr(disturbed, "change", change)

    monkeypatch.setattr(disturbed, "change", revoke)
    await disturbed.made._publish_due()
    assert set(disturbed.heads().values()) == {0}
    await disturbed.made._publish_due()
    for node_id in NODES:
        assert press.head(node_id).revocations.node_ids == {"node-f"}


async def test_what_is_refused_under_the_lock_is_said_and_rests_ever_longer(database: Database, monkeypatch) -> None:
    """rules P1: nobody else came first, so it is a fault, and the others do not wait behind it."""
    press = Press.founded(database, "node-a", "node-b")
    made, _ = publisher_of(press)
    for _ in range(publisher.MOST_OUTRUN):
        made._resting.outrun("node-a")
    monkeypatch.setattr(backoff, "LEAST_S", 0.0)
    made._resting._until.clear()
    accept = heads._accept

    def refusing(transaction, changed, read):
        if changed.publication.node_id == "node-a":
            raise Refused(Code.CONFLICT, "not this one")
        return accept(transaction, changed, read)

    monkeypatch.setattr(heads, "_accept", refusing)
    await made._publish_due()
    assert str(made.health.failed["node-a"]["head"]) == "conflict: not this one"
    assert made._resting.has_failed("node-a") and made._resting.times_outrun("node-a") == 0
    monkeypatch.setattr(heads, "_accept", accept)
    await made._publish_due()
    assert made.health.failed == {} and made.health.published_heads == 2


async def test_nothing_is_committed_where_nothing_can_be_signed_under_the_lock(database: Database) -> None:
    """rules S72"""
    press = Press.founded(database, "node-a")
    with database.read() as transaction:
        before = transaction.number(select(func.count()).select_from(schema.audit))
    batch, refusals = publisher.locked_batch.publish(
        database, press.kept, (), press.settings, ["node-a"], actor="coordinator", now=press.now, elapsed_s=float
    )
    assert (batch.drafts, refusals) == ((), {})
    assert batch.unsigned["node-a"].reason == "no_signer"
    with database.read() as transaction:
        assert transaction.number(select(func.count()).select_from(schema.audit)) == before

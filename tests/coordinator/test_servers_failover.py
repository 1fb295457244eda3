"""PostgreSQL fails over under running coordinators: in step, and to a standby that was behind (rules H37, P1, P30)."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, continuity, database_copy, schema
from coordinator.database.continuity import LinkMark
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.setup import begin_history
from tests.coordinator import failing_over, reports
from tests.coordinator.daemon import Follower, Running, refusal, running
from tests.coordinator.failing_over import Pair
from tests.coordinator.founding import Founded
from tests.coordinator.postgresql import Unavailable
from tests.coordinator.test_database_outage import unavailable
from tests.coordinator.test_restored_backup import again, is_ready, raise_epoch
from tests.coordinator.test_run_replicas import second
from wire.messages import TrustList

BEFORE = "{kind: Node, id: node-a, spec: {roles: [core_mesh], labels: {round: r1}}}"
LOST = "{kind: Node, id: node-a, spec: {roles: [core_mesh], labels: {round: r2}}}"
AFTER = "{kind: Node, id: node-a, spec: {roles: [core_mesh], labels: {round: r3}}}"
SOON = "joins_per_minute = 1000\nstore_polling_s = 1"
BY_HAND = "joins_per_minute = 1000\nstore_polling_s = 300"  # the keeper looks when the test says so


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    try:
        with failing_over.pair(tmp_path_factory.mktemp("pair")) as made:
            yield made
    except Unavailable as error:
        warnings.warn(f"NO POSTGRESQL, NOTHING FAILS OVER: {error}", stacklevel=1)
        pytest.skip(f"NO POSTGRESQL: {error}")


@pytest.fixture
def pair(servers: Pair) -> Iterator[Pair]:
    yield servers
    servers.repair()


@pytest.fixture
def both(tmp_path: Path, pair: Pair) -> tuple[Founded, Founded]:
    """Two coordinators over both servers, with a history."""
    (tmp_path / "one").mkdir()
    one = Founded(tmp_path / "one", pair.new_database(), settings=SOON)
    two = second(one, tmp_path / "two")
    begin_history.begin(one.configuration(), anew=False, actor="root", now=one.now)
    return one, two


@pytest.fixture
def founded(both: tuple[Founded, Founded]) -> Founded:
    return both[0]


def round_of(follower: Follower) -> str:
    held = follower.holder.active["node_runtime"]
    said = b"".join(held.read(name) for name in held.sections)
    return next((name for name in ("r1", "r2", "r3") if name.encode() in said), "")


async def follow_to(follower: Follower, wanted: str) -> None:
    """A second content under a version would be `version_conflict`, which the follower raises."""
    with trio.fail_after(60):
        while round_of(follower) != wanted:
            await follower.sync(wait=10)


async def member(at: Running) -> Follower:
    follower = Follower(await at.admit("node-a"))
    await follower.sync(wait=10)
    return follower


def check_unsound(database: Database) -> None:
    """Nothing can be signed from it, nor published into it."""
    for opened in (database.read(), database.change(actor="root", now=1.0)):
        with pytest.raises(Refused) as refused, opened as transaction:
            cluster_state.sound(transaction)
        assert refused.value.code is Code.STALE_STATE and "lacks link" in refused.value.detail


def heads(url: str) -> list[tuple[object, ...]]:
    database = Database(url)
    with database.read() as transaction:
        found = [tuple(row) for row in transaction.rows(select(schema.heads).order_by(schema.heads.c.node_id))]
    database.close()
    return found


async def test_a_standby_in_step_takes_over(founded: Founded, pair: Pair) -> None:
    """rules P1, P5, P23: a pause: what is read goes on from memory, what is written comes again, nothing is lost"""
    pair.keep_in_step()
    async with running(founded) as at:
        follower = await member(at)
        await at.declare(BEFORE)
        await follow_to(follower, "r1")
        pair.primary.stop()
        assert (await follower.node.head()).status == 200
        await unavailable(follower.node.report(reports.body("node-a", {})))
        await unavailable(at.apply(AFTER))
        await at.daemon.keeper.look()
        _, said = await at.probe("/probe/readiness")
        assert b"no server takes writes" in said and b"is a standby, which is read only" in said
        pair.fail_over()
        await follower.node.report(reports.body("node-a", {}))
        await at.declare(AFTER)
        await follow_to(follower, "r3")
        await at.daemon.keeper.look()
        assert at.daemon.coordinator.standstill.why == ""
        assert (await at.ask("GET", "/v1/audit/verify"))["faults"] == []
        assert (await at.ask("GET", "/v1/status"))["restored_backup"] == ""


async def test_nothing_is_signed_over_what_a_late_standby_lacks(both: tuple[Founded, Founded], pair: Pair) -> None:
    """rules K41, P30, H37: found before the first look at the database, and by the replica beside it, too; after a
    restart as well; the raised epoch ends it, and the node goes over with what it holds
    """
    founded, two = both
    founded.settings = two.settings = BY_HAND
    async with running(founded) as at, running(two) as other:
        follower = await member(at)
        await at.declare(BEFORE)
        await follow_to(follower, "r1")
        await other.daemon.keeper.look()
        pair.fall_behind()
        await at.declare(LOST)
        await follow_to(follower, "r2")
        pair.fail_over()
        before = heads(founded.url)
        await at.declare(AFTER)  # what is declared is kept, and waits
        await trio.to_thread.run_sync(check_unsound, at.daemon.coordinator.database)
        assert await refusal(at.token()) == "stale_state"
        await other.declare(
            AFTER
        )  # it has not seen what was lost; it waits for the other one's word with its signature
        assert heads(founded.url) == before

        await at.daemon.keeper.look()
        assert "a standby that was behind" in at.daemon.coordinator.standstill.reason
        assert await refusal(follower.node.head()) == "not_ready"
        await other.daemon.keeper.look()
        assert "holdfastctl epoch raise" in other.daemon.coordinator.standstill.reason
        assert not await is_ready(other)
        assert heads(founded.url) == before
    founded.settings = SOON
    async with running(founded) as at:
        assert not await is_ready(at)
        assert heads(founded.url) == before
        await raise_epoch(at)
        again(at, follower)
        trust = await follower.node.get(f"/v1/trust?from={follower.holder.bundle.version}")
        for bundle in TrustList.parse(trust.body).documents:
            follower.take(bundle, "snapshot")
        await follow_to(follower, "r3")
        assert follower.holder.marks["head"].authority_epoch == 2
        await at.daemon.keeper.look()
        assert await is_ready(at)
        assert (await at.ask("GET", "/v1/audit/verify"))["faults"] == []


async def test_a_coordinator_that_was_away_knows_what_it_had_seen(founded: Founded, pair: Pair) -> None:
    """rules K41, P30: of the file that it has kept; and before any node has said a word"""
    async with running(founded) as at:
        follower = await member(at)
        pair.fall_behind()
        await at.declare(LOST)
        await follow_to(follower, "r2")
    pair.fail_over()
    before = heads(founded.url)
    async with running(founded) as at:
        assert not await is_ready(at)
        assert await refusal(again(at, follower).node.head()) == "not_ready"
        assert "restored from an old backup" in (await at.ask("GET", "/v1/fleet"))["restored_backup"]
        assert await refusal(at.token()) == "stale_state"
        assert heads(founded.url) == before
        (entry,) = (await at.ask("GET", "/v1/audit?action=restored_backup"))["entries"]
        assert (entry["actor"], entry["subject"]) == ("coord-1", "coord-1")


async def test_the_primary_of_before_is_not_worked_on(founded: Founded, pair: Pair) -> None:
    """Two servers that take writes, the wrong one named first: nothing is written there, also after a restart."""
    pair.keep_in_step()
    async with running(founded) as at:
        follower = await member(at)
        pair.fail_over()
        await at.declare(BEFORE)
        await follow_to(follower, "r1")
        pair.standby.start()
        old = f"postgresql+psycopg://holdfast@/{at.daemon.coordinator.database.url.database}?host={pair.standby.base}"
        before = heads(old)
        at.daemon.coordinator.database.engine.dispose()
        await at.declare(AFTER)
        await follow_to(follower, "r3")
        assert heads(old) == before
    async with running(founded) as at:
        await at.declare(BEFORE)
        assert heads(old) == before
        at.daemon.coordinator.database.engine.dispose()
        pair.primary.stop()
        await at.daemon.keeper.look()
        assert b"is a primary of before a failover" in (await at.probe("/probe/readiness"))[1]
    pair.primary.start()


def test_a_standby_alone_is_named_as_what_it_is(pair: Pair) -> None:
    database = Database(f"postgresql+psycopg://holdfast@/postgres?host={pair.standby.base}")
    with pytest.raises(SQLAlchemyError) as found, database.read():
        raise AssertionError
    database.close()
    assert line_of(found.value) == "OperationalError: is a standby, which is read only; promote it, or name the primary"


def test_a_backup_is_taken_of_the_primary(founded: Founded, tmp_path: Path) -> None:
    database_copy.copy(founded.url, tmp_path / database_copy.POSTGRESQL)
    assert database_copy.check(tmp_path / database_copy.POSTGRESQL) == ""


def test_a_primary_that_becomes_read_only_is_left(founded: Founded) -> None:
    """Its connections stay, and would be used for ever: the next write asks the servers anew."""
    database = Database(founded.url)
    with database.read() as transaction:
        transaction.connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
    with pytest.raises(SQLAlchemyError, match="read-only"):
        database.check_writing()
    database.check_writing()
    database.close()


def test_what_was_seen_is_kept_and_read_again(tmp_path: Path) -> None:
    """rules H35, H37: a link that is older than what was seen is passed over; under a higher epoch it counts."""
    file = tmp_path / continuity.FILE
    one = continuity.read_kept(file)
    one.note(LinkMark(7, "ab" * 32), 2)
    one.note(LinkMark(6, "cd" * 32), 2)  # older
    assert continuity.read_kept(file).seen == one.seen
    assert one.seen.mark.number == 7
    assert file.stat().st_mode & 0o777 == 0o600
    one.note(LinkMark(1, "ef" * 32), 3)
    assert continuity.read_kept(file).seen.authority_epoch == 3
    file.write_text("{}")
    with pytest.raises(Refused) as refused:
        continuity.read_kept(file)
    assert refused.value.code is Code.INVALID_SETTINGS and "damaged" in refused.value.detail


def test_what_cannot_be_kept_stops_nothing(tmp_path: Path) -> None:
    seen = continuity.read_kept(tmp_path / "gone" / continuity.FILE)
    seen.note(LinkMark(7, "ab" * 32), 2)
    assert seen.seen.mark.number == 7


def test_no_server_at_all_is_said_of_each(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    database = Database(f"postgresql+psycopg://holdfast@/postgres?host={one},{two}")
    with pytest.raises(OperationalError) as found, database.read():
        raise AssertionError
    database.close()
    assert f"no server takes writes: {one}: " in line_of(found.value)

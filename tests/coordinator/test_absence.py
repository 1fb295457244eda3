"""A coordinator whose database is away: nodes are told again what they were told last, and nothing else is made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import update

from coordinator.base.settings import DAY
from coordinator.database import schema
from coordinator.replicas.generations import BLOCK
from coordinator.runtime.absence import Absence
from tests.coordinator import reports
from tests.coordinator.candidates import contents
from tests.coordinator.daemon import Follower, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_database_outage import unavailable
from tests.coordinator.test_restored_backup import back_up, is_ready, put_back
from wire.client import ClientError

STATE = "{kind: Node, id: node-a, spec: {roles: [core_mesh]}}"
HEADS = ("heads", "documents", "published")


@dataclass
class World:
    """A coordinator on SQLite, its clocks, and the place of its file, which may be gone."""

    founded: Founded
    passed_s: float = 0.0
    files: list[Path] = field(default_factory=list)

    def now(self) -> float:
        return self.founded.now + self.passed_s

    async def lose(self, at: Running, *, looks: bool = True) -> None:
        """Nothing is open any more, and nothing is found there. `looks`: the keeper has just looked at it."""
        at.daemon.coordinator.absence.elapsed = lambda: self.passed_s
        if looks:
            await at.daemon.keeper.look()
        at.daemon.coordinator.database.engine.dispose()
        folder = self.founded.folder
        self.files = [path for path in folder.iterdir() if path.name.startswith("state.db") and path.suffix != ".lock"]
        for path in self.files:
            path.rename(folder / f"away-{path.name}")
        (folder / "state.db").mkdir()  # no new file is made there

    def find(self) -> None:
        (self.founded.folder / "state.db").rmdir()
        for path in self.files:
            (path.parent / f"away-{path.name}").rename(path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    seldom = "joins_per_minute = 1000\nstore_polling_s = 300"  # the keeper looks when a test says so
    return World(Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", settings=seldom))


async def look(at: Running) -> None:
    """As its tasks do it, in time."""
    await at.daemon.keeper.look()
    await at.daemon.repeater.repeat()


async def member(at: Running) -> Follower:
    follower = Follower(await at.admit("node-a"))
    await follower.sync(wait=10)
    return follower


def refresh_s(at: Running) -> int:
    return at.daemon.coordinator.settings.head_refresh_s


async def test_its_last_heads_are_signed_again(world: World) -> None:
    """rules P1, P5, P23, K41, K47: a node stays fresh; writes are 503 with a time; what is frozen is said in words."""
    async with running(world.founded, now=world.now) as at:
        follower = await member(at)
        node, listed = follower.node, follower.holder.active
        published = follower.generation
        await world.lose(at)
        await look(at)
        assert not await follower.sync(now=world.now()), "it is fresh still"
        for repeated in (1, 2):
            world.passed_s += refresh_s(at) + 1
            await look(at)
            assert await follower.sync(now=world.now())
            assert follower.generation == published + repeated
        assert {name: held.envelope for name, held in follower.holder.active.items() if name != "head"} == {
            name: held.envelope for name, held in listed.items() if name != "head"
        }
        head = follower.holder.active["head"].envelope
        assert head.expires_at > world.now() + refresh_s(at) / 2

        words = "signed again as they are until "
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and words.encode() in said and b"revocation" in said
        with pytest.raises(ClientError, match=words):
            await at.ask("GET", "/v1/status")
        (own,) = (await at.ask("GET", "/v1/coordinators/status"))["coordinators"]
        assert own["state"] == "not_ready" and words in own["faults"][0]
        for asked in (at.apply(STATE), at.token(), node.report(reports.body("node-a", {})), node.join(None)):
            await unavailable(asked)

        world.find()
        await look(at)
        at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=world.now())
        assert follower.generation == published + BLOCK
        assert follower.holder.active["head"].envelope.issued_at >= head.issued_at  # rules K47
        assert await is_ready(at)
        assert (await at.ask("GET", "/v1/status"))["alarms"] == {}
        await at.declare(STATE)
        assert await follower.sync(wait=60, now=world.now())


async def test_not_for_longer_than_is_set(world: World) -> None:
    async with running(world.founded, now=world.now) as at:
        follower = await member(at)
        await world.lose(at)
        world.passed_s += DAY
        await look(at)
        assert await follower.sync(now=world.now())
        held = follower.generation
        world.passed_s += refresh_s(at) + 1
        await look(at)
        assert not await follower.sync(now=world.now())
        assert follower.generation == held and at.daemon.repeater.signed == 1
        assert b"no longer signed again" in (await at.probe("/probe/readiness"))[1]
        world.find()
        await look(at)
        at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=world.now())


@pytest.mark.parametrize("is_seen", [True, False], ids=["that was looked at", "that came after the last look"])
async def test_a_database_that_comes_back_older_signs_nothing(world: World, is_seen: bool) -> None:
    """rules K41, P30, H37: what nodes hold is never signed with another content, whatever the keeper saw last."""
    async with running(world.founded, now=world.now) as at:
        follower = await member(at)
        backup = back_up(world.founded.url)
        if is_seen:
            await at.declare(STATE)
        else:
            await at.daemon.keeper.look()
            world.passed_s += refresh_s(at) + 1  # a renewal alone is no change of the state
            at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=world.now())
        await world.lose(at, looks=is_seen)
        await look(at)
        world.passed_s += refresh_s(at) + 1
        await look(at)
        assert await follower.sync(now=world.now())
        world.find()
        put_back(world.founded.url, backup)
        database = at.daemon.coordinator.database
        before = contents(database, *HEADS)
        at.daemon.coordinator.publisher.wake()
        await look(at)
        world.passed_s += refresh_s(at) + 1
        await look(at)
        assert await refusal(follower.node.head()) == "not_ready"
        assert b"from an old backup" in (await at.probe("/probe/readiness"))[1]
        assert contents(database, *HEADS) == before
        assert at.daemon.repeater.signed == 0

        with database.change(actor="root", now=world.now()) as transaction:
            transaction.audit("epoch", "2")
            transaction.run(update(schema.cluster).values(authority_epoch=2))
        await look(at)
        assert at.daemon.coordinator.standstill.why == ""


async def test_who_has_never_seen_it_signs_nothing(world: World) -> None:
    """Nor is there anything to give out: the node goes to the next coordinator."""
    async with running(world.founded, now=world.now) as at:
        follower = await member(at)
    async with running(world.founded, now=world.now) as at:
        node = TlsNode(at, "node-a", pair=follower.node.pair)
        await world.lose(at)
        at.daemon.coordinator.absence.issue = None  # as before its first look
        world.passed_s += refresh_s(at) + 1
        await look(at)
        await unavailable(node.head())
        assert b"was not ready when the database went" in (await at.probe("/probe/readiness"))[1]
        world.find()


def absence(bound_s: int, elapsed: Callable[[], float]) -> Absence:
    made = Absence(bound_s, elapsed)
    made.note_answer(None, now=1_700_000_000)
    return made


def test_it_may_be_switched_off() -> None:
    off = absence(0, lambda: 0.0)
    off.note_silence()
    assert not off.may_sign and "database_away_s = 0" in off.words
    off.note_answer(None, now=1_700_000_000)
    assert off.words == ""

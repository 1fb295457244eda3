"""The fleet in numbers, as metrics tell it (rules J46, K30)."""

import pytest
import trio
import trio.testing
from prometheus_client.core import Metric

from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database.database import Database
from coordinator.fleet import fleet
from coordinator.membership import revocation
from coordinator.reports import heartbeats
from coordinator.runtime import fleet_figures, fleet_metrics
from coordinator.runtime.fleet_figures import KEPT_S, Lately, figures
from tests.coordinator import copies
from tests.coordinator.candidates import NOW, Candidate, admit, found, join, token_for
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import heartbeat

SETTINGS = CoordinatorSettings()


@pytest.fixture
def members(database: Database) -> Database:
    """a is behind and degraded, b is revoked, c was never heard of, d is silent, e is as it should be."""
    copies.made(database, "fleet figures", fill)
    return database


def fill(database: Database) -> None:
    found(database)
    for name in "abcde":
        admit(database, f"node-{name}", **({"kind": "witness"} if name == "e" else {}))
    publish(database, publication(basis(database), document("route_policy", 4, b"4")))
    heartbeats.record(database, [heartbeat("node-d")], now=NOW - 3_600)
    said = {"mode": "degraded", "state": "degraded", "agent_version": "0.9", "roots_confirmed": False}
    heartbeats.record(database, [heartbeat("node-a", **said), heartbeat("node-e")], now=NOW)
    revocation.revoke_node(database, "node-b", reason="gone", actor="root", now=NOW)
    with pytest.raises(Refused):
        join(database, Candidate("node-x"), token_for(database))


def counted(database: Database, now: float = NOW + 5) -> fleet_figures.FleetFigures:
    return figures(database, now=now, settings=SETTINGS)


def test_what_is_counted(members: Database) -> None:
    seen = counted(members)
    assert seen.kinds == {"data": 3, "witness": 1}
    assert seen.states == {"degraded": 1, "revoked": 1, "unseen": 1, "silent": 1, "active": 1}
    assert seen.modes == {"degraded": 1, "normal": 2}
    assert seen.agents == {"0.9": 1, "0.1.0": 2}
    assert seen.stragglers == {"late": 1, "unseen": 1, "silent": 1}
    assert seen.behind == {"route_policy": 1}
    assert seen.lag_versions["max"] == 1
    assert seen.joins_refused == {"unauthorized_peer": 1}
    assert seen.roots_unconfirmed == 1
    assert seen.first_head_expires_at is not None and seen.oldest_head_refresh_after is not None


def test_it_is_what_the_fleet_tells(members: Database) -> None:
    seen, told = counted(members), fleet.observe(members, now=NOW + 5, settings=SETTINGS)
    assert seen.states == told.states
    assert seen.grades == told.grades
    assert (seen.roots_unconfirmed, told.roots_unconfirmed) == (told.roots_unconfirmed_total, ("node-a",))
    assert sum(seen.stragglers.values()) == told.stragglers_total
    assert (seen.lag_versions, seen.joins_refused) == (told.lag_versions, told.rejected_joins)


def test_a_chunk_is_no_border(members: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = counted(members)
    monkeypatch.setattr(fleet_figures, "_CHUNK", 2)
    assert counted(members) == whole


def test_what_nodes_choose_bounds_nothing_else(members: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """threats D-59: each node may say a version of its own"""
    most = 4
    monkeypatch.setattr("coordinator.runtime.fleet_figures.MOST_WORDS", most)
    for number in range(most + 7):
        heartbeats.record(members, [heartbeat("node-a", agent_version=f"v{number}")], now=NOW)
        admit(members, f"more-{number}")
        heartbeats.record(members, [heartbeat(f"more-{number}", agent_version=f"w{number}")], now=NOW)
    agents = counted(members).agents
    assert len(agents) == most + 1
    assert sum(agents.values()) == most + 7 + 3


def samples(families: list[Metric]) -> dict[tuple[str, ...], float]:
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_zero_is_told_too(members: Database) -> None:
    told = samples(list(fleet_metrics.families(counted(members))))
    assert told["holdfast_fleet_nodes", "fenced"] == 0
    assert told["holdfast_fleet_nodes", "silent"] == told["holdfast_fleet_stragglers", "late"] == 1
    assert told["holdfast_fleet_stragglers", "node_behind"] == told["holdfast_fleet_baseline_shortfall",] == 0
    assert told["holdfast_fleet_joins_refused_total", "unauthorized_peer"] == 1


class Standing:
    """What Lately asks of a coordinator; its database counts how often it was read."""

    def __init__(self, database: Database) -> None:
        self.settings, self.reads = SETTINGS, 0
        self._database = database

    @property
    def database(self) -> Database:
        self.reads += 1
        return self._database

    def now(self) -> float:
        return NOW + 5


async def test_many_scrapes_are_one_look(members: Database) -> None:
    """And nobody's scrape is none."""
    at = Standing(members)
    lately = Lately(at)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lately.run)
        await trio.testing.wait_all_tasks_blocked()
        assert at.reads == 0
        first = await lately.look()
        assert first == counted(members)
        for _ in range(10):
            assert await lately.look() is first
        await trio.testing.wait_all_tasks_blocked()
        assert at.reads == 1 < KEPT_S
        nursery.cancel_scope.cancel()


async def test_while_the_database_does_not_answer_the_last_look_stands(
    members: Database, tmp_path, monkeypatch
) -> None:
    """And a scrape before the first is told nothing of the fleet, in time."""
    monkeypatch.setattr(fleet_figures, "FIRST_S", 0.1)
    away = Standing(Database(f"sqlite:///{tmp_path}/nothing/here.db"))
    lately = Lately(away)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lately.run)
        assert await lately.look() is None
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        monkeypatch.undo()
        back = Lately(Standing(members))
        nursery.start_soon(back.run)
        assert await back.look() is not None
        nursery.cancel_scope.cancel()

"""Joins of strangers that were refused: counted at once, written together."""

from pathlib import Path

import pytest

from coordinator.api import node_api
from coordinator.base.refusal import Code, Refused
from coordinator.fleet import fleet
from coordinator.membership.refused_joins import ELSEWHERE, MOST, RefusedJoins, network_of
from tests.coordinator.daemon import TlsNode, refusal, running
from tests.coordinator.founding import Founded
from wire.client import Call, ClientError


@pytest.fixture
def founded(tmp_path: Path, database_url: str) -> Founded:
    """On SQLite and on PostgreSQL."""
    return Founded(tmp_path, database_url, settings="joins_per_minute = 1000")


async def test_strangers_write_nothing_until_the_minute_is_over(founded: Founded) -> None:
    """Flood: thirty refusals, no row; then one for each code and network, and the next member is admitted."""
    async with running(founded) as at:
        before = len((await at.ask("GET", "/v1/audit"))["entries"])
        stranger = TlsNode(at, "stranger")
        for _ in range(20):
            call = Call("POST", "/v1/join", (), b"{}")
            assert await refusal(stranger.stranger.fetch(at.joining, call)) == "bad_proof"
        for token in [None] * 10:
            assert await refusal(stranger.join(token)) == "bad_token"
        assert len((await at.ask("GET", "/v1/audit"))["entries"]) == before
        coordinator = at.daemon.coordinator
        await coordinator.refused_joins.flush(coordinator.database, coordinator.now())
        rows = (await at.ask("GET", "/v1/audit?action=join"))["entries"]
        assert {row["outcome"] for row in rows} == {"bad_proof", "bad_token"}
        counts = {code: sum(row["after"]["count"] for row in rows if row["outcome"] == code) for code in Code}
        assert (counts[Code.BAD_PROOF], counts[Code.BAD_TOKEN]) == (20, 10)
        with coordinator.database.read() as transaction:
            told = fleet.join_rejections(transaction, 0.0)
        assert dict(told) == {"bad_proof": 20, "bad_token": 10}
        assert all(row["after"]["detail"] and row["after"]["minute"] for row in rows)
        assert len(coordinator.refused_joins) == 0
        assert (await at.admit("node-a")).grant.outcome == "admitted"


async def test_what_is_counted_is_written_at_the_end(founded: Founded) -> None:
    async with running(founded) as at:
        stranger = TlsNode(at, "stranger")
        assert await refusal(stranger.join(None)) == "bad_token"
        await at.daemon._wind_down()
        assert len(at.daemon.coordinator.refused_joins) == 0


async def test_strangers_in_all_have_one_budget_beside_that_of_each_address(
    founded: Founded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flood from many addresses; a member renews over its own connection meanwhile."""
    monkeypatch.setattr(node_api, "JOINS_IN_ALL_PER_MINUTE", 2)
    async with running(founded) as at:
        node = await at.admit("node-a")
        stranger = TlsNode(at, "stranger")
        assert await refusal(stranger.join(None)) == "bad_token"
        with pytest.raises(ClientError) as found:
            await stranger.join(None)
        assert (found.value.status, found.value.code) == (429, "too_many_requests")
        assert found.value.retry_after_s >= 1
        assert (await TlsNode(at, "node-a").join(None, over=node)).outcome == "already_member"
        assert (await node.head()).status == 200


def test_sums_are_bounded_and_none_is_lost() -> None:
    """Fill: from as many networks as one likes."""
    kept, refused = RefusedJoins(), Refused(Code.BAD_PROOF, "no")
    for number in range(3 * MOST):
        kept.note(f"10.{number // 256}.{number % 256}.1", refused, 60.0)
    assert len(kept) == MOST + 1
    sums = kept.take()
    assert sum(each.count for each in sums.values()) == 3 * MOST
    assert sums[("bad_proof", ELSEWHERE, 60)].count == 2 * MOST
    kept.put_back(sums)
    assert kept.take() == sums


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("unknown", "unknown"),
    ],
)
def test_networks(address: str, network: str) -> None:
    assert network_of(address) == network

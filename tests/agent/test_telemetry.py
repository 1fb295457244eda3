"""A life of an agent leaves no secret in its log; what it counts only rises."""

import json

import pytest
import trio

from agent.base.telemetry import Counters
from tests.agent.bench import bench
from tests.fakes.coordinator_server import TOKEN, token_naming
from tests.fakes.damage import flipped
from tests.journeys.lab import ROUTES
from tests.logs import unchanged_logging
from wire.logs import set_up_logging


@pytest.fixture
def logging(capsys):
    """`logging(level)` sets it up; what was logged comes back, parsed."""

    def lines():
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    def set_up(level):
        set_up_logging(level)
        return lines

    with unchanged_logging():
        yield set_up


def test_counters_only_rise():
    counters = Counters()
    assert counters.of("x") == 0
    counters.add("x")
    counters.add("x", 4)
    counters.add("a")
    assert counters.all() == {"a": 1, "x": 5}
    assert list(counters.all()) == ["a", "x"]


async def test_a_life_of_an_agent_leaves_no_secret_in_its_log(one, mock_clock, logging):
    """rules K14, threats D-55, D-61: tokens, keys and contents; each event has its scope, version and reason"""
    lines = logging("debug")
    async with one.agent():
        await one.settled()
        one.server.snapshot({"routes": {"password": "swordfish"}}, ROUTES)
        one.server.announce()
        await one.until(lambda: one.rejected(ROUTES) == "raw_secret")
        one.server.spoil = lambda path, data: flipped(data, 8 * 300) if "documents" in path else data
        one.server.snapshot({"routes": {"south": {"psk-like": "swordfish"}}}, ROUTES)
        one.server.announce()
        await one.until(lambda: one.rejected(ROUTES) not in ("", "raw_secret"))
        await trio.sleep(60)
    logged = lines()
    text = json.dumps(logged)
    assert TOKEN not in text
    assert "swordfish" not in text
    assert "PRIVATE KEY" not in text
    by_event = {line["event"]: line for line in logged}
    refused = next(line for line in logged if line["event"] == "document refused")
    assert (refused["scope"], refused["version"], refused["reason"], refused["step"]) == (ROUTES, 2, "raw_secret", 12)
    assert by_event["activated"].keys() >= {"scopes", "versions", "sources", "generation"}
    assert by_event["state"].keys() >= {"state", "cause", "before"}
    assert by_event["joined"]["outcome"] == "admitted"


async def test_a_refused_token_is_not_in_the_log(one, mock_clock, logging):
    """rules K14, threats J12"""
    lines = logging("debug")
    (one.folder / "join.token").write_text(token_naming(["root-1"], 1, "token-text"))
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
    assert "token-text" not in json.dumps(lines())


async def test_a_start_where_all_is_well_warns_of_nothing(one, mock_clock, logging):
    lines = logging("warning")
    async with bench(one) as made:
        await made.settle()
    assert [line["event"] for line in lines()] == []

"""What ends is said: to the log once a day for each thing, to status, probes and metrics."""

import json
from collections.abc import AsyncIterator

import pytest

from coordinator.base.settings import DAY
from snapshot.ending import Urgency
from tests.coordinator.daemon import Running, running
from tests.coordinator.founding import Founded
from tests.logs import capture_logs


@pytest.fixture
async def at(founded: Founded) -> AsyncIterator[Running]:
    async with running(founded) as started:
        yield started


class Moved:
    """The clock of one coordinator, moved by a test."""

    def __init__(self, at: Running) -> None:
        self.days = 0.0
        self._now = at.daemon.coordinator.now
        object.__setattr__(at.daemon.coordinator, "now", lambda: self._now() + self.days * DAY)


async def said(at: Running) -> list[str]:
    """Of what the log is told at one look."""
    with capture_logs() as logs:
        await at.daemon.reminder.look()
    return [f"{each['log_level']} {each['what']}" for each in logs if each["event"] == "ends"]


async def test_once_a_day_for_each_thing(at: Running):
    moved = Moved(at)
    assert await said(at) == []
    moved.days = 61
    assert await said(at) == ["error backup", "warning trust_bundle"]
    moved.days = 61.9
    assert await said(at) == []
    moved.days = 62.1
    assert await said(at) == ["error backup", "warning trust_bundle"]
    moved.days = 90.1
    assert await said(at) == ["error backup", "error trust_bundle"]


async def test_status_probe_metrics_and_the_whole_list_say_it(at: Running):
    """rules H20: it is told beside the readiness, which stays"""
    assert [each["what"] for each in (await at.ask("GET", "/v1/status"))["due"]] == []
    assert json.loads((await at.probe("/probe/readiness"))[1]) == {"ok": True, "due": []}
    Moved(at).days = 61
    due = (await at.ask("GET", "/v1/status"))["due"]
    assert [(each["what"], each["urgency"]) for each in due] == [("backup", "ended"), ("trust_bundle", "soon")]
    status, body = await at.probe("/probe/readiness")
    assert status == 200
    assert "nothing can be published" in json.loads(body)["due"][1]
    assert "trust export-request" in json.loads(body)["due"][1]
    lines = (await at.probe("/metrics"))[1].decode().splitlines()
    ends = int(at.founded.made_at) + 90 * DAY
    name = 'holdfast_coordinator_expires_timestamp_seconds{name="1",what="trust_bundle"} '
    assert [float(line.removeprefix(name)) for line in lines if line.startswith(name)] == [ends]
    assert 'holdfast_coordinator_due{name="1",what="trust_bundle"} 1.0' in lines
    assert 'holdfast_coordinator_due{name="none was made yet",what="backup"} 2.0' in lines


async def test_members_are_counted_and_listed_where_asked_for(at: Running):
    await at.admit("node-a")
    whole = await at.ask("GET", "/v1/due?within_s=0&all=1")
    short = await at.ask("GET", "/v1/due")
    assert whole["members"] == short["members"]
    assert short["members"]["certificates"] == 1
    assert [each["name"] for each in whole["things"] if each["what"] == "node_certificate"] == ["node-a"]
    assert [each for each in short["things"] if each["what"] == "node_certificate"] == []
    assert short["urgency"] == Urgency.FINE  # the token of the join is used: it ends nothing any more
    assert (await at.ask("GET", f"/v1/due?within_s={91 * DAY}"))["urgency"] == Urgency.SOON

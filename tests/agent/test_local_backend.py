"""The node as the local API asks for it: its report, and documents that somebody hands in."""

import json

import pytest
import trio

from agent.local.local_backend import Front
from snapshot import canonical
from snapshot.reasons import Reason, Rejected
from tests.agent.bench import bench
from tests.fakes.damage import flipped
from tests.journeys.lab import ROUTES
from wire.backoff import LEAST_S
from wire.forms import record
from wire.local.local_answers import TakenDocument
from wire.local.node_status import NodeReport
from wire.request import HttpError


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


class BodyStream:
    """As a request's body comes."""

    def __init__(self, data, size=1000):
        self._left = [data[start : start + size] for start in range(0, len(data), size)]

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


async def test_the_report_is_json_and_says_how_it_is(made, mock_clock):
    """protocol.md 4, rules A15: also before anybody was spoken to"""
    said = made.inside.front.report()
    report = record(NodeReport).write(said)
    assert record(NodeReport).read(report, "the report") == said
    assert json.loads(canonical.dumps(report)) == report
    assert (report["state"], report["cause"], report["degraded_since"], report["join"]) == ("active", "", None, None)
    assert (report["node_id"], report["trust_bundle_version"], report["roles"]) == ("node-a", 1, ["core_mesh"])
    assert report["rollback_check"] == "confirmed"
    assert {name: value for name, value in report["sources"][0].items() if value is not None} == {
        "kind": "coordinator", "url": str(made.coordinator), "named_by": "agent.toml", "error": "", "failures": 0,
        "again_in_s": 0, "worked_s_ago": 0,
    }  # fmt: skip
    assert report["origins"][ROUTES]["source"] == str(made.coordinator)
    alone = Front(made.node, made.inside.front.decisions, made.inside.front.running).report()
    assert (alone.sources, alone.awaited) == ((), {})


async def test_the_report_says_what_is_awaited_and_when_it_is_asked_for_again(made, mock_clock):
    """rules S86, X27"""
    made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    made.server.announce()
    made.server.documents.clear()
    await made.outside.refresh.ask(made.coordinator)
    await made.outside.update.bring_up()
    awaited = made.inside.front.report().awaited[ROUTES]
    assert (awaited.config_version, awaited.below_accepted) == (2, False)
    assert 0 < awaited.again_in_s <= 6
    made.outside.wake()
    await trio.sleep(LEAST_S)
    assert made.inside.front.report().awaited[ROUTES].again_in_s == 0


async def test_a_document_that_is_handed_in_goes_the_same_way(made, mock_clock):
    """rules S60, S86: with a fresh head only what it lists; in pieces, as a body comes"""
    new = made.server.snapshot({"routes": {f"r{number}": {} for number in range(500)}}, ROUTES)
    with pytest.raises(HttpError) as caught:
        await made.inside.front.take(BodyStream(new.to_bytes()))
    assert (caught.value.status, caught.value.code) == (409, "not_listed")
    head = made.server.cluster.head(**made.server.times())
    assert (await made.inside.front.take(BodyStream(head.to_bytes()))).outcome == "activated"
    outcome = await made.inside.front.take(BodyStream(new.to_bytes()))
    assert outcome == TakenDocument("activated", ROUTES, 1, 2)
    assert (await made.inside.front.take(BodyStream(new.to_bytes()))).outcome == "already_applied"
    assert made.outside.update.activating.origins[ROUTES].source == "import"


async def test_what_is_no_document_is_refused(made, mock_clock):
    """rules S53, P6: active stays"""
    new = made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    made.server.announce()
    await made.take(made.server.cluster.published["head"])
    for data in (b"", b"nonsense", new.to_bytes()[:40]):
        with pytest.raises(Rejected) as caught:
            await made.inside.front.take(BodyStream(data))
        assert caught.value.reason is Reason.BAD_CONTAINER
    with pytest.raises(Rejected) as caught:
        await made.inside.front.take(BodyStream(flipped(new.to_bytes(), 8 * (len(new.to_bytes()) - 2))))
    assert caught.value.reason is Reason.CONTENT_MISMATCH
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 1
    assert (await made.inside.front.take(BodyStream(new.to_bytes()))).outcome == "activated"


async def test_before_the_agent_speaks_to_anybody_it_takes_nothing(made, mock_clock):
    """rules A10"""
    with pytest.raises(HttpError) as caught:
        await Front(made.node, made.inside.front.decisions, made.inside.front.running).take(BodyStream(b"x"))
    assert (caught.value.status, caught.value.code) == (503, "not_ready")

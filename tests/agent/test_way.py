"""Whether a coordinator is there: any sign of life will do."""

from contextlib import closing

import pytest
import trio

from agent.sources.way import Way, is_refused
from tests.agent.bench import bench
from tests.fakes.ports import held_port
from tests.journeys.lab import lab
from tests.world import elapsed
from wire.client import ClientError, ClientFault


@pytest.fixture
async def asked(one, mock_clock):
    """A node that is a member, beside a coordinator that runs."""
    async with bench(one) as made:
        await made.settle()
        yield made, Way(made.node, made.outside.sources)


@pytest.mark.parametrize("says", ["news", "nothing new", "down", "refuse"])
async def test_an_answer_of_any_kind(asked, mock_clock, says):
    made, way = asked
    if says == "news":
        made.server.announce()
    made.server.down = says == "down"
    made.server.refuse = "revoked" if says == "refuse" else ""
    assert await way.is_open()
    assert made.node.store.watch.generation, "what came with it is left to those who take it"


async def test_silence(asked, mock_clock):
    made, way = asked
    made.server.hang = "GET /v1/head"
    began = trio.current_time()
    assert not await way.is_open()
    assert elapsed.since(began) <= 6
    made.server.hang = ""
    assert await way.is_open()


async def test_whoever_refuses_a_connection_is_there(tmp_path, mock_clock):
    """A coordinator that is being restarted"""
    with closing(held_port()) as port:
        async with lab(tmp_path, mock_clock) as one:
            gone = f"https://127.0.0.1:{port.getsockname()[1]}"
            coordinator = one.settings.coordinator.__class__(urls=(gone,), ca_file=one.server.ca_file)
            one.settings = one.settings.__class__(**{**vars(one.settings), "coordinator": coordinator})
            async with bench(one) as made:
                made.outside.joining.identity.ensure(made.node.settings.node, made.node.now())
                assert await Way(made.node, made.outside.sources).is_open()


def test_no_route_is_no_refusal():
    lost = ClientError(ClientFault.CONNECT_FAILED, "no route to host")
    lost.__cause__ = OSError(113, "No route to host")
    assert not is_refused(lost)
    lost.__cause__ = OSError("all attempts failed")
    lost.__cause__.__cause__ = ExceptionGroup("all", [OSError(113, "No route"), ConnectionRefusedError(111, "no")])
    assert is_refused(lost)

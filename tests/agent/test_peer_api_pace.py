"""What peers are handed, at the pace of the relay."""

import hashlib

import pytest
import trio

from agent.relay.handing_out import HandingOut
from tests.agent.peer_lab import peer_lab
from tests.agent.test_peer_listener import keep


@pytest.fixture
async def made(one, mock_clock):
    async with peer_lab(one) as found:
        yield found


async def test_a_large_section_keeps_nobody_from_a_first_byte(made, mock_clock):
    """rules X27: of sections as of documents each who waits has something within seconds; who waits longer than for a
    first byte rests the relay, and fetches another copy over the site's link
    """
    b, c = made.asker("node-b"), made.asker("node-c")
    await made.list(node_b={}, node_c={})
    shared = made.document(
        "route_policy", sections={"routes": {str(number): {"t": "y" * 3_000} for number in range(250)}}
    )
    assert await keep(made, shared)
    for asker in (b, c):
        await asker.show(made.head(asker.node_id, shared))
    made.listener.api._handing_out = HandingOut(64 << 10)
    section, answers = hashlib.sha256(shared.sections[0]).hexdigest(), []

    async def ask(asker):
        answers.append((await asker.ask("sections", section)).body)

    async with trio.open_nursery() as nursery:
        for asker in (b, c):
            nursery.start_soon(ask, asker)

    assert answers == [shared.sections[0]] * 2

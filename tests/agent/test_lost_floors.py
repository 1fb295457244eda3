"""Both floor files lost: what confirms what the disk says, and what does not (threats D-24)."""

import trio

from tests.journeys.lab import ROUTES

CLUSTER = "raven-1"


def lose_both(one):
    for name in ("a.rec", "b.rec"):
        (one.folder / "state" / "clusters" / CLUSTER / "floors" / name).write_bytes(b"")


async def looked_again(one):
    """A round of the update, and whatever it leads to."""
    one.node.tell()
    await trio.sleep(60)


async def test_the_head_that_lies_beside_them_confirms_nothing(one, mock_clock):
    """threats D-24: nor does a coordinator that has nothing newer; the next head from outside does"""
    async with one.agent():
        await one.settled()
    await trio.sleep(2)
    lose_both(one)
    one.server.down = True
    async with one.agent():
        assert one.node.gate_facts().head_is_fresh(one.node.now())
        await looked_again(one)
        assert one.node.holdings.floor_lost, "it is fresh, and lies beside them"
        one.server.down = False
        await one.until(lambda: one.node.check_in.confirmed)
        await looked_again(one)
        assert one.node.holdings.floor_lost, "nobody has signed that there is nothing newer"
        assert one.version(ROUTES) == 1
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        await one.until(lambda: not one.node.holdings.floor_lost)


async def test_a_head_that_was_recorded_before_the_start_confirms_nothing(one, mock_clock):
    """threats D-24: whoever puts back a disk may have heads of the same day, too"""
    async with one.agent():
        await one.settled()
    await trio.sleep(2)
    one.server.announce()
    await trio.sleep(2)
    lose_both(one)
    async with one.agent():
        held = one.node.holdings.head_hash
        await one.until(lambda: one.node.holdings.head_hash != held)
        await looked_again(one)
        assert one.node.holdings.floor_lost
        assert (await one.status())["store"]["floor_lost"]
        one.server.announce()
        await one.until(lambda: not one.node.holdings.floor_lost)

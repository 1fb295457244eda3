"""What is handed to other nodes, at its pace."""

from collections import Counter

import trio

from agent.relay.handing_out import BURST_S, PIECE_BYTES, HandingOut

MIB = 1 << 20


async def stream(size: int):
    left = size
    while left:
        piece = min(left, 256 << 10)
        left -= piece
        yield bytes(piece)


async def receive(handing: HandingOut, name: str, size: int, had: Counter) -> float:
    async for piece in handing.pace(name, stream(size)):
        assert len(piece) <= PIECE_BYTES
        had[name] += len(piece)
    return trio.current_time()


async def test_all_together_have_the_rate_and_each_the_same_share(autojump_clock):
    """A greedy one with six streams, and two with one: at any time the two have as much as he has"""
    handing, had, began = HandingOut(MIB), Counter(), trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(receive, handing, "greedy", 4 * MIB, had)
        for name in ("b", "c"):
            nursery.start_soon(receive, handing, name, 4 * MIB, had)
        await trio.sleep(6)
        assert handing.waiting > 0
        assert abs(sum(had.values()) - 6.25 * MIB) <= 2 * PIECE_BYTES
        for name in ("b", "c"):
            assert abs(had[name] - had["greedy"]) <= BURST_S * MIB + 2 * PIECE_BYTES, "but for the burst that began it"
    assert had == {"greedy": 24 * MIB, "b": 4 * MIB, "c": 4 * MIB}
    assert handing.handed == 32 * MIB
    assert 31 <= trio.current_time() - began <= 33
    assert handing.waiting == 0


async def test_who_is_alone_waits_for_nobody_until_the_rate_is_reached(autojump_clock):
    handing, had, began = HandingOut(16 * MIB), Counter(), trio.current_time()
    assert await receive(handing, "a", 4 * MIB, had) == began


async def test_who_goes_while_he_waits_holds_up_nobody(autojump_clock):
    """The one that kept the time too: the next one keeps it"""
    handing, had = HandingOut(MIB), Counter()
    await handing.take("a", MIB)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            with trio.move_on_after(0.01):
                await handing.take("gone", MIB)
        began = trio.current_time()
        nursery.start_soon(receive, handing, "b", MIB, had)
    assert had["b"] == MIB
    assert trio.current_time() - began < 2.5


async def test_one_that_keeps_the_time_is_cancelled_while_others_wait(autojump_clock):
    handing, had = HandingOut(MIB), Counter()
    await handing.take("a", MIB)
    with trio.move_on_after(0.05):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handing.take, "first", MIB)
            await trio.sleep(0.01)
            nursery.start_soon(handing.take, "second", MIB)
    await receive(handing, "b", MIB, had)
    assert (had["b"], handing.waiting) == (MIB, 0)

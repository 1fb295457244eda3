"""What is handed to other nodes, at its pace."""

from collections import Counter

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent.relay.handing_out import BURST_S, PIECE_BYTES, HandingOut
from tests.world import elapsed

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
    assert 31 <= elapsed.since(began) <= 33
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
    assert elapsed.since(began) < 2.5


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


def test_who_is_to_keep_the_time_and_has_its_turn_at_once_leaves_it_to_the_next():
    """A new one comes just then, when there is enough for both of them, and not yet for who has had more"""
    clock, handing = MockClock(), HandingOut(MIB)

    async def first() -> None:
        await handing.take("a", PIECE_BYTES)
        clock.jump(3 * PIECE_BYTES / MIB)
        await handing.take("new", PIECE_BYTES)

    async def main() -> None:
        await handing.take("before", MIB // 4)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(first)
                for name in ("b", "c", "c"):
                    await wait_all_tasks_blocked()
                    nursery.start_soon(handing.take, name, PIECE_BYTES)
                await wait_all_tasks_blocked()
                clock.autojump_threshold = 0
        assert handing.waiting == 0

    trio.run(main, clock=clock)

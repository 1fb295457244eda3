"""A fleet that hangs up at once is noticed in full, some at a time."""

import socket
from functools import partial
from itertools import pairwise

import trio

from wire.disconnect_watch import MOST_AT_ONCE, DisconnectWatch


async def test_of_many_that_go_at_once_all_are_noticed_and_others_have_their_turn_in_between() -> None:
    pairs = [socket.socketpair() for _ in range(3 * MOST_AT_ONCE)]
    watch, gone, seen = DisconnectWatch(), [], []

    async def look_on() -> None:
        while len(gone) < len(pairs):
            seen.append(len(gone))
            await trio.lowlevel.checkpoint()

    for ours, theirs in pairs:
        watch.add(ours.fileno(), partial(gone.append, ours.fileno()))
        theirs.close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        with trio.fail_after(60):
            await look_on()
        nursery.cancel_scope.cancel()
    assert sorted(gone) == [ours.fileno() for ours, _ in sorted(pairs, key=lambda pair: pair[0].fileno())]
    assert max(later - before for before, later in pairwise([*seen, len(gone)])) <= 2 * MOST_AT_ONCE < len(pairs)
    for ours, _ in pairs:
        ours.close()


async def test_who_is_discarded_is_not_told_of() -> None:
    watch, gone = DisconnectWatch(), []
    ours, theirs = socket.socketpair()
    watch.add(ours.fileno(), lambda: gone.append(True))
    watch.discard(ours.fileno())
    theirs.close()
    with trio.move_on_after(0.01):
        await watch.run()
    assert gone == []
    ours.close()

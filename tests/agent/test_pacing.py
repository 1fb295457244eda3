"""What others ask for in a loop is done once a second after it has failed, and at once while it goes well."""

from itertools import pairwise

import pytest
import trio

from agent.update.pacing import Pacing
from tests.world import elapsed
from wire.backoff import LEAST_S


async def test_after_a_failure_the_next_turn_waits_for_the_floor(autojump_clock):
    """rules X27: also where ten ask at the same time"""
    pacing, begun = Pacing(), []

    async def in_vain() -> None:
        async with pacing.turn():
            begun.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(in_vain)
    assert all(after - before >= LEAST_S for before, after in pairwise(begun))


async def test_what_goes_well_waits_for_nothing(autojump_clock):
    pacing, start = Pacing(), trio.current_time()
    for _ in range(10):
        async with pacing.turn() as turn:
            turn.succeeded = True
    assert trio.current_time() == start


async def test_an_error_is_a_failure_and_passes(autojump_clock):
    pacing, start = Pacing(), trio.current_time()
    with pytest.raises(ValueError, match="no good"):
        async with pacing.turn():
            raise ValueError("no good")
    async with pacing.turn():
        assert elapsed.since(start) >= LEAST_S

"""One line a reason and interval, however often it comes; nothing that was counted is lost."""

import pytest
import trio
from trio.testing import MockClock

from wire.log_sampling import MOST, OTHERS, Sampled


@pytest.fixture
def said() -> list[tuple[str, int]]:
    return []


async def test_the_first_is_said_at_once_and_the_rest_in_one_line(
    said: list[tuple[str, int]], autojump_clock: MockClock
) -> None:
    """threats M13: a flood costs its own bandwidth, and no disk"""
    sampled = Sampled(lambda *line: said.append(line), every_s=60)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sampled.run)
        assert [sampled.is_first("broken") for _ in range(10_000)].count(True) == 1
        assert sampled.is_first("full")
        await trio.sleep(61)
        assert said == [("broken", 9_999)]
        assert not sampled.is_first("broken"), "it goes on: the next line is in a minute"
        assert sampled.is_first("full"), "that one had ended"
        await trio.sleep(60)
        assert said[1:] == [("broken", 1)]
        await trio.sleep(120)
        assert said[2:] == [] and sampled.is_first("broken")
        nursery.cancel_scope.cancel()


async def test_what_is_counted_is_said_at_the_end(said: list[tuple[str, int]]) -> None:
    sampled = Sampled(lambda *line: said.append(line))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sampled.run)
        assert [sampled.is_first("broken") for _ in range(3)] == [True, False, False]
        nursery.cancel_scope.cancel()
    assert said == [("broken", 2)]


async def test_reasons_without_end_are_others(said: list[tuple[str, int]]) -> None:
    """A reason may name who it was"""
    sampled = Sampled(lambda *line: said.append(line))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sampled.run)
        assert [sampled.is_first(f"reason {number}") for number in range(1_000)].count(True) == MOST
        nursery.cancel_scope.cancel()
    assert said == [(OTHERS, 1_000 - MOST)]

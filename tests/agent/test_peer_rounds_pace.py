"""When rounds of peers follow each other: hints, the floor under them, and a store that takes nothing."""

import random
from dataclasses import dataclass, field

import pytest
import trio

from agent.sources.sources import Sources
from agent.update.peer_rounds import SELDOM_S, STORE_RETRY_S, PeerRounds
from tests.agent.bench import bench
from wire.backoff import LEAST_S


@dataclass
class Counting(PeerRounds):
    """Counts its rounds, each of which asks one peer."""

    begun: list[float] = field(default_factory=list)
    takes: bool = True
    during: object = None

    def _due(self):
        return iter([None])

    def _pause_s(self):
        return SELDOM_S

    async def ask(self, source):
        self.begun.append(trio.current_time())
        if self.during is not None:
            await self.during()
        return self.takes


@pytest.fixture
async def rounds(one, mock_clock):
    async with bench(one) as made:
        sources: Sources = made.outside.sources
        found = Counting(made.node, sources, made.outside.update, random.Random(1).uniform)
        async with trio.open_nursery() as nursery:
            found.start = lambda: nursery.start_soon(found.run)
            yield found
            nursery.cancel_scope.cancel()


async def test_a_hint_that_comes_during_a_round_makes_the_next_one_sooner(rounds, mock_clock):
    """rules P14, J44"""

    async def hint():
        rounds.during = None
        rounds.sources.wake()

    rounds.during = hint
    rounds.start()
    await trio.sleep(LEAST_S * 2)
    assert len(rounds.begun) == 2
    await trio.sleep(SELDOM_S / 2)
    assert len(rounds.begun) == 2, "and no more than that"


async def test_hints_without_end_do_not_make_it_ask_without_end(rounds, mock_clock):
    """rules P14, J42"""
    rounds.start()
    for _ in range(200):
        rounds.sources.wake()
        await trio.sleep(0.05)
    assert len(rounds.begun) <= 10 / LEAST_S + 2


async def test_a_store_that_takes_nothing_is_tried_less_and_less(rounds, mock_clock):
    """rules P14, L35: whatever hints come; and once it takes something, soon again"""
    rounds.takes = False
    rounds.start()
    for _ in range(7_200):
        rounds.sources.wake()
        await trio.sleep(0.5)
    tried = len(rounds.begun)
    assert 3_600 / (STORE_RETRY_S + 1) <= tried < 200
    rounds.takes = True
    await trio.sleep(STORE_RETRY_S)
    before = len(rounds.begun)
    rounds.sources.wake()
    await trio.sleep(LEAST_S * 2)
    assert len(rounds.begun) == before + 1

"""Generations that tasks wait for, and the store's watch that they follow from another thread."""

import threading

import trio

from agent.base.generation import NOTHING_YET, Generation, following
from store.watch import GenerationChange, Watch


async def test_it_follows_the_store_from_the_writers_thread():
    """rules P4: late, doubled and lower notifications change nothing."""
    watch, generation = Watch(3), Generation()
    with following(watch, generation):
        assert generation.value == 3

        def write() -> None:
            for number in (4, 4, 7, 5):
                watch.tell(GenerationChange(number, ("route_policy",)))

        threading.Thread(target=write).start()
        with trio.fail_after(60):
            assert await generation.wait_above(6) == 7
    watch.tell(GenerationChange(8, ()))
    await trio.lowlevel.checkpoint()
    assert generation.value == 7


async def test_a_store_that_outlives_the_loop_disturbs_nobody():
    watch, generation = Watch(0), Generation()
    context = following(watch, generation)

    def in_a_loop_of_its_own() -> None:
        async def main() -> None:
            context.__enter__()

        trio.run(main)

    await trio.to_thread.run_sync(in_a_loop_of_its_own)
    watch.tell(GenerationChange(1, ()))
    assert generation.value == 0


async def test_waking_without_rising():
    generation = Generation()
    woken = []

    async def wait() -> None:
        await generation.wait_woken(generation.value)
        woken.append(generation.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        generation.wake()
    assert woken == [NOTHING_YET]

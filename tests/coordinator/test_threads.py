"""How trio code gets to the database (rules P7)."""

import threading

import trio

from coordinator.base.threads import in_database


async def test_calls_run_one_at_a_time_off_the_loop() -> None:
    running = 0
    most = 0
    seen: set[int] = set()

    def operation(number: int, *, factor: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        seen.add(threading.get_ident())
        running -= 1
        return number * factor

    results: list[int] = []

    async def call(number: int) -> None:
        results.append(await in_database(operation, number, factor=2))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(call, number)
    assert sorted(results) == [2 * number for number in range(20)]
    assert most == 1
    assert threading.get_ident() not in seen


async def test_a_write_that_has_begun_runs_to_its_end() -> None:
    """rules P7, J12: a cancelled caller loses the answer, not the commit."""
    begun, go_on, done = trio.Event(), threading.Event(), []
    token = trio.lowlevel.current_trio_token()

    def operation() -> None:
        token.run_sync_soon(begun.set)
        go_on.wait(10)
        done.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_database, operation)
        await begun.wait()
        nursery.cancel_scope.cancel()
        go_on.set()
    assert done == [True]

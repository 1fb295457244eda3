"""When all that lives is visited for what nobody reaches any more: everybody waits meanwhile."""

import gc
from collections.abc import Iterator

import pytest
import trio

from coordinator.base import interpreter
from coordinator.base.interpreter import GROWN_BYTES, LEAKED, LOOK_S, has_grown, resident_bytes

MIB = 1 << 20


class Knot:
    """What holds itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What the process takes at each look, the last one for ever; nothing else visits anything."""
    taken = [100 * MIB]
    monkeypatch.setattr(interpreter, "resident_bytes", lambda: taken.pop(0) if len(taken) > 1 else taken[0])
    was_on = gc.isenabled()
    gc.disable()
    yield taken
    if was_on:
        gc.enable()


async def visits(monkeypatch: pytest.MonkeyPatch, looks: int, found: int = 0) -> list[float]:
    """At which look."""
    seen: list[float] = []
    monkeypatch.setattr(gc, "collect", lambda: seen.append(trio.current_time() // LOOK_S) or found)
    begun = trio.current_time() // LOOK_S
    with trio.move_on_after(looks * LOOK_S + 1):
        await interpreter.collect_where_memory_grows()
    return [at - begun for at in seen]


async def test_while_memory_is_flat_nobody_waits(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, autojump_clock
) -> None:
    sizes[:] = [100 * MIB, 110 * MIB, 90 * MIB, 124 * MIB]
    assert await visits(monkeypatch, 100) == []


async def test_what_grows_is_visited_each_time_that_it_has_grown(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, autojump_clock
) -> None:
    """By a quarter of what it was after it was visited last; not once more for what stays."""
    sizes[:] = [100 * MIB, 140 * MIB, 140 * MIB, 140 * MIB, 150 * MIB, 180 * MIB]
    assert await visits(monkeypatch, 100) == [2, 5]


async def test_what_leaks_takes_no_more_in_the_end_than_at_the_first_visit(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, autojump_clock
) -> None:
    """What is freed is used again, so the process takes no less; if it took a quarter more each time, it had no end."""
    sizes[:] = [100 * MIB, 140 * MIB]
    assert await visits(monkeypatch, 6, found=LEAKED) == [2, 3, 4, 5, 6]


async def test_what_was_let_go_of_at_a_visit_is_no_measure(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch, autojump_clock
) -> None:
    sizes[:] = [100 * MIB, 300 * MIB, 100 * MIB, 140 * MIB]
    assert await visits(monkeypatch, 3) == [2, 3]


async def test_what_nobody_reaches_goes_then(sizes: list[int], autojump_clock) -> None:
    before = sum(isinstance(each, Knot) for each in gc.get_objects())
    for _ in range(3):
        Knot()
    sizes[:] = [100 * MIB, 140 * MIB]
    with trio.move_on_after(2 * LOOK_S + 1):
        await interpreter.collect_where_memory_grows()
    assert sum(isinstance(each, Knot) for each in gc.get_objects()) == before == 0


def test_a_small_process_grows_by_more_than_noise() -> None:
    assert not has_grown(40 * MIB, 60 * MIB)
    assert has_grown(40 * MIB, 40 * MIB + GROWN_BYTES)
    assert not has_grown(1_000 * MIB, 1_100 * MIB)


def test_what_is_taken_is_what_the_kernel_says() -> None:
    before = resident_bytes()
    held = bytearray(b"x") * (64 * MIB)
    assert resident_bytes() - before > 32 * MIB
    del held

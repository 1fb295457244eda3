"""Who waits for a head is woken by it; what is late or doubled changes nothing (rules J42, P4)."""

from itertools import pairwise

import trio
from trio.testing import wait_all_tasks_blocked

from coordinator.publishing.board import MOST_AT_ONCE, TICK_S, Board, News


def news(generation: int, epoch: int = 1) -> News:
    return News((epoch, generation), b"head")


async def test_everybody_who_waits_for_a_node_is_woken_and_nobody_else(autojump_clock) -> None:
    board, woken = Board(), []

    async def waiting(node_id: str) -> None:
        await board.wait(node_id)
        woken.append(node_id)

    async with trio.open_nursery() as nursery:
        for node_id in ("a", "a", "b"):
            nursery.start_soon(waiting, node_id)
        await wait_all_tasks_blocked()
        assert board.waiting == 3
        board.announce("a", news(1))
        await wait_all_tasks_blocked()
        assert woken == ["a", "a"] and board.waiting == 1
        nursery.cancel_scope.cancel()
    assert board.waiting == 0


async def test_an_older_or_equal_head_changes_nothing() -> None:
    """rules P4"""
    board = Board()
    board.announce("a", news(2))
    for late in (news(1), news(2), news(9, epoch=0)):
        board.announce("a", late)
        assert board.latest("a").pair == (1, 2)
    board.announce("a", news(1, epoch=2))
    assert board.latest("a").pair == (2, 1)


async def test_who_comes_between_waking_and_running_waits_for_the_next() -> None:
    board, woken = Board(), []

    async def waiting(name: str) -> None:
        await board.wait("a")
        woken.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting, "first")
        await wait_all_tasks_blocked()
        board.announce("a", news(1))
        nursery.start_soon(waiting, "second")
        await wait_all_tasks_blocked()
        assert woken == ["first"] and board.waiting == 1
        board.announce("a", news(2))
        await wait_all_tasks_blocked()
        assert woken == ["first", "second"]


async def test_who_gives_up_leaves_nothing_behind(autojump_clock) -> None:
    board = Board()
    with trio.move_on_after(5):
        await board.wait("a")
    assert board.waiting == 0
    board.announce("a", news(1))


async def test_what_is_forgotten_wakes_and_is_looked_up_again() -> None:
    board = Board()
    board.announce("a", news(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.wait, "a")
        await wait_all_tasks_blocked()
        board.forget("a")
    assert board.latest("a") is None


async def test_only_so_many_heads_are_remembered_and_those_asked_for_stay() -> None:
    board = Board(most=2)
    for name in ("a", "b"):
        board.announce(name, news(1))
    board.latest("a")
    board.announce("c", news(1))
    assert set(board.nodes()) == {"a", "c"}


async def test_a_wait_ends_a_little_beyond_its_time_and_the_others_of_the_node_look_again(autojump_clock) -> None:
    """rules K20: a poll is answered once its wait is over, though nothing has come. Whoever waits for longer is woken
    with it, looks, and waits on.
    """
    board, woken = Board(), []

    async def waiting(name: str, until: float) -> None:
        while trio.current_time() < until:
            await board.wait("a", until)
        woken.append((name, until <= trio.current_time() <= until + 2 * TICK_S))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        begun = trio.current_time()
        for name, seconds in (("long", 300.0), ("short", 10.0)):
            nursery.start_soon(waiting, name, begun + seconds)
        await trio.sleep(15)
        assert woken == [("short", True)] and board.waiting == 1
        await trio.sleep(300)
        assert woken == [("short", True), ("long", True)] and board.waiting == 0
        nursery.cancel_scope.cancel()


async def test_of_a_fleet_whose_waits_end_together_some_are_woken_at_a_time(autojump_clock) -> None:
    """Each is an answer to be made and sent, and who is woken at one time is served before anybody else is."""
    board, until, ended, seen = Board(), trio.current_time() + 10, list[str](), [0]
    names = [f"n{number}" for number in range(8 * MOST_AT_ONCE)]

    async def waiting(name: str) -> None:
        await board.wait(name, until)
        ended.append(name)

    async def look_on() -> None:
        await board.wait("first", until)
        while len(ended) < len(names):
            seen.append(len(ended))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as waits:
            waits.start_soon(look_on)
            await wait_all_tasks_blocked()
            for name in names:
                waits.start_soon(waiting, name)
            await wait_all_tasks_blocked()
            nursery.start_soon(board.run)
        nursery.cancel_scope.cancel()
    assert max(later - before for before, later in pairwise([*seen, len(ended)])) <= 2 * MOST_AT_ONCE


async def test_who_waits_without_an_end_is_woken_by_news_alone(autojump_clock) -> None:
    board = Board()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(board.run)
        with trio.move_on_after(3_600) as patience:
            await board.wait("a")
        assert patience.cancelled_caught
        nursery.cancel_scope.cancel()

"""What is looked at every few seconds, while others change it (rules K41, J46)."""

import threading

import pytest
import trio
import trio.testing

from coordinator import keeper, put_back
from tests.coordinator.daemon import running
from tests.coordinator.founding import Founded, set_put_back
from tests.coordinator.test_put_back import is_ready, raise_epoch


async def test_an_older_look_is_not_the_last_word(founded: Founded, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules K41: an epoch that was raised while the database was looked at is raised, whatever that look has found."""
    looked, read, go_on = keeper._looked, threading.Event(), threading.Event()

    def slow(*arguments: object) -> object:
        found = looked(*arguments)
        read.set()
        assert go_on.wait(60)
        return found

    async with running(founded) as at:
        database = at.daemon.coordinator.database
        set_put_back(database, 1)
        await at.daemon.keeper.look()
        assert not await is_ready(at)
        monkeypatch.setattr(keeper, "_looked", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at.daemon.keeper.look)
            await trio.to_thread.run_sync(read.wait)
            nursery.start_soon(raise_epoch, at)
            with trio.fail_after(30):
                while put_back.reason(database):
                    await trio.testing.wait_all_tasks_blocked(0.01)
            await trio.testing.wait_all_tasks_blocked(0.1)
            go_on.set()
        assert at.daemon.coordinator.standstill.reason == ""
        assert await is_ready(at)

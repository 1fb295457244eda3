"""The loop gets the interpreter soon: what is set while the agent runs, and put back afterwards."""

import gc
import sys
from collections.abc import Iterator

import pytest

from agent.base import gc_tuning


@pytest.fixture(autouse=True)
def frozen(monkeypatch) -> Iterator[int]:
    """How much is frozen before, which is all that was collected; afterwards as other tests want it
    (tests/conftest.py). A full look through that takes a second, so there is none while it is thawed.
    """
    monkeypatch.setattr(gc_tuning, "gc", gc)
    gc.freeze()
    yield gc.get_freeze_count()
    gc.collect(1)
    gc.freeze()


def test_it_is_restored_whatever_ends_it(frozen):
    kept = [[] for _ in range(1000)]
    before = sys.getswitchinterval()
    with pytest.raises(KeyError), gc_tuning.responsive():
        assert sys.getswitchinterval() == pytest.approx(gc_tuning.SWITCH_S)
        gc_tuning.keep_what_is_loaded()
        assert gc.get_freeze_count() >= frozen + len(kept)
        raise KeyError
    assert sys.getswitchinterval() == before
    assert gc.get_freeze_count() == 0


def test_memory_that_is_free_goes_back():
    held = [bytes(1000) for _ in range(100_000)]
    del held
    gc_tuning.give_back_memory()


async def test_the_agent_runs_in_it(one, mock_clock, frozen):
    """rules A10: once what speaks to coordinators is loaded, no collection looks at any of it again"""
    before = sys.getswitchinterval()
    async with one.agent():
        await one.until(lambda: one.state == "active")
        assert sys.getswitchinterval() == pytest.approx(gc_tuning.SWITCH_S)
        assert gc.get_freeze_count() > frozen + 1000
    assert sys.getswitchinterval() == before

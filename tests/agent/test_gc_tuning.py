"""The loop gets the interpreter soon: what is set while the agent runs, and put back afterwards."""

import gc
import sys

import pytest

from agent.base import gc_tuning


@pytest.fixture(autouse=True)
def thawed(monkeypatch):
    """As a program begins; afterwards as other tests want it (tests/conftest.py)."""
    monkeypatch.setattr(gc_tuning, "gc", gc)
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_it_is_restored_whatever_ends_it():
    before = sys.getswitchinterval()
    with pytest.raises(KeyError), gc_tuning.responsive():
        assert sys.getswitchinterval() == pytest.approx(gc_tuning.SWITCH_S)
        gc_tuning.keep_what_is_loaded()
        assert gc.get_freeze_count() > 1000
        raise KeyError
    assert sys.getswitchinterval() == before
    assert gc.get_freeze_count() == 0


def test_memory_that_is_free_goes_back():
    held = [bytes(1000) for _ in range(100_000)]
    del held
    gc_tuning.give_back_memory()


async def test_the_agent_runs_in_it(one, mock_clock):
    """rules A10: once what speaks to coordinators is loaded, no collection looks at any of it again"""
    before = sys.getswitchinterval()
    async with one.agent():
        await one.until(lambda: one.state == "active")
        assert sys.getswitchinterval() == pytest.approx(gc_tuning.SWITCH_S)
        assert gc.get_freeze_count() > 1000
    assert sys.getswitchinterval() == before

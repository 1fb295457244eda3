"""What tests of several packages share."""

import pytest


@pytest.fixture
async def one(tmp_path, mock_clock):
    """A coordinator that runs, and one node's disk (tests/journeys/lab.py). Time is the mock clock's, so a test that
    takes this names `mock_clock` too: pytest-trio then runs the loop under it.
    """
    from tests.journeys.lab import lab

    async with lab(tmp_path, mock_clock) as made:
        yield made

"""The agent as a whole: a node in process, its store on disk, its coordinator over real TLS, time moved by the test."""

import pytest
from trio.testing import MockClock

from tests.journeys.lab import lab


@pytest.fixture
def mock_clock():
    return MockClock()


async def test_a_node_joins_and_serves_what_its_head_lists(tmp_path, mock_clock):
    """rules S71, S67, A3, A5, J15"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.until_active("route_policy", 1)
            await one.until(lambda: one.state == "active")
            found = await one.get("v1", "scopes", "route_policy", "sections", "routes")
            assert found == {"north": {"via": "a"}}
            report = await one.server.wait_heartbeat(lambda report: "route_policy" in report.scopes)
            assert report.scopes["route_policy"].active.config_version == 1

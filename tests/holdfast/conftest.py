import pytest

from tests.agent.conftest import cluster, forked_readers, node, periphery
from tests.agent.lab import serving

__all__ = ["cluster", "forked_readers", "node", "periphery"]


@pytest.fixture
async def api(periphery):
    """An agent's local side with one scope, whose clock stands still."""
    periphery.route(1, {"routes": {"north": {"ttl_s": 60}}, "settings": {"a": 1}})
    async with serving(periphery):
        yield periphery

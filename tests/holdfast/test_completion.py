"""What bash offers of the running agent: names of scopes and services, as the installed completion asks for them."""

from dataclasses import replace

import pytest
import trio

from agent.services.notifiers import NotifierWatch
from agent.services.services import LocalService
from tests.agent.lab import serving
from tests.holdfast.lab import arguments, environment

WEB = (LocalService("web", ("route_policy",), NotifierWatch()),)


async def completed(*words, at=None):
    """The words that fit in the last one's place; nothing may be said beside."""
    asked = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    env = (environment(at.socket, at.files) if at else environment()) | asked
    done = await trio.run_process(arguments(), env=env, check=False, capture_stdout=True, capture_stderr=True)
    assert done.stderr == b""
    return [line.split(",", 1)[1] for line in done.stdout.decode().splitlines() if line]


@pytest.mark.parametrize(
    "words",
    [("get",), ("explain",), ("watch",), ("diff", "active", "previous"), ("may", "open_route", "--scope")],
    ids=" ".join,
)
async def test_scopes_that_the_agent_serves_are_offered(periphery, words):
    periphery.route(1, {"routes": {}})
    async with serving(periphery):
        assert await completed("holdfast", *words, "route", at=periphery) == ["route_policy"]
        assert await completed("holdfast", *words, "qos", at=periphery) == []


async def test_a_scope_is_not_offered_twice(periphery):
    periphery.route(1, {"routes": {}})
    async with serving(periphery):
        assert await completed("holdfast", "watch", "route_policy", "route", at=periphery) == []


async def test_services_of_agent_toml_are_offered(periphery):
    made = replace(periphery, services=WEB)
    async with serving(made):
        assert await completed("holdfast", "status", "--wait", "5", "--service", "", at=made) == ["web"]


async def test_where_nobody_answers_nothing_is_offered_and_nothing_said():
    assert await completed("holdfast", "get", "") == []
    assert await completed("holdfast", "status", "--service", "") == []

"""`holdfast status --wait`: for units that must not start before their configuration is active (rules A11)."""

from dataclasses import replace

import pytest
import trio

from agent.services.notifiers import NotifierWatch
from agent.services.services import LocalService
from snapshot.degraded import GateFacts
from tests.agent.lab import NOW, serving
from tests.holdfast.lab import holdfast

WEB = (LocalService("web", ("route_policy",), NotifierWatch()),)


async def test_a_node_that_may_go_on_is_not_waited_for(api):
    done = await holdfast("status", "--wait", "0", at=api)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("ACTIVE")


async def test_it_says_why_when_the_time_is_over(api):
    api.given = GateFacts(head_expires_at=NOW)
    done = await holdfast("status", "--wait", "0.1", at=api)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("holdfast: not ready after 0.1 s: no_degraded_policy: The head has expired")


async def test_a_service_waits_for_its_scopes(periphery):
    """rules A11: until they are active; what arrives meanwhile ends the waiting"""
    made = replace(periphery, services=WEB)
    async with serving(made), trio.open_nursery() as nursery:
        early = await holdfast("status", "--wait", "0.1", "--service", "web", at=made)
        assert (early.status, "scope_missing" in early.err) == (1, True)
        outcome = []

        async def waiting():
            outcome.append(await holdfast("status", "--wait", "60", "--service", "web", at=made))

        nursery.start_soon(waiting)
        made.route(1, {"routes": {}})
    assert outcome[0].status == 0


@pytest.mark.parametrize(("words", "status"), [(("--wait", "5", "--service", "mail"), 4), (("--service", "web"), 2)])
async def test_a_service_that_nobody_declared_is_not_waited_for(periphery, words, status):
    made = replace(periphery, services=WEB)
    made.route(1, {"routes": {}})
    async with serving(made):
        done = await holdfast("status", *words, at=made)
    assert done.status == status
    assert "web" in done.err or "--wait" in done.err


async def test_an_agent_that_is_not_there_may_still_come():
    done = await holdfast("status", "--wait", "0.1")
    assert done.status == 1
    assert "not ready after 0.1 s: the agent is not there" in done.err

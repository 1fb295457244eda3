"""What is foreseen of an outage, and what an agent really answers in it, again and again and over a restart."""

from dataclasses import replace

import pytest
import trio

from snapshot.identifiers import format_time
from snapshot.outage import Outage, foresee, uses_of
from tests.fakes.cluster import DAY, HOUR
from tests.journeys.lab import POLICY, SELDOM, lab

SERVICES, ROUTES = "service_assignment", "route_policy"
NAMED = {SERVICES: {"services": frozenset({"web"})}, ROUTES: {"routes": frozenset({"north"})}}
LASTS_S = 3 * HOUR // 2
SHORT = POLICY | {"max_duration_s": 3000, "route_ttl_s": HOUR // 2}
FORGIVING = SHORT | {"allow_unconfirmed_start": True}
ROUTES_ALONE = POLICY | {"allow": ["preserve_routes"], "max_duration_s": DAY, "allow_unconfirmed_start": True}


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock, text=SELDOM, for_hours=True) as made:
        yield made


# `SHORT` differs from `FORGIVING` at a start alone.
@pytest.mark.parametrize(
    ("policy", "restart_s"),
    [
        *((FORGIVING, when) for when in (None, HOUR - 540)),
        (SHORT, 600),
        (ROUTES_ALONE, HOUR - 540),
        (None, 600),
    ],
)
async def test_the_node_does_what_was_foreseen(one, mock_clock, policy, restart_s):
    """rules S55, S57, S58, A15: drill and node agree, since one gate is asked by both"""
    one.server.snapshot({"node": {"site": "default"}}, "node_bootstrap", roles=["core_mesh", "egress_service"])
    one.server.snapshot({} if policy is None else {"policy": policy}, "degraded_mode_policy")
    one.server.snapshot({"services": {"web": {"workload": "web"}}}, SERVICES)
    one.server.announce()
    async with one.agent():
        await one.until_active(SERVICES, 1)
        await one.until(lambda: one.state == "active")
        assert (await one.may("continue_services", resource="web"))["allowed"]
        await trio.sleep(60)  # what was seen is on the disk
        one.server.down = True
        began = int(one.clock.true)
        outage = Outage(began, LASTS_S, restart_s)
        facts = replace(one.node.gate_facts(), running=frozenset({"web"}))
        uses = list(uses_of(NAMED, facts, began))
        foreseen = foresee(facts, uses, outage)
        await follow(one, foreseen, uses, began, restart_s or LASTS_S)
    if restart_s is not None:
        async with one.agent():
            await follow(one, foreseen, uses, began, LASTS_S)


async def follow(one, foreseen, uses, began, until_s):
    """Just before each eighth of an hour, what the agent answers is what was foreseen."""
    while (after_s := int(one.clock.true) - began) < until_s:
        for use in uses:
            if use.what.startswith("new "):
                continue
            question = use.question
            since = {} if question.running_since is None else {"running_since": format_time(question.running_since)}
            answer = await one.may(question.action, scope=question.scope, resource=question.resource, **since)
            stopped = [stop for stop in foreseen.stops if stop.what == use.what and stop.after_s <= after_s]
            assert answer["allowed"] == (not stopped), (use.what, after_s, answer, foreseen.stops)
        state = [each for each in foreseen.states if each.after_s <= after_s][-1]
        assert answer["mode"] == state.mode, (after_s, answer)
        await trio.sleep(min(449, max(1, until_s - after_s)))

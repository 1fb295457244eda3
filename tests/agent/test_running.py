"""Which services ran when the head expired is the node's own knowledge: whoever says otherwise changes nothing."""

import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agent.base.threads import READERS
from agent.services.running import LOOK_EVERY_S
from agent.services.unit_states import UnitState
from agent.state.sights import KEPT_S, MOST, PREFIX, SeenRunning
from snapshot.degraded import Question, may
from snapshot.identifiers import format_time
from store.base.tables import Name
from tests.agent.bench import bench
from tests.fakes.cluster import DAY, HOUR
from tests.journeys.lab import POLICY

WEB, DB = "service_assignment/web", "service_assignment/db"
ROLES = ["core_mesh", "egress_service"]
GOES_ON = POLICY | {"max_duration_s": DAY, "allow_unconfirmed_start": True}


@pytest.fixture
def assigned(for_hours):
    """The node runs services, and may go on without a coordinator."""
    one = for_hours
    one.server.snapshot({"node": {"site": "default"}}, "node_bootstrap", roles=ROLES)
    one.server.snapshot({"policy": GOES_ON}, "degraded_mode_policy")
    one.server.snapshot({"services": {"web": {}}}, WEB)
    one.server.snapshot({"services": {"db": {}}}, DB)
    one.server.announce()
    return one


async def until_kept(one, *names):
    """After the next look the disk knows of these, and of no others."""
    await trio.sleep(2 * LOOK_EVERY_S)
    table = one.node.store.table(Name.WATERMARKS)
    assert {key.removeprefix(PREFIX) for key in table.items()} == set(names)


async def dark(one):
    """The coordinator is gone, and the head has run out."""
    one.server.down = True
    await one.until(lambda: one.state == "degraded", within_s=2 * HOUR)


async def answer(one, action="continue_services", resource="web", **more):
    found = await one.may(action, resource=resource, **more)
    return found["reason"]


async def test_a_service_that_asked_goes_on_and_one_that_never_did_does_not(assigned, mock_clock):
    """rules S55a: nothing begins in an outage, whatever is said of it, and a later head lets it again"""
    one = assigned
    async with one.agent():
        await one.until_active(WEB, 1)
        await one.until(lambda: one.state == "active")
        assert await answer(one) == "ok"
        began = one.clock.true
        await dark(one)
        assert await answer(one) == "ok"
        for claim in ({}, {"running_since": format_time(int(began) - DAY)}):
            assert await answer(one, resource="db", **claim) == "not_seen_running"
        await until_kept(one, "web")
        one.server.down = False
        one.server.announce()
        await one.until(lambda: one.state == "active", within_s=HOUR)
        assert await answer(one, resource="db") == "ok"


async def test_what_a_caller_claims_only_narrows(assigned, mock_clock):
    """threats A17: a lying caller gains nothing; one that tells of a later start gets a no"""
    one = assigned
    async with one.agent():
        await one.until_active(WEB, 1)
        assert await answer(one) == "ok"
        long_ago = format_time(int(one.clock.true) - DAY)
        await dark(one)
        await trio.sleep(60)
        for action in ("continue_services", "start_service", "open_session"):
            assert await answer(one, action, "db", running_since=long_ago) == "not_seen_running"
            assert await answer(one, action, "web", running_since=long_ago) == "ok"
            late = format_time(int(one.clock.true) - 1)
            assert await answer(one, action, "web", running_since=late) == "not_in_policy"
        assert await answer(one, "start_service") == "not_in_policy"
        assert await answer(one, "open_session") == "not_in_policy"
        await until_kept(one, "web")


@pytest.mark.parametrize("reboots", [False, True])
async def test_neither_a_restart_nor_a_reboot_in_an_outage_forgets(assigned, mock_clock, reboots):
    """rules S55a: those that ran under the same assignment; what never ran gains nothing by a reboot either"""
    one = assigned
    async with one.agent():
        await one.until_active(WEB, 1)
        assert await answer(one) == "ok"
        await until_kept(one, "web")
        await dark(one)
    if reboots:
        one.clock.reboot()
    await trio.sleep(HOUR)
    async with one.agent():
        assert one.state == "degraded"
        assert await answer(one) == "ok"
        assert await answer(one, resource="db") == "not_seen_running"
        await until_kept(one, "web")


async def test_asking_in_an_outage_shows_nothing(assigned, mock_clock):
    """Who asks often enough is answered no each time, after a restart too."""
    one = assigned
    async with one.agent():
        await one.until_active(WEB, 1)
        await dark(one)
        for _ in range(5):
            assert await answer(one) == "not_seen_running"
    async with one.agent():
        assert await answer(one) == "not_seen_running"
        await until_kept(one)
        assert await answer(one) == "not_seen_running"


@pytest.mark.parametrize("jump_s", [-DAY, 3 * DAY])
async def test_a_clock_that_jumps_shows_nothing_and_hides_nothing(assigned, mock_clock, jump_s):
    """rules J38: a wall clock that runs ahead ends the head, and what ran before goes on; put back, it is as it was"""
    one = assigned
    async with one.agent():
        await one.until_active(WEB, 1)
        assert await answer(one) == "ok"
        await dark(one)
        one.clock.wall_offset_s = jump_s
        assert await answer(one, resource="db") in ("not_seen_running", "degraded_limit", "clock_regressed")
        one.clock.wall_offset_s = 0.0
        assert await answer(one) == "ok"
        assert await answer(one, resource="db") == "not_seen_running"


async def test_a_service_that_is_assigned_no_more_is_forgotten(assigned, mock_clock):
    """Given back in another assignment it has to be seen anew."""
    one = assigned
    async with one.agent():
        await one.until_active(WEB, 1)
        assert await answer(one) == "ok"
        await until_kept(one, "web")
        one.cluster.published.pop(WEB)
        one.server.announce()
        await one.until_active(WEB, None)
        await until_kept(one)
        one.server.snapshot({"services": {"web": {}}}, WEB)
        one.server.announce()
        await one.until_active(WEB, 2)
        await dark(one)
        assert await answer(one) == "not_seen_running"


# ---- units, by a systemd that a test plays


@asynccontextmanager
async def watched(one, states):
    """A node whose service `web` is a unit; `states` says what systemd says of it."""
    asked = []

    async def read_state(unit):
        asked.append(unit)
        await trio.lowlevel.checkpoint()
        return states[unit]

    async with bench(one) as made:
        await made.settle()
        running = made.inside.front.running
        running.units, running.read_state = {"web": "web.service"}, read_state
        yield made, running, asked


async def reason(made, running, resource="web"):
    question = Question("continue_services", None, resource)
    facts = made.node.gate_facts()
    facts = replace(facts, running=await running.known_running(question, facts))
    found = may(question, facts, made.node.now())
    running.note_answer(question, found, made.node.now())
    return str(found.reason)


async def test_of_a_unit_systemd_is_believed_and_nobody_else(assigned, mock_clock):
    """It asked under a fresh head and its unit was not active: it never ran."""
    states = {"web.service": UnitState(False)}
    async with watched(assigned, states) as (made, running, asked):
        assert await reason(made, running) == "ok", "the head is fresh: it might be started"
        await running.look()
        await trio.sleep(HOUR)
        assert await reason(made, running) == "not_seen_running"
        states["web.service"] = UnitState(True, 60.0)
        await trio.sleep(HOUR)
        assert await reason(made, running) == "not_seen_running", "it was started in the outage"
        states["web.service"] = UnitState(True, DAY)
        await trio.sleep(HOUR)
        assert await reason(made, running) == "ok", "it is older than the outage"
        assert set(asked) == {"web.service"}


async def test_a_unit_that_was_seen_goes_on_while_it_is_active(assigned, mock_clock):
    """rules S55a: started again after a crash or a reboot, too; while it is down it does not run"""
    states = {"web.service": UnitState(True, 5.0)}
    async with watched(assigned, states) as (made, running, _):
        await running.look()
        await trio.sleep(HOUR)
        await running.look()
        for state, expected in ((UnitState(True, 1.0), "ok"), (UnitState(False), "not_seen_running")):
            states["web.service"] = state
            await trio.sleep(60)
            assert await reason(made, running) == expected
    assigned.clock.reboot()
    async with watched(assigned, states) as (made, running, _):
        assert await reason(made, running) == "not_seen_running", "after a reboot it has to be active again"
        states["web.service"] = UnitState(True, 1.0)
        await trio.sleep(60)
        assert await reason(made, running) == "ok"


async def test_a_unit_that_is_stopped_under_a_fresh_head_is_forgotten(assigned, mock_clock):
    states = {"web.service": UnitState(True, 5.0)}
    async with watched(assigned, states) as (made, running, _):
        await running.look()
        states["web.service"] = UnitState(False)
        await trio.sleep(60)
        await running.look()
        assert made.node.store.table(Name.WATERMARKS).items() == {}
        await trio.sleep(HOUR)
        states["web.service"] = UnitState(True, 1.0)
        assert await reason(made, running) == "not_seen_running"


async def test_what_systemd_does_not_say_is_no_and_is_not_asked_again_at_once(assigned, mock_clock):
    states = {"web.service": UnitState(True, 5.0)}
    async with watched(assigned, states) as (made, running, asked):
        await running.look()
        await trio.sleep(HOUR)
        states["web.service"] = UnitState(False, fault="did not end in time")
        asked.clear()
        for _ in range(20):
            assert await reason(made, running) == "not_seen_running"
        assert (asked, made.node.counters.of("units_not_known")) == (["web.service"], 1)
        await running.look()
        states["web.service"] = UnitState(True, 5.0)
        await trio.sleep(60)
        assert await reason(made, running) == "ok", "that it was not known has made nothing forgotten"


# ---- bounds


async def test_a_command_that_tells_it_well_shows_it(assigned, mock_clock):
    async with watched(assigned, {"web.service": UnitState(False)}) as (made, running, _):
        running.note_command("db")
        running.note_command("web")  # a unit's: systemd says
        running.note_command("elsewhere")  # not assigned
        await running.look()
        assert running.sights.keys() == {"db"}
        await trio.sleep(HOUR)
        assert await reason(made, running, "db") == "ok"
        running.note_command("web")
        await running.look()
        assert running.sights.keys() == {"db"}, "in an outage nothing is shown"


async def test_a_command_that_ends_while_it_is_looked_is_shown_by_the_next_look(assigned, mock_clock):
    """It is told once for each change: forgotten now, the service would not be known to run in an outage."""
    held = threading.Event()
    assigned.for_hours = False  # it has threads
    async with watched(assigned, {"web.service": UnitState(False)}) as (made, running, _):
        async with trio.open_nursery() as nursery:
            for _ in range(READERS):
                nursery.start_soon(made.node.threads.read, held.wait)
            nursery.start_soon(running.look)
            await wait_all_tasks_blocked()
            running.note_command("db")
            held.set()
        await running.look()
        assert running.sights.keys() == {"db"}


async def test_what_was_not_seen_for_a_day_before_the_outage_counts_no_more(assigned, mock_clock):
    async with watched(assigned, {"web.service": UnitState(False)}) as (made, running, _):
        now = made.node.now()
        running.sights["db"] = SeenRunning(now - 3 * DAY, now - KEPT_S - HOUR)
        await trio.sleep(HOUR)
        assert await reason(made, running, "db") == "not_seen_running"
        running.sights["db"] = SeenRunning(now - 3 * DAY, now - KEPT_S + HOUR)
        assert await reason(made, running, "db") == "ok"


async def test_so_many_and_no_more(assigned, mock_clock):
    """threats D-51"""
    async with watched(assigned, {"web.service": UnitState(False)}) as (made, running, _):
        now = made.node.now()
        yes = may(Question("continue_services", None, "db"), made.node.gate_facts(), now)
        for name in (*(f"s{number}" for number in range(MOST + 5)), "no id", "x" * 200):
            running.note_answer(Question("continue_services", None, name), yes, now)
        assert len(running.sights) == MOST
        assert made.node.counters.of("services_not_noted") == 5
        await running.look()
        assert running.sights == {}, "none of them is assigned to this node"


async def test_a_minute_later_nothing_is_written_again(assigned, mock_clock):
    async with watched(assigned, {"web.service": UnitState(True, 5.0)}) as (made, running, _):
        await running.look()
        before = made.node.store.commit_number
        for _ in range(5):
            await trio.sleep(60)
            await running.look()
        assert made.node.store.commit_number == before

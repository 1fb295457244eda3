"""What the gate decided without a coordinator is in the journal afterwards, once an outage, and not without end."""

import pytest
import trio

from agent.local.decisions import MOST
from snapshot.degraded import GateAnswer, Mode, Question
from tests.agent.bench import bench

SESSION = Question("open_session", "service_assignment", "web")
NO = GateAnswer(False, "not_in_policy", Mode.DEGRADED)
FORBIDDEN = Question("rotate_trust_root")
NEVER = GateAnswer(False, "forbidden_in_degraded", Mode.DEGRADED)


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.inside.front.decisions.run)
            yield found
            nursery.cancel_scope.cancel()


async def decided(made):
    """Once all that was said is written: a write that comes last waits for those before it."""
    said = made.inside.front.decisions._heard
    await trio.testing.wait_all_tasks_blocked()
    while said.statistics().current_buffer_used:
        await made.node.threads.write(lambda: None)
    await made.node.threads.write(lambda: None)
    return [one for one in made.node.store.journal.events(most=2 * MOST) if one.event == "decided"]


async def test_a_decision_is_written_down_once_an_outage(made):
    """rules S55f, threats A17: who asked for what, and what was answered"""
    note = made.inside.front.note_decision
    now = made.node.now()
    for _ in range(3):
        note(SESSION, NO, 33, now)
        note(FORBIDDEN, NEVER, 0, now)
    first, second = await decided(made)
    assert (first.scope, first.detail) == (
        "service_assignment", "no, not_in_policy: open_session web, asked by uid 33, degraded",
    )  # fmt: skip
    assert second.detail == "no, forbidden_in_degraded: rotate_trust_root, asked by uid 0, degraded"
    note(SESSION, GateAnswer(True, "ok", Mode.DEGRADED, int(now) + 60), 33, now)
    assert len(await decided(made)) == 3, "another answer is another decision"


async def test_under_a_fresh_head_nothing_is_noted(made):
    made.inside.front.note_decision(SESSION, GateAnswer(True, "ok", Mode.NORMAL), 33, made.node.now())
    made.inside.front.note_decision(
        Question("dance"), GateAnswer(False, "unknown_action", Mode.DEGRADED), 33, made.node.now()
    )
    assert await decided(made) == []


async def test_a_user_who_asks_without_end_fills_no_disk(made):
    """threats D-51: so many decisions an outage, and the rest are counted; the next outage has room again."""
    for number in range(MOST + 50):
        made.inside.front.note_decision(Question("open_route", None, f"r{number}"), NO, 33, made.node.now())
        if number % 100 == 0:
            await decided(made)
    assert len(await decided(made)) == MOST
    assert made.node.counters.all()["decisions_not_noted"] == 50
    made.inside.front.decisions._outage = 0  # as when another head has run out
    made.inside.front.note_decision(SESSION, NO, 33, made.node.now())
    assert len(await decided(made)) == MOST + 1

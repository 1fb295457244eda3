"""`holdfast may`."""

import json

from holdfast.node.explanations import answer_text
from snapshot.degraded import GateFacts
from tests.agent.lab import NOW
from tests.holdfast.lab import holdfast


async def test_yes_and_no(api):
    yes = await holdfast("may", "start_service", at=api)
    assert yes.status == 0
    assert yes.out.startswith("yes  start_service: ok (mode normal)")
    no = await holdfast("may", "assign_role", at=api)
    assert no.status == 1
    assert no.out.splitlines()[0] == "no  assign_role: forbidden_in_degraded (mode normal)"
    assert str(answer_text("forbidden_in_degraded")) in no.out


async def test_as_json(api):
    api.given = GateFacts(head_expires_at=NOW)
    done = await holdfast("may", "continue_services", "--json", "--running-since", "2030-01-01T00:00:00Z", at=api)
    assert done.status == 1
    assert json.loads(done.out) == {"allowed": False, "reason": "no_degraded_policy", "mode": "fenced", "until": None}


async def test_nobody_to_ask_is_no(api):
    assert (await holdfast("may", "start_service")).status == 3
    assert (await holdfast("may", "start_service", "--running-since", "yesterday", at=api)).status == 2
    assert (await holdfast("may", at=api)).status == 2


async def test_a_states_cause_has_its_remedy(api):
    api.given = GateFacts(cause="not_enrolled")
    assert str(answer_text("not_enrolled")) in (await holdfast("may", "start_service", at=api)).out

"""Services that could not live with a configuration keep it out, before it becomes active."""

import os
import threading

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent.update.retry_schedule import AGAIN_S
from agent.update.waiting_head import HOLD_S
from tests.journeys.lab import POLICY, lab

ROUTES, POLICY_SCOPE = "route_policy", "degraded_mode_policy"
QUIET_S = 0.1


@pytest.fixture
def mock_clock():
    """It runs: a validator is a process of its own, and takes its time."""
    return MockClock(rate=1.0)


VALIDATED = """
[[service]]
name = "web"
scopes = ["route_policy"]
validate = ["/bin/sh", "-c", "! grep -q forbidden route_policy/routes.json"]
"""


async def test_a_validator_keeps_its_scopes_out_and_no_others(tmp_path, mock_clock):
    """rules S67, S16: the configuration that a service could not live with"""
    async with lab(tmp_path, mock_clock, text=VALIDATED) as one:
        async with one.agent():
            await one.settled()
            one.server.snapshot({"routes": {"forbidden": {}}}, ROUTES)
            one.server.snapshot({"policy": POLICY | {"route_ttl_s": 60}}, POLICY_SCOPE)
            one.server.announce()
            await one.until_active(POLICY_SCOPE, 2)
            assert one.version(ROUTES) == 1
            assert one.rejected(ROUTES) == "validator_refused"
            one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            one.server.announce()
            await one.until_active(ROUTES, 3)


async def test_who_has_accepted_is_not_asked_again_when_another_refuses(tmp_path, mock_clock):
    """Else the slow validator of one service would be waited for once more for each that another keeps out."""
    asked = tmp_path / "asked"
    text = VALIDATED.replace("! grep", f"echo x >> {asked}; ! grep")
    other = text.replace('"web"', '"other"').replace('["route_policy"]', f'["{POLICY_SCOPE}"]')
    other = other.replace(
        f"echo x >> {asked}; ! grep -q forbidden route_policy/routes.json", f"! test -e {tmp_path}/no"
    )
    async with lab(tmp_path, mock_clock, text=text + other) as one:
        async with one.agent():
            await one.settled()
            before = asked.read_text()
            (tmp_path / "no").touch()
            one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            one.server.snapshot({"policy": POLICY | {"route_ttl_s": 60}}, POLICY_SCOPE)
            one.server.announce()
            await one.until_active(ROUTES, 2)
            assert one.rejected(POLICY_SCOPE) == "validator_refused"
            assert asked.read_text() == before + "x\n"


async def test_what_a_validator_keeps_out_is_not_offered_again_until_the_head_lists_another(tmp_path, mock_clock):
    asked = tmp_path / "asked"
    said = f"echo x >> {asked}; test -e {tmp_path}/yes"
    text = VALIDATED.replace("! grep -q forbidden route_policy/routes.json", said)
    (tmp_path / "yes").touch()
    async with lab(tmp_path, mock_clock, text=text) as one:
        async with one.agent():
            await one.settled()
            (tmp_path / "yes").unlink()
            one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            one.server.announce()
            await one.until(lambda: one.rejected(ROUTES) == "validator_refused")
            times = asked.read_text()
            (tmp_path / "yes").touch()
            mock_clock.jump(3 * AGAIN_S)
            one.server.snapshot({"policy": POLICY | {"route_ttl_s": 60}}, POLICY_SCOPE)
            one.server.announce()
            await one.until_active(POLICY_SCOPE, 2)
            assert (one.version(ROUTES), asked.read_text()) == (1, times)
            status = await one.get("v1", "status")
            assert status["awaited"][ROUTES]["again_in_s"] is None
            one.server.snapshot({"routes": {"west": {}}}, ROUTES)
            one.server.announce()
            await one.until_active(ROUTES, 3)


async def test_an_increment_that_a_validator_refuses_is_offered_once(tmp_path, mock_clock):
    """rules S27, S67: it has an id of its own, and the whole of the same version is not offered either"""
    asked = tmp_path / "asked"
    text = VALIDATED.replace("! grep", f"echo x >> {asked}; ! grep")
    async with lab(tmp_path, mock_clock, text=text) as one:
        async with one.agent():
            await one.settled()
            first = one.cluster.states[ROUTES]
            one.server.publish_increment(ROUTES, sets={"routes": {"forbidden": {}}})
            one.server.announce()
            await one.until(lambda: one.rejected(ROUTES) == "validator_refused")
            runs = asked.read_text()
            for _ in range(5):
                one.server.announce()
                seen = one.node.holdings.held_head
                await one.until(lambda seen=seen: one.node.holdings.held_head > seen)
            mock_clock.jump(12 * AGAIN_S)
            one.server.announce()
            seen = one.node.holdings.held_head
            await one.until(lambda: one.node.holdings.held_head > seen)
            assert (one.version(ROUTES), asked.read_text()) == (1, runs)
            one.server.publish_increment(ROUTES, sets={"routes": {"west": {}}}, base=first)
            one.server.announce()
            await one.until_active(ROUTES, 3)


async def test_a_renewal_of_what_is_active_does_not_rest_on_a_validator(tmp_path, mock_clock):
    """rules S67: a command that is out of order lets nothing run into its expiry"""
    broken = VALIDATED.replace("! grep -q forbidden route_policy/routes.json", f"test -e {tmp_path}/yes")
    (tmp_path / "yes").touch()
    async with lab(tmp_path, mock_clock, text=broken) as one:
        async with one.agent():
            await one.settled()
            (tmp_path / "yes").unlink()
            one.server.snapshot({"routes": {"north": {"via": "a"}}}, ROUTES)
            one.server.announce()
            await one.until_active(ROUTES, 2)


async def test_what_a_validator_lets_in_as_the_head_ends_its_waiting_is_fetched_once(tmp_path, mock_clock):
    """rules S67: the head becomes active alone at that moment, and is what the document is wanted by"""
    turn, asked = tmp_path / "turn", tmp_path / "asked"
    os.mkfifo(turn)
    said = f"test ! -e {tmp_path}/slow || (touch {asked}; cat {turn})"
    text = VALIDATED.replace("! grep -q forbidden route_policy/routes.json", said)
    async with lab(tmp_path, mock_clock, text=text) as one:
        async with one.agent(), trio.open_nursery() as nursery:
            await one.settled()
            await wait_all_tasks_blocked(QUIET_S)
            (tmp_path / "slow").touch()
            its_turn, written = os.open(turn, os.O_RDWR | os.O_NONBLOCK), threading.Event()
            one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            head = one.server.announce()
            await until_there(asked)
            is_slow = trio.Event()

            def write_slowly() -> None:
                trio.from_thread.run_sync(is_slow.set)
                written.wait()

            nursery.start_soon(one.node.threads.write, write_slowly)
            try:
                await is_slow.wait()
                mock_clock.jump(HOLD_S)
                await wait_all_tasks_blocked(QUIET_S)
                assert one.node.holdings.held_head != head.envelope.version
                (tmp_path / "slow").unlink()
                os.close(its_turn)
                await wait_all_tasks_blocked(QUIET_S)
            finally:
                written.set()
            await one.until_active(ROUTES, 2)
            assert one.node.holdings.held_head == head.envelope.version
            assert one.server.requests.count(f"GET /v1/documents/{ROUTES}-2") == 1


async def until_there(file):
    with trio.fail_after(30):
        while not file.exists():  # noqa: ASYNC110 - a process has no other word for it
            await trio.sleep(0.01)

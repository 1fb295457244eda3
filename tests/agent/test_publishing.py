"""Files follow what is active and how good it is, whatever goes wrong meanwhile."""

import json
import os
import signal

import trio

from tests.agent.lab import DAY, NOW, ask, serving
from tests.fakes.cluster import HOUR
from tests.journeys.lab import ROUTES
from tests.world import elapsed
from wire.backoff import LEAST_S, BackOff


def index(periphery) -> dict[str, object]:
    return json.loads((periphery.files / "index.json").read_bytes())


async def shown(periphery, look) -> None:
    """After the rounds that it takes."""
    with trio.fail_after(60):
        while not look():
            done = periphery.publishing.rounds.value
            periphery.active.wake()
            await periphery.publishing.rounds.wait_above(done)


async def test_an_activation_is_shown_and_the_head_is_none_of_the_scopes(periphery):
    async with serving(periphery):
        periphery.route(1, {"routes": {}})
        await periphery.published.wait_above(periphery.node.store.watch.generation - 1)
        found = index(periphery)
    assert found["generation"] == periphery.node.store.watch.generation
    assert found["scopes"].keys() == {"trust_bundle", "node_bootstrap", "route_policy"}
    assert (periphery.files / "trust_bundle/keys.json").exists()


async def test_grades_change_without_a_new_generation(periphery):
    """rules S16: one scope's expiry changes no other."""
    periphery.route(1, {"routes": {}}, expires_at=NOW + 100, refresh_after=NOW + 50)
    async with serving(periphery):
        before = index(periphery)
        assert before["scopes"]["route_policy"]["grade"] == "fresh"
        periphery.at = NOW + 100
        await shown(periphery, lambda: index(periphery)["scopes"]["route_policy"]["grade"] == "expired")
        after = index(periphery)
        assert after["generation"] == before["generation"]
        assert after["scopes"]["node_bootstrap"]["grade"] == "fresh"
        assert (periphery.files / "route_policy/routes.json").read_bytes() == b"{}"
        periphery.at = NOW + 7 * DAY - 60
        await shown(periphery, lambda: index(periphery)["scopes"]["trust_bundle"]["grade"] == "stale")


async def test_when_the_node_is_revoked_all_goes(periphery):
    """rules A9."""
    periphery.route(1, {"routes": {}})
    async with serving(periphery):
        assert (periphery.files / "route_policy/routes.json").exists()
        periphery.revoked = True
        await shown(periphery, lambda: not (periphery.files / "route_policy").exists())
        assert index(periphery)["scopes"] == {}


async def failed(periphery, times) -> None:
    with trio.fail_after(60):
        while periphery.publishing.failures < times:
            await periphery.publishing.rounds.wait_above(periphery.publishing.rounds.value)


async def test_a_disk_that_refuses_is_said_and_tried_again(periphery):
    """rules A14, P1: the task never ends for it."""
    periphery.publishing.back_off = BackOff(lambda low, high: low)
    async with serving(periphery):
        link = periphery.files
        link.unlink()
        link.mkdir()
        periphery.route(1, {"routes": {}})
        await failed(periphery, 2)
        assert periphery.publishing.fault == "not_ours"
        assert "move it away" in periphery.publishing.error
        status = json.loads((await ask(periphery, "/v1/status")).body)
        assert (status["files"]["fault"], status["files"]["error"]) == ("not_ours", periphery.publishing.error)
        link.rename(periphery.folder / "moved away")
        await periphery.published.wait_above(periphery.node.store.watch.generation - 1)
        assert (periphery.publishing.fault, periphery.publishing.error) == ("", "")
        assert (periphery.files / "route_policy/routes.json").exists()


async def test_who_has_moved_away_what_was_in_the_way_need_not_wait(periphery):
    """rules P14: what failed would rest for an hour; and whoever asks without end is heard once a second"""
    periphery.publishing.back_off = BackOff(lambda low, high: high, 3600, 3600)
    async with serving(periphery):
        link = periphery.files
        link.unlink()
        link.mkdir()
        periphery.route(1, {"routes": {}})
        await failed(periphery, 1)
        begun = trio.current_time()
        for _ in range(30):
            periphery.publishing.wake()
            await trio.sleep(0.01)
        assert periphery.publishing.failures <= 2 + elapsed.since(begun) / LEAST_S
        link.rename(periphery.folder / "moved away")
        periphery.publishing.wake()
        with trio.fail_after(60):
            await periphery.published.wait_above(periphery.node.store.watch.generation - 1)
        assert (periphery.publishing.fault, (periphery.files / "route_policy/routes.json").exists()) == ("", True)


async def test_a_hangup_has_an_agent_try_its_files_again(tmp_path, for_hours, mock_clock):
    """rules P14: it has failed for hours, and what comes next would wait for minutes"""
    async with for_hours.agent():
        await for_hours.settled()
        link, away = tmp_path / "run" / "active", tmp_path / "run" / "away"
        await for_hours.until((link / ROUTES / "routes.json").exists)
        link.rename(away)
        link.mkdir()
        for_hours.server.snapshot({"routes": {"south": {}}}, ROUTES)
        for_hours.server.announce()
        await for_hours.until_active(ROUTES, 2)
        await trio.sleep(2 * HOUR)
        assert (await for_hours.status())["files"]["fault"] == "not_ours"
        link.rmdir()
        os.kill(os.getpid(), signal.SIGHUP)
        with trio.fail_after(2 * LEAST_S):
            while not (link / ROUTES / "routes.json").exists():  # noqa: ASYNC110 - no word of it
                await trio.sleep(0.1)
        assert json.loads((link / ROUTES / "routes.json").read_bytes()) == {"south": {}}

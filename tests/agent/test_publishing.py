"""Files follow what is active and how good it is, whatever goes wrong meanwhile."""

import json

import trio

from tests.agent.lab import DAY, NOW, ask, serving
from wire.backoff import BackOff


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

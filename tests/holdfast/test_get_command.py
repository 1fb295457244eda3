"""`holdfast get`."""

from tests.agent.lab import DAY, NOW, serving
from tests.holdfast.lab import holdfast


async def test_a_section_as_it_was_signed(api):
    done = await holdfast("get", "route_policy", "routes", at=api)
    assert (done.status, done.out, done.err) == (0, '{"north":{"ttl_s":60}}\n', "")
    assert (await holdfast("get", "route_policy", at=api)).out == "routes\nsettings\n"


async def test_exit_statuses(api, tmp_path):
    """Documented in the help: 2 usage, 3 nobody answers, 4 not found, 5 expired."""
    assert (await holdfast("get", at=api)).status == 2
    assert (await holdfast("get", "route_policy", "none", at=api)).status == 4
    down = await holdfast("get", "route_policy", "routes")
    assert down.status == 3
    assert "systemctl status holdfast-agent" in down.err
    api.at = NOW + 8 * DAY
    over = await holdfast("get", "route_policy", "routes", at=api)
    assert (over.status, over.out) == (5, "")
    assert "expired=allow" in over.err
    assert (await holdfast("get", "route_policy", "routes", "--expired", at=api)).out.startswith('{"north"')
    assert "3 nobody answers" in (await holdfast("get", "--help")).out


async def test_from_the_files_with_a_note(periphery):
    periphery.route(1, {"routes": {}}, expires_at=7_000_000_000)
    async with serving(periphery):
        pass
    done = await holdfast("get", "route_policy", "routes", at=periphery)
    assert (done.status, done.out) == (0, "{}\n")
    assert "the agent is down" in done.err
    assert "version 1, stale" in done.err

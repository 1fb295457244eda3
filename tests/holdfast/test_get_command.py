"""`holdfast get`."""

import json

from tests.agent.lab import DAY, NOW, serving
from tests.holdfast.lab import holdfast


async def test_a_section_as_it_was_signed(api):
    done = await holdfast("get", "route_policy", "routes", at=api)
    assert (done.status, done.out, done.err) == (0, '{"north":{"ttl_s":60}}\n', "")
    assert (await holdfast("get", "route_policy", "--names", at=api)).out == "routes\nsettings\n"
    assert (await holdfast("get", "route_policy", "routes", "--names", at=api)).status == 2


async def test_a_whole_scope_is_one_object(api):
    """rules S7, S13: each section as it was signed"""
    done = await holdfast("get", "route_policy", at=api)
    assert (done.status, done.out) == (0, '{"routes":{"north":{"ttl_s":60}},"settings":{"a":1}}\n')
    assert (await holdfast("get", "qos_policy", at=api)).status == 4


async def test_a_map_in_parts_is_shown_in_one(periphery):
    """config.md 5"""
    periphery.route(1, {"routes.00": {}, "routes.01": {"a": 1}, "routes.2c": {}, "routes.3f": {"b": [{}]}, "z": {}})
    async with serving(periphery):
        done = await holdfast("get", "route_policy", at=periphery)
        assert (done.status, done.out) == (0, '{"routes":{"a":1,"b":[{}]},"z":{}}\n')
        assert (await holdfast("get", "route_policy", "--names", at=periphery)).out == "routes\nz\n"
        whole = json.loads((await holdfast("get", "route_policy", "--json", at=periphery)).out)
        assert whole["sections"] == {"routes": {"a": 1, "b": [{}]}, "z": {}}
        assert (await holdfast("get", "route_policy", "routes", at=periphery)).out == '{"a":1,"b":[{}]}\n'
        assert (await holdfast("get", "route_policy", "routes.3f", at=periphery)).out == '{"b":[{}]}\n'
        assert (await holdfast("get", "route_policy", "route", at=periphery)).status == 4


async def test_with_what_is_known_of_it(api):
    whole = json.loads((await holdfast("get", "route_policy", "--json", at=api)).out)
    assert whole.pop("sections") == {"routes": {"north": {"ttl_s": 60}}, "settings": {"a": 1}}
    one = json.loads((await holdfast("get", "route_policy", "settings", "--json", at=api)).out)
    assert (one.pop("value"), one.pop("section")) == ({"a": 1}, "settings")
    assert one == whole
    assert (one["scope"], one["source"], one["version"], one["grade"]) == ("route_policy", "agent", 1, "fresh")
    assert one["expires_at"].endswith("Z")


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
    assert over.err == "holdfast: this scope has expired: use --expired to read it all the same\n"
    assert (await holdfast("get", "route_policy", at=api)).err == over.err
    assert (await holdfast("get", "route_policy", "routes", "--expired", at=api)).out.startswith('{"north"')
    assert (await holdfast("get", "route_policy", at=api)).status == 5
    assert (await holdfast("get", "route_policy", "--expired", at=api)).out.startswith('{"routes"')
    assert "3 nobody answers" in (await holdfast("get", "--help")).out


async def test_from_the_files_with_a_note(periphery):
    periphery.route(1, {"routes": {}}, expires_at=7_000_000_000)
    async with serving(periphery):
        pass
    done = await holdfast("get", "route_policy", "routes", at=periphery)
    assert (done.status, done.out) == (0, "{}\n")
    assert "the agent could not be asked: this is from its files" in done.err
    assert "version 1, stale" in done.err
    whole = await holdfast("get", "route_policy", "--json", at=periphery)
    assert json.loads(whole.out)["source"] == "files"
    assert json.loads(whole.out)["sections"] == {"routes": {}}
    assert whole.err == done.err


async def test_services_and_routes_by_their_ids(periphery):
    web = {"endpoints": [], "settings": {"workers": 4}, "workload": "nginx"}
    periphery.route(1, {"routes.00": {"a": {"ttl_s": 1}}, "routes.2c": {"b": {}}}, expires_at=7_000_000_000)
    assigned = {"scope": "service_assignment", "scope_ids": ("web",), "subject_node_id": "node-1"}
    periphery.route(1, {"services": {"web": web}}, expires_at=7_000_000_000, **assigned)

    web |= {"organization_id": None, "resources": {}}

    async def told(*words):
        done = await holdfast("get", *words, at=periphery)
        assert done.status == 0, done.err
        return done.out if "--names" in words else json.loads(done.out)

    async def everything():
        found = [await told(*words) for words in (["service", "web"], ["routes"], ["routes", "a"], ["route", "b"])]
        assert found == [web, {"a": {"ttl_s": 1}, "b": {}}, {"ttl_s": 1}, {}]
        assert list(await told("services")) == ["web"]
        assert [await told(of, "--names") for of in ("services", "routes")] == ["web\n", "a\nb\n"]
        assert (await holdfast("get", "service", "db", at=periphery)).status == 4
        assert (await holdfast("get", "route", "c", at=periphery)).status == 4
        return await told("service", "web", "--json")

    async with serving(periphery):
        whole = await everything()
        assert (whole["service"], whole["value"], whole["source"], whole["grade"]) == ("web", web, "agent", "fresh")
        which = await holdfast("get", "service", at=periphery)
        assert (which.status, "holdfast get services" in which.err) == (2, True)
    assert (await everything())["source"] == "files"

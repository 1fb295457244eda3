"""Services and routes by their own ids, on a real socket over a real store; and waiting for what is read."""

import json

import pytest
import trio

from snapshot.identifiers import format_time
from tests.agent.lab import DAY, NOW, ask, serving

WEB = {
    "workload": "nginx",
    "endpoints": [{"name": "http", "port": 80}],
    "settings": {"workers": 4},
}
PARTS = {"routes.00": {"north": {"ttl_s": 60}}, "routes.01": {}, "routes.3f": {"a": {"ttl_s": 1}, "b": {"ttl_s": 2}}}
OTHERS = {"settings": {"a": 1}}
EXPIRES = format_time(NOW - 60 + 7 * DAY)


def assign(periphery, version, service_id="web", entry=None, **changes):
    """One service's document."""
    sections = {"services": {service_id: WEB if entry is None else entry}}
    cluster = periphery.node.cluster
    periphery.apply(
        cluster.snapshot(
            version,
            sections,
            scope="service_assignment",
            scope_ids=(service_id,),
            subject_node_id="node-1",
            **changes,
        )
    )


@pytest.fixture
async def api(periphery):
    periphery.route(1, PARTS | OTHERS)
    assign(periphery, 1)
    async with serving(periphery):
        yield periphery


async def value_of(api, path, status=200, **headers):
    answer = await ask(api, path, **headers)
    assert answer.status == status, answer.body
    return json.loads(answer.body)


async def test_a_service_is_read_by_its_id(api):
    """neither scope nor section is met; rules S5"""
    answer = await ask(api, "/v1/services/web")
    expected = WEB | {"organization_id": None, "resources": {}, "version": 1, "expires_at": EXPIRES, "grade": "fresh"}
    assert (answer.status, json.loads(answer.body)) == (200, expected)
    assert (answer.headers["holdfast-version"], answer.headers["holdfast-grade"]) == ("1", "fresh")
    listed = await value_of(api, "/v1/services")
    assert listed == {
        "generation": api.node.store.watch.generation,
        "services": {"web": {"version": 1, "expires_at": EXPIRES, "grade": "fresh"}},
    }


async def test_what_a_node_is_not_told_of_a_service_is_null(api):
    assign(api, 1, "api", {"endpoints": []})
    found = await value_of(api, "/v1/services/api")
    assert (found["endpoints"], found["settings"], found["workload"]) == ([], None, None)


@pytest.mark.parametrize("path", ["/v1/services/none", "/v1/services/WEB", "/v1/routes/none", "/v1/routes/No"])
async def test_what_is_not_there(api, path):
    assert (await value_of(api, path, 404))["code"] == "not_found"


async def test_a_document_that_does_not_name_its_service(api):
    assign(api, 2, entry=[])
    assert (await value_of(api, "/v1/services/web", 404))["code"] == "not_found"
    assign(api, 3)
    assert (await value_of(api, "/v1/services/web"))["version"] == 3


async def test_routes_are_one_map_and_each_is_read_by_its_id(api):
    """no reader ever meets `routes.3f`"""
    routes = {"north": {"ttl_s": 60}, "a": {"ttl_s": 1}, "b": {"ttl_s": 2}}
    known = {"version": 1, "expires_at": EXPIRES, "grade": "fresh"}
    assert await value_of(api, "/v1/routes") == {"routes": routes} | known
    for name, route in routes.items():
        assert await value_of(api, f"/v1/routes/{name}") == {"route": route} | known
    assert await value_of(api, "/v1/scopes/route_policy/sections/routes") == routes
    assert await value_of(api, "/v1/scopes/route_policy/sections/routes.00") == {"north": {"ttl_s": 60}}
    assert (await ask(api, "/v1/scopes/route_policy/sections/settings.00")).status == 404


async def test_no_routes_at_all_are_an_empty_map(api):
    api.route(2, OTHERS)
    assert (await value_of(api, "/v1/routes"))["routes"] == {}
    api.route(3, {"routes": {"a": {"ttl_s": 1}}, "routes.00": ["no object"], "routes.01": {"b": {}}})
    assert (await value_of(api, "/v1/routes"))["routes"] == {"a": {"ttl_s": 1}, "b": {}}


async def test_many_routes_are_streamed_whole(api):
    parts = {
        f"routes.{part:02x}": {f"r{part}-{n}": {"ttl_s": n, "x": "y" * 900} for n in range(60)} for part in range(64)
    }
    api.route(2, parts)
    expected = {name: route for part in parts.values() for name, route in part.items()}
    assert (await value_of(api, "/v1/routes"))["routes"] == expected
    assert (await value_of(api, "/v1/routes/r63-59"))["route"] == expected["r63-59"]


@pytest.mark.parametrize(
    "path", ["/v1/services/web", "/v1/routes", "/v1/routes/a", "/v1/scopes/route_policy/sections/routes"]
)
async def test_an_etag_is_of_the_content_alone(api, path):
    """A renewal keeps it, another route or section changes no other's."""
    etag = (await ask(api, path)).headers["etag"]
    api.route(2, PARTS | {"settings": {"a": 2}}, issued_at=NOW - 30)
    assign(api, 2, issued_at=NOW - 30)
    again = await ask(api, path, if_none_match=etag)
    assert (again.status, again.headers["etag"], again.headers["holdfast-version"]) == (304, etag, "2")
    api.route(3, {**PARTS, "routes.3f": {"a": {"ttl_s": 9}}})
    assign(api, 3, entry=WEB | {"settings": {}})
    changed = await ask(api, path, if_none_match=etag)
    assert changed.status == 200
    assert changed.headers["etag"] != etag


async def test_what_has_expired(api):
    """rules: 410, unless it is asked for all the same"""
    api.at = NOW + 8 * DAY
    for path in ("/v1/services/web", "/v1/routes", "/v1/routes/a"):
        assert (await value_of(api, path, 410))["code"] == "expired"
        assert (await value_of(api, f"{path}?expired=allow"))["grade"] == "expired"
    assert (await value_of(api, "/v1/services"))["services"]["web"]["grade"] == "expired"


async def test_the_former_version_can_be_asked_for(api):
    assign(api, 2, entry=WEB | {"settings": {}})
    assert (await value_of(api, "/v1/services/web?slot=previous"))["settings"] == {"workers": 4}
    assert (await value_of(api, "/v1/services/web"))["settings"] == {}


# ---- waiting


async def waiting(nursery, api, path, **headers):
    """A request that waits: what it is answered, later."""
    answers = []

    async def poll():
        answers.append(await ask(api, path, **headers))

    nursery.start_soon(poll)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert answers == []
    return answers


async def test_a_service_is_waited_for_until_it_changes(api):
    """rules P3: another service's change and a renewal are no news."""
    etag = (await ask(api, "/v1/services/web")).headers["etag"]
    async with trio.open_nursery() as nursery:
        answers = await waiting(nursery, api, "/v1/services/web?wait=60", if_none_match=etag)
        assign(api, 1, "api")
        assign(api, 2, issued_at=NOW - 30)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert answers == []
        assign(api, 3, entry=WEB | {"settings": {"workers": 8}})
    assert (answers[0].status, json.loads(answers[0].body)["settings"]) == (200, {"workers": 8})


async def test_a_route_is_waited_for_until_it_goes(api):
    etag = (await ask(api, "/v1/routes/a")).headers["etag"]
    async with trio.open_nursery() as nursery:
        answers = await waiting(nursery, api, "/v1/routes/a?wait=60", if_none_match=etag)
        api.route(2, {"routes.3f": {"b": {"ttl_s": 2}}})
    assert answers[0].status == 404


async def test_who_has_something_else_is_answered_at_once(api):
    for path in ("/v1/services/web", "/v1/routes", "/v1/scopes/route_policy"):
        assert (await ask(api, f"{path}?wait=300")).status == 200
        assert (await ask(api, f"{path}?wait=300", if_none_match='"other"')).status == 200
        etag = (await ask(api, path)).headers["etag"]
        assert (await ask(api, f"{path}?wait=0", if_none_match=etag)).status == 304
        assert (await ask(api, f"{path}?wait=301", if_none_match=etag)).status == 400


async def test_a_wait_ends_after_its_seconds(api):
    etag = (await ask(api, "/v1/services/web")).headers["etag"]
    answer = await ask(api, "/v1/services/web?wait=1", if_none_match=etag)
    assert (answer.status, answer.body) == (304, b"")


async def test_who_waits_is_told_when_it_expires(api):
    """What ends is announced by no activation."""
    etag = (await ask(api, "/v1/services/web")).headers["etag"]
    api.at = NOW - 60 + 7 * DAY - 0.2
    async with trio.open_nursery() as nursery:
        answers = await waiting(nursery, api, "/v1/services/web?wait=60", if_none_match=etag)
        api.at += 1
    assert answers[0].status == 410


# ---- notices


async def test_a_notice_names_services_and_routes(api):
    """by their ids, and sections by the map's name"""
    after = api.node.store.watch.generation
    assign(api, 1, "api")
    api.route(2, {**PARTS, "routes.3f": {"a": {"ttl_s": 1}, "b": {"ttl_s": 9}, "c": {}}})
    with trio.fail_after(30):
        while "routes" not in (found := await value_of(api, f"/v1/watch?after={after}&wait=30"))["scopes"].get(
            "route_policy", []
        ):
            pass
    assert found["scopes"] == {"route_policy": ["routes", "settings"], "service_assignment/api": ["services"]}
    assert (found["services"], found["routes"]) == (["api"], ["b", "c"])

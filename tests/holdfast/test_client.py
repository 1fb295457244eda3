"""The client library: over a real socket, and from the files when nobody answers."""

import dataclasses
import json
import socket
import threading
from pathlib import Path

import pytest
import trio

from holdfast.client import AgentDown, AgentRefused, Client, Expired, NotFound, unix_seconds
from tests.agent.lab import DAY, NOW, serving
from tests.store.cluster import NODE


def client_of(periphery, **more) -> Client:
    return Client(periphery.socket, periphery.files, **more)


async def call(function, *arguments, **named):
    """In a thread, as a service that knows nothing of trio would."""
    return await trio.to_thread.run_sync(lambda: function(*arguments, **named))


async def test_a_section_and_what_is_known_of_it(api):
    section = await call(client_of(api).get, "route_policy", "routes")
    assert section.value == {"north": {"ttl_s": 60}}
    facts = section.facts
    assert (facts.source, facts.grade, facts.version, facts.epoch, facts.age_s) == ("agent", "fresh", 1, 1, 0)
    assert facts.expires_at == NOW - 60 + 7 * DAY
    assert facts.generation == api.node.store.watch.generation


async def test_what_is_not_there_and_what_is_over(api):
    client = client_of(api)
    for scope, section in (("qos_policy", "x"), ("route_policy", "nothing"), ("route_policy", "../index")):
        with pytest.raises(NotFound):
            await call(client.get, scope, section)
    api.at = NOW + 8 * DAY
    with pytest.raises(Expired) as caught:
        await call(client.get, "route_policy", "routes")
    assert (caught.value.code, caught.value.facts.version) == ("expired", 1)
    assert (await call(client.get, "route_policy", "routes", expired=True)).facts.grade == "expired"


async def test_all_sections_of_one_version(api):
    """rules P3: as they were signed, one at a time"""
    found = await call(lambda: dict(client_of(api).sections("route_policy")))
    assert {name: one.value for name, one in found.items()} == {
        "routes": {"north": {"ttl_s": 60}},
        "settings": {"a": 1},
    }
    assert {one.facts.version for one in found.values()} == {1}
    with pytest.raises(NotFound):
        await call(lambda: list(client_of(api).sections("qos_policy")))
    api.at = NOW + 8 * DAY
    with pytest.raises(Expired):
        await call(lambda: list(client_of(api).sections("route_policy")))
    assert len(await call(lambda: list(client_of(api).sections("route_policy", expired=True)))) == 2


async def test_sections_of_any_name_and_size(periphery):
    """What is like the frame around them is taken for itself."""
    sections = {"sections": {"manifest": ',"sections":{'}, "a": ["é" * 100] * 4_000, "z": [], "envelope": {}}
    periphery.route(1, sections)
    async with serving(periphery):
        found = await call(lambda: {name: one.value for name, one in client_of(periphery).sections("route_policy")})
        assert found == sections
    assert {name: one.value for name, one in client_of(periphery).sections("route_policy", expired=True)} == sections


PARTS = {"routes.00": {"a": 1}, "routes.2c": {}, "routes.3f": {"b": 2, "c": {}}, "settings": [1], "v1.20": "no map"}


async def test_what_is_kept_in_parts_is_one_map_to_a_reader(periphery):
    """config.md 5: no reader ever meets the parts"""
    periphery.route(1, PARTS)
    routes = {"a": 1, "b": 2, "c": {}}
    whole = {"routes": routes, "settings": [1], "v1.20": "no map"}
    client = client_of(periphery)
    async with serving(periphery):
        found = await call(client.get, "route_policy")
        assert (found.value, found.facts.version, found.facts.source) == (whole, 1, "agent")
        found = await call(client.get, "route_policy", "routes")
        assert (found.value, found.facts.version, found.facts.source) == (routes, 1, "agent")
        assert (await call(client.get, "route_policy", "routes.3f")).data == b'{"b":2,"c":{}}'
        for nothing in ("route", "v1", "routes."):
            with pytest.raises(NotFound):
                await call(client.get, "route_policy", nothing)
    assert client.get("route_policy", expired=True).value == whole
    found = client.get("route_policy", "routes", expired=True)
    assert (found.value, found.facts.source) == (routes, "files")


async def test_a_section_of_a_maps_own_name_is_not_mixed_with_others(periphery):
    sections = {"routes": {"a": 1}, "routes-of": {}, "routes.00": {"b": 2}}
    periphery.route(1, sections)
    client = client_of(periphery)
    async with serving(periphery):
        assert (await call(client.get, "route_policy")).value == sections
        assert (await call(client.get, "route_policy", "routes")).value == {"a": 1}
    assert client.get("route_policy", expired=True).value == sections


async def test_a_scope_without_sections(periphery):
    periphery.route(1, {})
    client = client_of(periphery)
    async with serving(periphery):
        found = await call(client.get, "route_policy")
        assert (found.value, found.facts.version, found.facts.source) == ({}, 1, "agent")
    found = client.get("route_policy", expired=True)
    assert (found.value, found.facts.version, found.facts.source) == ({}, 1, "files")


async def test_documents_scopes_and_status(api):
    client = client_of(api)
    assert (await call(client.document, "route_policy"))["sections"]["settings"] == {"a": 1}
    assert "route_policy" in await call(client.scopes)
    assert (await call(client.status))["state"] == "active"


async def test_may(api):
    client = client_of(api)
    yes = await call(client.may, "start_service", running_since=NOW)
    assert (yes.allowed, yes.reason, yes.mode, yes.until) == (True, "ok", "normal", NOW + 1800)
    no = await call(client.may, "assign_role", scope="route_policy", resource="x")
    assert (no.allowed, no.reason, no.until) == (False, "forbidden_in_degraded", None)
    with pytest.raises(AgentRefused) as caught:
        await call(client.may, "x" * 100)
    assert (caught.value.code, caught.value.status) == ("bad_request", 400)


async def next_of(changes):
    return await call(next, changes)


async def test_watching_from_now_and_from_a_generation(api):
    client = client_of(api)
    start = api.node.store.watch.generation
    changes = client.watch("route_policy", after=start, wait_s=5)
    api.route(2, {"routes": {}, "settings": {"a": 1}})
    first = await next_of(changes)
    assert (first.generation, dict(first.scopes), first.source) == (start + 1, {"route_policy": ("routes",)}, "agent")
    api.apply(api.node.cluster.snapshot(1, {"policies": {}}, scope="qos_policy"))
    api.route(3, {"routes": {}, "settings": {"a": 2}})
    assert dict((await next_of(changes)).scopes) == {"route_policy": ("settings",)}


# ---- while nobody answers


async def test_the_files_answer_and_the_answer_says_so(periphery):
    periphery.at = NOW
    periphery.route(1, {"routes": {"a": {}}}, expires_at=unix_seconds("2199-01-01T00:00:00Z"))
    async with serving(periphery):
        pass
    client = client_of(periphery)
    section = client.get("route_policy", "routes")
    assert section.value == {"a": {}}
    facts = section.facts
    assert (facts.source, facts.grade, facts.version) == ("files", "stale", 1)
    assert facts.generation == periphery.node.store.watch.generation
    assert "route_policy" in client.scopes()
    for scope, name in (("qos_policy", "x"), ("route_policy", "none"), ("route_policy", "../index")):
        with pytest.raises(NotFound):
            client.get(scope, name)
    for ask in (client.status, lambda: client.may("start_service"), lambda: client.document("route_policy")):
        with pytest.raises(AgentDown, match="systemctl status"):
            ask()


async def test_a_file_that_is_over_is_over_by_the_services_own_clock(periphery):
    periphery.route(1, {"routes": {}})
    async with serving(periphery):
        index = periphery.files / "index.json"
        value = json.loads(index.read_bytes())
        value["scopes"]["route_policy"]["expires_at"] = "2021-01-01T00:00:00Z"
        index.chmod(0o600)
        index.write_text(json.dumps(value))
    with pytest.raises(Expired):
        client_of(periphery).get("route_policy", "routes")
    assert client_of(periphery).get("route_policy", "routes", expired=True).facts.grade == "expired"


async def test_neither_agent_nor_files(tmp_path):
    client = Client(tmp_path / "none.sock", tmp_path / "active")
    with pytest.raises(AgentDown) as caught:
        client.get("route_policy", "routes")
    assert caught.value.code == "agent_down"
    with pytest.raises(AgentDown):
        client.scopes()


async def test_a_burst_of_callers_waits_in_line(tmp_path):
    """threats D-51: whoever fills the queue makes nobody believe that the agent is down."""
    path, callers = tmp_path / "agent.sock", 24
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    found = []

    def serve(listener):
        for _ in range(callers):
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(4096)
                accepted.sendall(answer)

    def ask():
        found.append(Client(path, tmp_path).status())

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        listener.settimeout(60)
        threads = [threading.Thread(target=ask) for _ in range(callers)]
        for each in threads:
            each.start()
        await trio.to_thread.run_sync(serve, listener)
        for each in threads:
            await trio.to_thread.run_sync(each.join)
    assert found == [{}] * callers


async def test_a_watch_goes_on_with_the_files_and_comes_back(periphery, monkeypatch):
    """The agent stops, leaves new files behind, and is there again."""
    monkeypatch.setattr("holdfast.client.LOOK_EVERY_S", 0.02)
    periphery.route(1, {"routes": {}})
    async with serving(periphery):
        start = periphery.node.store.watch.generation
        changes = client_of(periphery).watch(after=start, wait_s=1)
        periphery.route(2, {"routes": {"a": {}}})
        assert (await next_of(changes)).source == "agent"
    periphery.route(3, {"routes": {"b": {}}})
    await periphery.publishing.publish()
    change = await next_of(changes)
    assert (change.source, change.generation) == ("files", start + 2)
    assert change.scopes["route_policy"] == ("routes",)
    async with serving(dataclasses.replace(periphery)) as again:
        again.route(4, {"routes": {"c": {}}})
        change = await next_of(changes)
    assert (change.source, dict(change.scopes)) == ("agent", {"route_policy": ("routes",)})


async def test_every_service_is_watched_by_the_type_of_their_scopes(periphery, monkeypatch):
    """From the agent and from its files: a change of one service, and none of anything else."""
    monkeypatch.setattr("holdfast.client.LOOK_EVERY_S", 0.02)

    def assign(version):
        sections, of = {"services": {"web": {"v": version}}}, {"scope_ids": ("web",), "subject_node_id": NODE}
        periphery.apply(periphery.node.cluster.snapshot(version, sections, "service_assignment", **of))

    periphery.route(1, {"routes": {}})
    async with serving(periphery):
        start = periphery.node.store.watch.generation
        changes = client_of(periphery).watch("service_assignment", after=start, wait_s=1)
        periphery.route(2, {"routes": {"a": {}}})
        assign(1)
        change = await next_of(changes)
        assert (change.source, dict(change.scopes)) == ("agent", {"service_assignment/web": ("services",)})
    periphery.route(3, {"routes": {"b": {}}})
    assign(2)
    await periphery.publishing.publish()
    change = await next_of(changes)
    assert (change.source, dict(change.scopes)) == ("files", {"service_assignment/web": ("services",)})


# ---- an agent that does not behave


def misbehaving(folder: Path, answer: bytes) -> Client:
    """Somebody at the socket who says this, whatever is asked."""
    path = folder / "odd.sock"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        connection, _ = listening.accept()
        connection.recv(65536)
        connection.sendall(answer)
        connection.close()
        listening.close()

    threading.Thread(target=serve, daemon=True).start()
    return Client(path, folder / "none", timeout_s=60)


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"])
def test_what_is_no_answer_counts_as_down(tmp_path, answer):
    """rules P6: a typed refusal."""
    with pytest.raises(AgentDown):
        misbehaving(tmp_path, answer).status()


START = b'{"envelope":{},"manifest":{"a":{"sha256":"","size":3},"b":{"sha256":"","size":1}},"sections":{"a":"x",'


@pytest.mark.parametrize("sections", [START, START + b'"b":', START + b'"c":1}}'])
def test_a_scope_that_breaks_off_is_not_taken_for_whole(tmp_path, sections):
    """rules P6: what came before is given, then it is said"""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + sections
    found = misbehaving(tmp_path, answer).sections("route_policy")
    name, section = next(found)
    assert (name, section.data) == ("a", b'"x"')
    with pytest.raises(AgentDown, match="broke off"):
        next(found)


@pytest.mark.parametrize(
    ("body", "code"), [(b"{}", "bad_answer"), (b'{"code":"overloaded","message":"later"}', "overloaded")]
)
def test_a_refusal_has_its_code(tmp_path, body, code):
    answer = b"HTTP/1.1 503 X\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    with pytest.raises(AgentRefused) as caught:
        misbehaving(tmp_path, answer).status()
    assert (caught.value.code, caught.value.status) == (code, 503)


# ---- services and routes

WEB = {"workload": "nginx", "endpoints": [{"port": 80}], "settings": {"workers": 4}}
ROUTE_PARTS = {"routes.00": {"north": {"ttl_s": 60}}, "routes.2c": {}, "routes.3f": {"a": {"ttl_s": 1}}}


def assign(periphery, version, entry, service_id="web", **changes):
    """One service's document."""
    sections = {"services": {service_id: entry}}
    periphery.apply(
        periphery.node.cluster.snapshot(
            version,
            sections,
            scope="service_assignment",
            scope_ids=(service_id,),
            subject_node_id=NODE,
            **changes,
        )
    )


@pytest.fixture
def assigned(periphery):
    periphery.route(1, ROUTE_PARTS, expires_at=7_000_000_000)
    assign(periphery, 1, WEB, expires_at=7_000_000_000)
    return periphery


async def test_services_and_routes_by_their_ids_from_the_socket_and_from_the_files(assigned):
    """neither scope, section nor bucket is met; the same when the agent is down"""

    def everything(client):
        return (
            client.service("web"),
            list(client.services()),
            client.routes(),
            client.route("a"),
        )

    async with serving(assigned):
        web, listed, routes, route = found = await call(everything, client_of(assigned))
    assert (web.settings, web.endpoints, web.workload) == ({"workers": 4}, [{"port": 80}], "nginx")
    assert (web.value, listed) == (WEB | {"organization_id": None, "resources": {}}, ["web"])
    assert routes.routes == {"north": {"ttl_s": 60}, "a": {"ttl_s": 1}}
    assert route.value == {"ttl_s": 1}
    assert (web.facts.source, web.facts.grade, web.facts.version) == ("agent", "fresh", 1)
    from_files = everything(client_of(assigned))
    assert from_files == found
    assert {one.facts.source for one in (from_files[0], *from_files[2:])} == {"files"}


async def test_services_and_routes_that_are_not_there_or_over(assigned):
    def asked(client):
        for read in (lambda: client.service("db"), lambda: client.route("none"), lambda: client.service("a/b")):
            with pytest.raises(NotFound):
                read()

    async with serving(assigned):
        await call(asked, client_of(assigned))
        assigned.at = 7_000_000_001
        with pytest.raises(Expired):
            await call(client_of(assigned).service, "web")
        assert (await call(lambda: client_of(assigned).service("web", expired=True))).facts.grade == "expired"
        assert (await call(lambda: client_of(assigned).route("a", expired=True))).value == {"ttl_s": 1}
    asked(client_of(assigned))


async def test_a_service_is_followed(assigned):
    """What there is at first, then each change of what it says; renewals say nothing new."""
    client = client_of(assigned)
    async with serving(assigned):
        following = client.watch_service("web")
        assert (await call(next, following)).settings == {"workers": 4}
        assign(assigned, 2, WEB, expires_at=7_000_000_100)
        async with trio.open_nursery() as nursery:
            found = []

            async def take():
                found.append(await call(next, following))

            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assign(assigned, 3, WEB | {"settings": {"workers": 8}}, expires_at=7_000_000_100)
        assert (found[0].settings, found[0].facts.version) == ({"workers": 8}, 3)


async def test_routes_are_followed_across_a_restart_of_the_agent(assigned):
    """While it is down the files are looked at, and what they say already is no news."""
    following = client_of(assigned).watch_routes(wait_s=1)
    async with serving(assigned):
        assert set((await call(next, following)).routes) == {"north", "a"}
    assigned.route(2, {"routes.00": {"south": {}}}, expires_at=7_000_000_000)
    async with serving(assigned):
        assert set((await call(next, following)).routes) == {"south"}


async def test_a_change_names_services_and_routes(assigned):
    async with serving(assigned):
        client = client_of(assigned)
        watching = client.watch(after=assigned.node.store.watch.generation)
        assign(assigned, 1, WEB, "db")
        change = await call(next, watching)
        assert (change.services, change.routes) == (("db",), ())
        assigned.route(2, {**ROUTE_PARTS, "routes.3f": {"a": {"ttl_s": 2}}}, expires_at=7_000_000_000)
        change = await call(next, watching)
        assert (change.scopes, change.routes) == ({"route_policy": ("routes",)}, ("a",))


def test_socket_and_files_are_those_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLDFAST_SOCKET", str(tmp_path / "a.sock"))
    monkeypatch.setenv("HOLDFAST_FILES", str(tmp_path / "files"))
    with pytest.raises(AgentDown, match=r"a\.sock.*files"):
        Client().scopes()
    with pytest.raises(AgentDown, match=r"b\.sock"):
        Client(tmp_path / "b.sock").scopes()
    monkeypatch.setenv("HOLDFAST_SOCKET", "")
    with pytest.raises(AgentDown, match=r"/run/holdfast/agent\.sock"):
        Client(files=tmp_path).status()

"""The local API on a real socket over a real store."""

import base64
import json
from dataclasses import replace
from urllib.parse import quote

import pytest
import trio

from snapshot.identifiers import format_time
from store.base.records import Rejection
from tests.agent.lab import DAY, NOW, ask, serving
from tests.wire.lab import head, talk

ROUTES = {"routes": {"north": {"ttl_s": 60}}, "settings": {"a": 1}}
PATH = "/v1/scopes/route_policy"


@pytest.fixture
async def api(periphery):
    periphery.route(1, ROUTES)
    async with serving(periphery):
        yield periphery


async def test_a_section_is_served_byte_for_byte_with_all_that_is_known_of_it(api):
    """rules S5: services read active configuration over the local socket."""
    answer = await ask(api, f"{PATH}/sections/routes")
    assert answer.status == 200
    assert answer.body == b'{"north":{"ttl_s":60}}'
    expected = {
        "holdfast-generation": str(api.node.store.watch.generation),
        "holdfast-grade": "fresh",
        "holdfast-version": "1",
        "holdfast-epoch": "1",
        "holdfast-expires": format_time(NOW - 60 + 7 * DAY),
        "holdfast-age": "0",  # dated a minute back, and taken just now
    }
    assert {name: answer.headers[name] for name in expected} == expected
    api.at = NOW + 1200
    assert (await ask(api, f"{PATH}/sections/routes")).headers["holdfast-age"] == "1200"


async def test_a_section_that_is_asked_for_again_needs_no_disk_and_expires_all_the_same(api):
    """rules S29, S5, L29: what is in memory was hashed, is of this version, and is over when its scope is"""
    first = await ask(api, f"{PATH}/sections/routes")
    api.views.all()
    answers, api.api._answers = api.api._answers, replace(api.api._answers, threads=None)  # who needs one now fails
    second = await ask(api, f"{PATH}/sections/routes")
    assert (second.status, second.body) == (200, first.body)
    assert {name: value for name, value in second.headers.items() if name != "date"} == {
        name: value for name, value in first.headers.items() if name != "date"
    }
    api.api._answers = answers
    api.at = NOW + 8 * DAY
    assert (await ask(api, f"{PATH}/sections/routes?expired=no")).status == 410
    api.at = NOW
    api.route(2, {**ROUTES, "routes": {}})
    assert (await ask(api, f"{PATH}/sections/routes")).body == b"{}"


async def test_an_etag_spares_the_bytes(api):
    first = await ask(api, f"{PATH}/sections/routes")
    etag = first.headers["etag"]
    again = await ask(api, f"{PATH}/sections/routes", if_none_match=f'"other", W/{etag}')
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    api.route(2, {**ROUTES, "routes": {}})
    changed = await ask(api, f"{PATH}/sections/routes", if_none_match=etag)
    assert (changed.status, changed.body) == (200, b"{}")
    same = await ask(
        api, f"{PATH}/sections/settings", if_none_match=(await ask(api, f"{PATH}/sections/settings")).headers["etag"]
    )
    assert same.status == 304


async def test_a_whole_scope_is_one_object_of_the_announced_length(api):
    answer = await ask(api, PATH)
    value = json.loads(answer.body)
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert value["sections"] == ROUTES
    assert value["envelope"]["config_version"] == 1
    assert value["manifest"].keys() == ROUTES.keys()
    assert (await ask(api, PATH, if_none_match=answer.headers["etag"])).status == 304


async def test_a_large_scope_is_streamed_in_pieces_that_are_one_document(api):
    sizes = enumerate((9, 60_000, 60_000) * 9)
    sections = {f"part-{number}": {"number": number, "text": "x" * size} for number, size in sizes}
    sections["routes"] = {f"r{number}": {"x": "y" * 50_000} for number in range(8)}  # more than a piece by itself
    api.route(2, sections)
    answer = await ask(api, PATH)
    assert len(answer.body) == int(answer.headers["content-length"]) > 1_000_000
    assert json.loads(answer.body)["sections"] == sections


async def test_a_raw_section_is_bytes_and_in_the_whole_scope_a_string_of_base64(api):
    """format.md 11"""
    files = {"a": {"sections": ["raw.a"], "size": 256, "mode": "0644"}}
    sections = {"files": files, "raw.a": bytes(range(256))}
    api.apply(api.node.cluster.snapshot(1, sections, "config", scope_ids=("web",), raw=("raw.a",)))
    path = "/v1/scopes/config%2Fweb"
    one = await ask(api, f"{path}/sections/raw.a")
    assert (one.body, one.headers["content-type"]) == (bytes(range(256)), "application/octet-stream")
    whole = await ask(api, path)
    value = json.loads(whole.body)
    assert len(whole.body) == int(whole.headers["content-length"])
    assert base64.b64decode(value["sections"]["raw.a"]) == bytes(range(256))
    assert value["sections"]["files"] == files
    assert value["manifest"]["raw.a"]["form"] == "raw"


async def test_a_scope_with_ids_is_one_segment_of_the_path(api):
    scope = "route_policy/amber,sable"
    document = api.node.cluster.snapshot(1, {"routes": {}}, scope_ids=("amber", "sable"))
    api.apply(document)
    answer = await ask(api, f"/v1/scopes/{quote(scope, safe='')}/sections/routes")
    assert (answer.status, answer.body) == (200, b"{}")
    assert scope in json.loads((await ask(api, "/v1/scopes")).body)["scopes"]


@pytest.mark.parametrize("path", [
    "/v1/scopes/qos_policy", "/v1/scopes/qos_policy/sections/routes", f"{PATH}/sections/nothing",
    "/v1/scopes/..%2Fx", "/v1/scopes/Route_Policy", f"{PATH}?slot=previous", f"{PATH}?slot=pending",
])  # fmt: skip
async def test_what_is_not_there(api, path):
    answer = await ask(api, path)
    assert answer.status == 404
    assert json.loads(answer.body)["code"] == "not_found"
    assert int(answer.headers["holdfast-generation"]) > 0


async def test_an_expired_scope_is_gone_unless_it_is_asked_for(api):
    """rules S29, J41: it authorises nothing new, and can be read as expired."""
    api.at = NOW + 8 * DAY
    answer = await ask(api, f"{PATH}/sections/routes")
    assert (answer.status, json.loads(answer.body)["code"]) == (410, "expired")
    assert (answer.headers["holdfast-version"], answer.headers["holdfast-grade"]) == ("1", "expired")
    allowed = await ask(api, f"{PATH}/sections/routes?expired=allow")
    assert (allowed.status, allowed.headers["holdfast-grade"]) == (200, "expired")


@pytest.mark.parametrize("path", ["/v1/watch?wait=0", "/v1/scopes", f"{PATH}/rejections"])
async def test_every_answer_bears_the_grade_of_the_node(api, path):
    """protocol 4: that of its required scopes, of which an answer about none of them has to know as well"""
    assert (await ask(api, path)).headers["holdfast-grade"] == "fresh"
    api.at = NOW + 8 * DAY
    assert (await ask(api, path)).headers["holdfast-grade"] == "expired"


async def test_the_grade_follows_the_head_at_the_moment_of_use(api):
    api.at = NOW - 60 + DAY - 1  # the test head says that it lives as long as the scope; a day is what is believed
    assert (await ask(api, f"{PATH}/sections/routes")).headers["holdfast-grade"] == "fresh"
    api.apply(api.node.cluster.head(2, expires_at=NOW + 600, refresh_after=NOW + 300))
    api.at = NOW + 599.9
    assert (await ask(api, f"{PATH}/sections/routes")).headers["holdfast-grade"] == "fresh"
    api.at = NOW + 600
    assert (await ask(api, f"{PATH}/sections/routes")).headers["holdfast-grade"] == "stale"


async def test_previous_is_served_beside_active(api):
    api.route(2, {"routes": {"south": {}}})
    assert (await ask(api, f"{PATH}/sections/routes?slot=previous")).body == b'{"north":{"ttl_s":60}}'
    assert (await ask(api, f"{PATH}/sections/routes?slot=elsewhere")).status == 400


async def test_what_waits_for_its_time_is_served_as_pending_and_nothing_unverified_is(api):
    """rules X10, X26."""
    document = api.node.cluster.snapshot(2, {"routes": {"later": {}}}, valid_from=NOW + 600, refresh_after=NOW + DAY)
    slot = api.node.download(document)
    assert (await ask(api, f"{PATH}?slot=pending")).status == 404
    slot.wait(NOW + 600)
    answer = await ask(api, f"{PATH}?slot=pending")
    assert json.loads(answer.body)["sections"] == {"routes": {"later": {}}}
    assert json.loads((await ask(api, "/v1/status")).body)["scopes"]["route_policy"]["pending"]["config_version"] == 2


async def test_damaged_bytes_are_never_served(api, monkeypatch):
    """rules J47, L29: a typed refusal, and what is whole is served on."""
    with api.node.store._environment.write() as transaction:
        digest = api.node.store.active("route_policy").sections["routes"].sha256
        data = transaction.get("sections", bytes.fromhex(digest))
        transaction.put("sections", bytes.fromhex(digest), data[:-1] + bytes([data[-1] ^ 1]))
    answer = await ask(api, f"{PATH}/sections/routes")
    assert (answer.status, json.loads(answer.body)["code"]) == (503, "store_corrupt")
    assert (await ask(api, f"{PATH}/sections/settings")).status == 200


async def test_status_says_of_each_scope_what_the_heartbeat_says(api):
    body = json.loads((await ask(api, "/v1/status")).body)
    assert (body["state"], body["mode"], body["grade"], body["fence"]) == ("active", "normal", "fresh", None)
    active = body["scopes"]["route_policy"]["active"]
    assert (active["config_version"], active["grade"]) == (1, "fresh")
    assert body["head"]["generation"] == 1


async def test_why_something_was_refused_is_for_the_readers_of_its_scope(api):
    """threats D-44: the newest first, with the words of who refused it"""
    for at, scope, reason, detail in (
        (NOW - 2, "route_policy", "bad_signature", ""),
        (NOW - 1, "route_policy", "validator_refused", "nginx: bad port in line 3"),
        (NOW, "qos_policy", "expired", "of another scope"),
    ):
        step = 0 if reason == "validator_refused" else 5
        api.node.store.rejections.record(Rejection(at, scope, reason, step, True, detail, "route-9", 9, "https://c:1"))
    found = json.loads((await ask(api, f"{PATH}/rejections")).body)["rejections"]
    assert [one["reason"] for one in found] == ["validator_refused", "bad_signature"]
    assert (found[0]["detail"], found[0]["source"]) == ("nginx: bad port in line 3", "https://c:1")


async def test_probes_tell_life_from_readiness(api):
    """rules H19, H20, X13: liveness never depends on the backend, on the store's content, or on expiry."""
    assert (await ask(api, "/probe/readiness")).status == 200
    api.given = type(api.given)(cause="scope_expired")
    ready = await ask(api, "/probe/readiness")
    assert (ready.status, json.loads(ready.body)["cause"]) == (503, "scope_expired")
    assert (await ask(api, "/probe/liveness")).status == 200
    assert (await ask(api, "/probe/startup")).status == 200


async def test_readiness_says_that_nobody_can_connect(api):
    """A socket of systemd that was taken away: only who is connected, or asks the probes' listener, finds out."""
    api.api.socket_trouble = lambda: "restart socket unit and service"
    ready = await ask(api, "/probe/readiness")
    assert (ready.status, json.loads(ready.body)["cause"]) == (503, "socket_gone")
    api.given = type(api.given)(cause="scope_expired")
    assert json.loads((await ask(api, "/probe/readiness")).body)["cause"] == "scope_expired"
    api.api.socket_trouble = lambda: ""
    api.given = type(api.given)(head_expires_at=NOW + 1800)
    assert (await ask(api, "/probe/readiness")).status == 200


async def test_metrics_name_the_scopes_and_the_mode(api):
    text = (await ask(api, "/metrics")).body.decode()
    assert 'holdfast_scope_version{scope="route_policy"} 1.0' in text
    assert 'holdfast_mode{mode="normal"} 1.0' in text
    assert "holdfast_updates_total 3.0" in text


async def test_may_answers_as_the_gate_does(api):
    """rules S56, S83."""
    for action, reason in (
        ("start_service", "ok"),
        ("assign_role", "forbidden_in_degraded"),
        ("fly", "unknown_action"),
    ):
        answer = await ask(api, "/v1/may", "POST", json.dumps({"action": action}).encode())
        value = json.loads(answer.body)
        assert (value["reason"], value["allowed"], value["mode"]) == (reason, reason == "ok", "normal")


@pytest.mark.parametrize("body", [
    b"{", b"[]", b'{"action":1}', b'{"action":"a","more":1}', b'{"action":"a","action":"b"}',
    b'{"action":"a","running_since":"now"}',
])  # fmt: skip
async def test_a_question_out_of_form(api, body):
    answer = await ask(api, "/v1/may", "POST", body)
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "bad_request")
    assert (await ask(api, "/v1/may", "POST", b'{"action":"start_service"}')).status == 200


async def test_a_large_question_is_refused_unread(api):
    answer = await ask(api, "/v1/may", "POST", b"x" * 9000)
    assert answer.status == 413


async def test_a_caller_led_here_by_a_browser_is_refused(api):
    """threats U12: no page may ask, no CORS. No name leads to a Unix socket, so any Host will do."""
    for host in (b"localhost", b"evil.example"):
        line = b"host: " + host + b"\r\norigin: https://evil.example"
        raw = await talk(api.socket, b"GET /v1/status HTTP/1.1\r\n" + line + b"\r\nconnection: close\r\n\r\n")
        assert raw.split(b" ")[1] == b"403"
        assert b"access-control" not in raw.lower()
    for host in (b"localhost", b"agent", b"run.holdfast.sock:80", b""):
        raw = await talk(api.socket, b"GET /v1/status HTTP/1.1\r\nhost: " + host + b"\r\nconnection: close\r\n\r\n")
        assert raw.split(b" ")[1] == b"200"


async def test_an_import_is_verified_and_refused_with_its_reason(api):
    """rules S60."""
    good = api.node.cluster.snapshot(2, {"routes": {}})
    data = b"".join(good.chunks())
    answer = await ask(api, "/v1/import", "POST", data)
    assert (answer.status, json.loads(answer.body)["scope"]) == (200, "route_policy")
    broken = await ask(api, "/v1/import", "POST", data[:-1])
    assert broken.status == 422
    assert json.loads(broken.body)["code"] in ("bad_container", "too_large")
    assert api.taken == [data, data[:-1]]


async def test_a_long_poll_is_answered_when_its_scope_changes(api):
    """rules P3, P4."""
    after = api.node.store.watch.generation
    answers = []

    async def poll(query):
        answers.append(await ask(api, f"/v1/watch?after={after}&wait=60&{query}"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll, "scope=route_policy&scope=qos_policy")
        await trio.testing.wait_all_tasks_blocked(0.01)
        api.apply(api.node.cluster.snapshot(2, {"cluster": {"x": 1}}, scope="node_bootstrap", subject_node_id="node-1"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert answers == []
        api.route(2, {**ROUTES, "routes": {}})
    value = json.loads(answers[0].body)
    generation = api.node.store.watch.generation
    expected = {"generation": generation, "scopes": {"route_policy": ["routes"]}, "services": [], "routes": ["north"]}
    assert value == expected


async def test_a_long_poll_ends_empty_after_its_wait(api):
    answer = await ask(api, f"/v1/watch?after={api.node.store.watch.generation}&wait=0")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["holdfast-generation"] == str(api.node.store.watch.generation)
    assert (await ask(api, "/v1/watch?wait=301")).status == 400


async def test_an_event_stream_gives_each_change_and_can_be_resumed(api):
    after = api.node.store.watch.generation
    stream = await trio.open_unix_socket(api.socket)
    async with stream:
        await stream.send_all(head("/v1/watch?scope=route_policy", accept="text/event-stream"))
        text = b""
        while b"event: generation" not in text:
            text += await stream.receive_some(65536)
        assert b"content-type: text/event-stream" in text.lower()
        api.route(2, {**ROUTES, "settings": {"a": 2}})
        while b"\n\n" not in text.partition(b"event: change")[2]:
            text += await stream.receive_some(65536)
        assert b'"route_policy":["settings"]' in text
    async with await trio.open_unix_socket(api.socket) as stream:
        await stream.send_all(head("/v1/watch", accept="text/event-stream", last_event_id=str(after)))
        text = b""
        while b"\n\n" not in text.partition(b"event: change")[2]:
            text += await stream.receive_some(65536)
        assert b'"route_policy":["settings"]' in text

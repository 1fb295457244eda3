"""What an operator asks on the Unix socket: who may, what it changes, what it says (protocol 2; rules K51)."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest
import trio

from coordinator.api import operator_route
from coordinator.declared import resources
from coordinator.declared.value_shapes import Shapes
from coordinator.storage import published_tree
from tests.coordinator import reports
from tests.coordinator.daemon import Follower, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded, set_restored
from wire.client import ClientError
from wire.http1.target import Target
from wire.operators.fleet_answers import NodeNamed
from wire.operators.operator_messages import ApplyRequest
from wire.peer import AnonymousPeer, UnixPeer
from wire.request import HttpError, Request

GOOD = """
{kind: Organization, id: acme}
---
{kind: Node, id: node-a, spec: {roles: [core_mesh], organizations: [acme]}}
"""


async def test_applying_shows_first_and_then_does_what_it_showed(founded: Founded) -> None:
    """protocol 2; rules H38: a plan is carried out as it was shown, or not at all."""
    async with running(founded) as at:
        await at.admit("node-a")
        shown = await at.apply(GOOD, dry_run=True)
        assert [(each["verb"], each["kind"], each["id"]) for each in shown["changes"]] == [
            ("create", "Node", "node-a"),
            ("create", "Organization", "acme"),
        ]
        assert "node_runtime" in shown["touched"]["node-a"]
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []
        done = await at.apply(GOOD, based_on=shown["based_on"])
        assert done["changes"] == shown["changes"]
        assert await refusal(at.apply(GOOD, based_on=shown["based_on"])) == "concurrent_update"
        kept = await at.ask("GET", "/v1/resources")
        assert [each["id"] for each in kept["resources"]] == ["node-a", "acme"]
        pruned = await at.apply("{kind: Organization, id: acme}", prune=True)
        assert [each["verb"] for each in pruned["changes"]] == ["delete"]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The files, at each time that they are read."""
    seen = []
    read = resources.read

    def watched(texts: dict[str, str], shapes: Shapes) -> object:
        seen.append(texts)
        return read(texts, shapes)

    monkeypatch.setattr(resources, "read", watched)
    return seen


async def test_files_are_read_once_for_a_plan_and_its_execution(founded: Founded, readings: list) -> None:
    """rules H38: and again where anything is wrong with them, so that it has its line"""
    async with running(founded) as at:
        shown = await at.apply(GOOD, dry_run=True)
        done = await at.apply(GOOD, based_on=shown["based_on"])
        assert done["changes"] == shown["changes"]
        assert len(readings) == 1
        two = GOOD + "---\n{kind: Node, id: node-b, spec: {}}\n"
        shown = await at.apply(two, dry_run=True)
        assert len(readings) == 2
        await at.ask("POST", "/v1/allowlist/node-b", {"kind": "witness"})
        answer = await refused_apply(at, two)
        assert [(each["line"], each["field"]) for each in answer["problems"]] == [(6, "spec.kind")]
        assert len(readings) == 3
        await at.ask("DELETE", "/v1/allowlist/node-b")
        await at.apply(two, based_on=shown["based_on"])
        assert await refusal(at.apply(two, based_on=shown["based_on"])) == "concurrent_update"
        assert len((await at.ask("GET", "/v1/resources"))["resources"]) == 3


async def test_reading_files_holds_up_no_report(founded: Founded, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules K30: what nodes report and others change is written beside it"""
    began, go_on = threading.Event(), threading.Event()
    read = resources.read

    def slow(texts: dict[str, str], shapes: Shapes) -> object:
        began.set()
        assert go_on.wait(120)
        return read(texts, shapes)

    async with running(founded) as at, trio.open_nursery() as nursery:
        node = await at.admit("node-a")
        monkeypatch.setattr(resources, "read", slow)
        nursery.start_soon(at.apply, GOOD)
        await trio.to_thread.run_sync(began.wait)
        try:
            await node.report(reports.body("node-a", {}))
            await at.ask("POST", "/v1/allowlist/node-b", {})
        finally:
            go_on.set()


async def test_a_large_body_is_read_beside_everybody_else(founded: Founded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed on the loop it would hold up every node for as long as it takes."""
    where: list[bool] = []
    parse = ApplyRequest.parse

    def watched(data: bytes, most: int) -> ApplyRequest:
        where.append(threading.current_thread() is threading.main_thread())
        return parse(data, most)

    monkeypatch.setattr(ApplyRequest, "parse", watched)
    async with running(founded) as at:
        await at.apply(GOOD)
        await at.apply(GOOD + "# " + "x" * operator_route.AT_ONCE_BYTES)
    assert where == [True, False]


async def test_what_is_wrong_in_a_file_is_named_with_its_line_and_remedy(founded: Founded) -> None:
    """rules S69, S78: everything at once, and no secret in any answer."""
    async with running(founded) as at:
        two = "kind: Node\nid: n\nspec: {rolls: [x]}\n---\nkind: Service\nid: s\nspec: {organization: no}"
        answer = await refused_apply(at, two)
        assert answer["code"] == "invalid_resources" and len(answer["problems"]) >= 2
        answer = await refused_apply(at, "kind: Node\nid: n\nspec: {labels: {password: hunter2}}")
        (problem,) = answer["problems"]
        assert (problem["file"], problem["line"]) == ("state.yaml", 3)
        assert "secret_ref" in problem["remedy"] and "hunter2" not in json.dumps(answer)
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ("{password: {secret_ref: nocolon}}", "spec.settings.password"),
        ("{ports: {8080: {password: x}}}", "spec.settings.ports.8080.password"),
        ("{a: \x7f}", "(document)"),
    ],
)
async def test_nothing_declared_is_a_fault_of_ours(founded: Founded, settings: str, field: str) -> None:
    """rules S69: a wrong reference, a name of digits, a character that no YAML holds."""
    async with running(founded) as at:
        answer = await refused_apply(at, f"{{kind: Service, id: s, spec: {{settings: {settings}}}}}")
        assert field in [problem["field"] for problem in answer["problems"]]
        assert (await at.apply(GOOD))["outcome"] == "applied"


@pytest.mark.parametrize("text", ["\ud800", "\0"])
async def test_text_that_utf_8_cannot_spell_is_refused(founded: Founded, text: str) -> None:
    """rules K53: in a file, and in its name."""
    async with running(founded) as at:
        for files in ({"state.yaml": text}, {f"{text}.yaml": GOOD}):
            assert (await refused_files(at, files, 400))["code"] == "bad_request"
        assert (await at.apply(GOOD))["outcome"] == "applied"


async def refused_apply(at: Running, text: str, **more: object) -> dict:
    """The whole body of the refusal, as it is on the wire."""
    return await refused_files(at, {"state.yaml": text}, 422, **more)


async def refused_files(at: Running, files: dict[str, str], status: int, **more: object) -> dict:
    data = json.dumps({"files": files, **more}).encode()
    head = f"POST /v1/apply HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
    async with await trio.open_unix_socket(at.founded.socket) as stream:
        await stream.send_all(head.encode() + data)
        answer = b"".join([piece async for piece in stream])
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def test_the_own_client_reads_code_and_remedy_of_a_refusal(founded: Founded) -> None:
    """rules P10: also where the answer says more than code and message."""
    async with running(founded) as at:
        with pytest.raises(ClientError) as found:
            await at.apply("{kind: Node, id: UPPER, spec: {}}")
        assert (found.value.status, found.value.code) == (422, "invalid_resources")
        with pytest.raises(ClientError) as found:
            await at.ask("POST", "/v1/nodes/node-a/readmit", {"kind": "data"})
        assert (found.value.code, found.value.remedy) == ("not_found", "holdfastctl allow add node-a")


async def test_only_root_and_the_services_own_user_may_ask() -> None:
    """rules K51; threats U01: by what the kernel says."""

    async def answering(_request: Request) -> NodeNamed:
        return NodeNamed("n1")

    handler = operator_route.for_operators(answering)

    def request(peer) -> Request:
        return Request("GET", Target(("v1", "status"), b""), [], peer, None)

    for uid in (0, os.geteuid()):
        assert (await handler(request(UnixPeer(uid, frozenset(), 1)))).status == 200
    for peer in (UnixPeer(12345, frozenset({0}), 1), UnixPeer(65534, frozenset(), 1), AnonymousPeer("::1")):
        with pytest.raises(HttpError) as found:
            await handler(request(peer))
        assert found.value.code == "permission_denied"


async def test_the_socket_is_open_to_nobody_else(founded: Founded) -> None:
    async with running(founded):
        assert stat.S_IMODE(founded.socket.stat().st_mode) == 0o600
    assert not founded.socket.exists()


OUT_OF_FORM: list[tuple[str, str, object]] = [
    ("POST", "/v1/apply", {}),
    ("POST", "/v1/apply", {"files": {"a": 1}}),
    ("POST", "/v1/apply", {"files": {}, "force": True}),
    ("POST", "/v1/tokens", {"lifetime_s": 1}),
    ("POST", "/v1/nodes/node-a/revoke", {}),
    ("POST", "/v1/allowlist/node-a", {"certificate_sha256": "x"}),
    ("POST", "/v1/allowlist/node-a", {"kind": "queen"}),
    ("POST", "/v1/trust", {"document": "###"}),
    ("POST", "/v1/publish", {"to": "relative"}),
    ("POST", "/v1/revocations", {"category": "node_ids", "value": "node-a", "reason": "x"}),
    ("GET", "/v1/audit?most=0", None),
]


async def test_a_request_out_of_form_is_refused(founded: Founded) -> None:
    async with running(founded) as at:
        for method, path, body in OUT_OF_FORM:
            assert await refusal(at.ask(method, path, body)) == "bad_request", (path, body)


async def test_tokens_are_shown_once_listed_and_revoked(founded: Founded) -> None:
    """rules K25, K26"""
    async with running(founded) as at:
        await at.ask("POST", "/v1/allowlist/node-a", {})
        issued = await at.ask("POST", "/v1/tokens", {"node_id": "node-a", "lifetime_s": 600})
        listed = (await at.ask("GET", "/v1/tokens"))["tokens"]
        assert [each["jti"] for each in listed] == [issued["jti"]]
        assert issued["token"] not in json.dumps([listed, await at.ask("GET", "/v1/audit")])
        await at.ask("DELETE", f"/v1/tokens/{issued['jti']}")
        assert await refusal(TlsNode(at, "node-a").join(issued["token"])) == "token_revoked"


async def test_the_allowlist(founded: Founded) -> None:
    """rules J17, J5"""
    async with running(founded) as at:
        await at.ask("POST", "/v1/allowlist/node-a", {"kind": "witness"})
        assert [(each["node_id"], each["kind"]) for each in (await at.ask("GET", "/v1/allowlist"))["entries"]] == [
            ("node-a", "witness")
        ]
        await at.ask("DELETE", "/v1/allowlist/node-a")
        assert await refusal(at.ask("DELETE", "/v1/allowlist/node-a")) == "not_found"
        assert await refusal(TlsNode(at, "node-a").join(await at.token())) == "unauthorized_peer"


async def test_why_a_node_is_told_what_it_is_told(founded: Founded) -> None:
    async with running(founded) as at:
        await at.admit("node-a")
        await at.apply(GOOD)
        scopes = {each["scope"]: each for each in (await at.ask("GET", "/v1/nodes/node-a/explain"))["scopes"]}
        assert scopes["qos_policy"]["because"] == "granted by the role core_mesh"
        assert not scopes["service_assignment"]["may_hold"]
        assert "egress_service, ingress" not in scopes["qos_policy"]["because"]
        assert "ingress" in scopes["service_assignment"]["because"]
        assert scopes["node_bootstrap"]["published"]["config_version"] >= 1
        assert await refusal(at.ask("GET", "/v1/nodes/stranger/explain")) == "not_found"


async def test_one_scope_of_a_node_in_whole(founded: Founded) -> None:
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await at.declare(GOOD)
        while follower.holder.roles != {"core_mesh"}:
            await follower.sync(wait=10)
        path = "/v1/nodes/node-a/explain/node_runtime"
        told = await at.ask("GET", path)
        mark = follower.holder.marks["node_runtime"]
        assert told["published"]["config_version"] == mark.config_version
        assert told["published"]["content_hash"] == mark.content_hash
        assert told["published"]["signers"][0]["status"] == "active"
        assert told["sections"][0]["value"]["roles"] == ["core_mesh"]
        sources = {each["entry"]: each["sources"] for each in told["entries"]}
        assert sources["roles"] == [{"kind": "Node", "id": "node-a", "declared_in": "state.yaml:4"}]
        assert told["holders"]["standing"] == "unheard"
        assert await at.ask("GET", f"{path}?section=node") == told
        assert len((await at.ask("GET", f"{path}?most=2"))["entries"]) == 2
        for wrong, code in (
            (f"{path}?section=nothing", "not_found"),
            ("/v1/nodes/node-a/explain/head", "not_found"),
            ("/v1/nodes/stranger/explain/node_runtime", "not_found"),
            (f"{path}?most=1001", "bad_request"),
        ):
            assert await refusal(at.ask("GET", wrong)) == code
        assert await at.ask("GET", path) == told


async def test_the_difference_between_declared_and_published_is_empty_in_the_end(founded: Founded) -> None:
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await at.declare(GOOD)
        while follower.holder.roles != {"core_mesh"}:
            await follower.sync(wait=10)
        assert await at.ask("GET", "/v1/diff") == {"nodes": {}, "held_back": {}}
        assert await at.ask("GET", "/v1/diff?node=node-a") == {"nodes": {}, "held_back": {}}


async def test_revocations_reach_the_next_head(founded: Founded) -> None:
    """rules S61, K54: a service, an endpoint, a role assignment; taken back by the operator alone."""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        for category, value in (
            ("service_ids", "web"),
            ("endpoints", "https://old.example:8443"),
            ("role_assignments", "node-a/core_mesh"),
        ):
            body = {"category": category, "value": value, "reason": "test"}
            assert await refusal(at.ask("POST", "/v1/revocations", body)) == "not_found"
            await at.ask("POST", "/v1/revocations", {**body, "unknown": True})
        while follower.holder.revocations.version < 3:
            await follower.sync(wait=10)
        assert follower.holder.revocations.endpoints == {"https://old.example:8443"}
        listed = await at.ask("GET", "/v1/revocations")
        assert listed["service_ids"] == ["web"]
        await at.ask("DELETE", "/v1/revocations/endpoints/https:%2F%2Fold.example:8443")
        while follower.holder.revocations.endpoints:
            await follower.sync(wait=10)


async def test_who_did_what_stands_in_the_audit_log(founded: Founded) -> None:
    """protocol 2"""
    async with running(founded) as at:
        await at.apply(GOOD)
        entries = (await at.ask("GET", "/v1/audit?most=3"))["entries"]
        assert len(entries) == 3
        assert {each["actor"] for each in entries} <= {f"uid:{os.geteuid()}", "coordinator"}
        older = (await at.ask("GET", f"/v1/audit?before={entries[-1]['audit_id']}"))["entries"]
        assert all(each["audit_id"] < entries[-1]["audit_id"] for each in older)


async def test_the_tree_is_written_where_the_operator_says(founded: Founded, tmp_path: Path) -> None:
    async with running(founded) as at:
        await at.admit("node-a")
        written = await at.ask("POST", "/v1/publish", {"to": f"{tmp_path}/tree"})
        assert written["new"] == 5
        assert (tmp_path / "tree" / "heads" / published_tree.name_of("node-a")).exists()


async def test_status_and_keys_say_how_it_stands(founded: Founded) -> None:
    async with running(founded) as at:
        await at.admit("node-a")
        status = await at.ask("GET", "/v1/status")
        assert status["cluster_id"] == "prod" and status["trust_bundle"]["config_version"] == 1
        assert status["publishing"] == {"behind": 0, "conflicts": 0, "failed": {}, "fault": ""}
        (key,) = (await at.ask("GET", "/v1/keys"))["keys"]
        assert key["key_id"] == founded.config.key_id and set(key["faults"].values()) == {None}


async def test_that_the_database_was_put_back_is_said_as_soon_as_it_knows(founded: Founded) -> None:
    """rules K41: another replica may have found it, or have ended it; the next look at the database is seconds away"""
    async with running(founded) as at:
        database = at.daemon.coordinator.database
        for epoch, words in ((1, "restored from an old backup"), (None, "")):
            set_restored(database, epoch)
            for path in ("/v1/fleet", "/v1/status"):
                said = (await at.ask("GET", path))["restored_backup"]
                assert (words in said) if words else (said == ""), (path, said)

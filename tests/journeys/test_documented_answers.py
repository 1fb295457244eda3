"""What both daemons really answer is what docs/openapi-*.yaml say: no member more, none less."""

import base64
import hashlib
import http.client
import json
import socket
import time
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jsonschema import Draft202012Validator

from coordinator.configs import part_bodies
from tests.citations import ROOT
from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import Gateway, declare
from wire.certificate import make_authority, make_identity


class Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self.path))


class Documented:
    """An interface, and each of its answers held against its page."""

    def __init__(self, page: str, path: Path) -> None:
        self.document = yaml.load((ROOT / f"docs/openapi-{page}.yaml").read_text(), Loader=yaml.CSafeLoader)
        self.path = path
        self.asked: set[tuple[str, str]] = set()

    def ask(self, method: str, template: str, body: object = None, query: str = "", **parameters: str) -> object:
        """The answer's value; the operation, its status, its headers and its schema are on the page."""
        operation = self.document["paths"][template][method.lower()]
        connection = Unix(self.path)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        content = operation.get("requestBody", {}).get("content", {})
        headers = {"Content-Type": next(iter(content))} if isinstance(body, bytes) else {}
        connection.request(method, template.format(**parameters) + query, data, headers)
        answer = connection.getresponse()
        raw = answer.read()
        connection.close()
        self.asked.add((method, template))
        described = operation["responses"].get(str(answer.status))
        assert described is not None, (template, answer.status, raw)
        described = self._resolved(described)
        assert [name for name in described.get("headers", {}) if answer.headers[name] is None] == []
        content = described.get("content", {})
        if not content:
            assert raw == b""
            return None
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in content
        if kind != "application/json":
            return raw
        value = json.loads(raw)
        self.judge(content[kind]["schema"], value)
        return value

    def judge(self, schema: dict, value: object) -> None:
        whole = {**schema, "components": self.document["components"]}
        assert [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(value)] == []

    def unasked(self, *, but: set[tuple[str, str]]) -> set[tuple[str, str]]:
        paths = self.document["paths"].items()
        return {(method.upper(), path) for path, methods in paths for method in methods} - self.asked - but

    def _resolved(self, described: dict) -> dict:
        name = described.get("$ref", "").rpartition("/")[2]
        return self.document["components"]["responses"][name] if name else described


@pytest.fixture
def node(lab: Lab, gateway: Gateway) -> Gateway:
    """A member whose configuration is active, and whose first heartbeats are on record."""
    declare(lab, 8081)
    lab.good("allow", "add", "gateway")
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    gateway.start()
    gateway.until(lambda: gateway.status["state"] == "active")
    gateway.until(lambda: lab.ctl("fleet", "--json").status == 0)
    return gateway


CONFIG = "kind: Config\nid: edge\nspec: {to: {nodes: [gateway]}, files: {conf.d/motd: {text: hello}}}\n"


def test_what_the_agent_answers_is_what_its_page_says(lab: Lab, node: Gateway):
    """protocol.md 4"""
    api = Documented("local", node.folder / "run" / "agent.sock")
    (lab.folder / "edge.yaml").write_text(CONFIG)
    lab.good("apply", "-f", lab.folder / "edge.yaml", "--yes")
    node.until(lambda: "config/edge" in node.status["scopes"] and node.status["state"] == "active")
    status = api.ask("GET", "/v1/status")
    assert status["state"] == "active" and status["scopes"]
    listed = api.ask("GET", "/v1/scopes")["scopes"]
    for scope in listed:
        whole = api.ask("GET", "/v1/scopes/{scope}", scope=scope.replace("/", "%2F"))
        for name in whole["sections"]:
            api.ask("GET", "/v1/scopes/{scope}/sections/{name}", scope=scope.replace("/", "%2F"), name=name)
    api.ask("GET", "/v1/scopes/{scope}/rejections", scope="route_policy")
    api.ask("GET", "/v1/scopes/{scope}", scope="qos_policy%2Fnothing")
    api.ask("GET", "/v1/scopes/{scope}", scope="route_policy", query="?slot=elsewhere")
    services = api.ask("GET", "/v1/services")["services"]
    for service_id in services:
        assert api.ask("GET", "/v1/services/{id}", id=service_id)
    assert services and api.ask("GET", "/v1/services/{id}", id="nobody")["code"] == "not_found"
    for route_id in api.ask("GET", "/v1/routes")["routes"]:
        assert api.ask("GET", "/v1/routes/{id}", id=route_id)
    assert api.ask("GET", "/v1/routes/{id}", id="nowhere")["code"] == "not_found"
    assert list(api.ask("GET", "/v1/config/{id}", id="edge")["files"]) == ["conf.d/motd"]
    assert api.ask("GET", "/v1/config/{id}", id="nowhere")["code"] == "not_found"
    assert api.ask("GET", "/v1/config/{id}/{path}", id="edge", path="conf.d/motd") == b"hello"
    assert api.ask("GET", "/v1/config/{id}/{path}", id="edge", path="nothing")["code"] == "not_found"
    api.ask("GET", "/v1/watch", query="?after=0&wait=1")
    api.ask("GET", "/v1/watch", query=f"?after={status['generation']}&wait=0")
    yes = api.ask("POST", "/v1/may", {"action": "report_degraded"})
    no = api.ask("POST", "/v1/may", {"action": "assign_role"})
    assert (yes["allowed"], no["allowed"], no["reason"]) == (True, False, "forbidden_in_degraded")
    api.ask("POST", "/v1/may", {"action": 1})
    assert api.ask("POST", "/v1/import", b"\x94no document")["code"] == "bad_container"
    roots = {name: status["roots"][name] for name in ("root_key_ids", "root_threshold")}
    assert api.ask("POST", "/v1/trust/confirm", roots)["outcome"] == "already_confirmed"
    assert api.ask("POST", "/v1/trust/confirm", {**roots, "root_threshold": 1})["code"] == "other_roots"
    assert api.ask("GET", "/v1/quarantine") == {"quarantine": []}
    assert api.ask("POST", "/v1/quarantine/clear", {"scope": "route_policy"}) == {"quarantine": []}
    assert api.ask("POST", "/v1/quarantine/clear", {"scope": "../x"})["code"] == "bad_request"
    for probe in ("startup", "liveness", "readiness"):
        api.ask("GET", f"/probe/{probe}")
    api.ask("GET", "/metrics")
    assert api.unasked(but=set()) == set()


def test_what_the_coordinator_answers_its_operators_is_what_its_page_says(lab: Lab, node: Gateway):
    """protocol.md 2"""
    api = Documented("admin", lab.socket)
    files = {"fabric.yaml": (lab.folder / "fabric.yaml").read_text()}
    assert api.ask("POST", "/v1/apply", {"files": files, "dry_run": True})["outcome"] == "planned"
    assert api.ask("POST", "/v1/apply", {"files": {"a.yaml": "kind: Nothing\nid: x\n"}})["problems"]
    for path in ("resources", "diff", "nodes", "allowlist", "tokens", "fleet", "audit", "status", "keys", "trust"):
        api.ask("GET", f"/v1/{path}")
    for path in ("revocations", "rotation", "due"):
        api.ask("GET", f"/v1/{path}")
    api.ask("GET", "/v1/drill/outage", query="?lasts_s=3600")
    api.ask("GET", "/v1/invitation")
    api.ask("GET", "/v1/resources/{kind}/{id}", kind="Node", id="gateway")
    api.ask("GET", "/v1/nodes/{node_id}", node_id="gateway")
    api.ask("GET", "/v1/nodes/{node_id}", node_id="nobody")
    scopes = api.ask("GET", "/v1/nodes/{node_id}/explain", node_id="gateway")["scopes"]
    for each in scopes:
        path = "/v1/nodes/{node_id}/explain/{scope}"
        told = api.ask("GET", path, node_id="gateway", scope=each["scope"].replace("/", "%2F"))
        assert (told["published"] is not None) == each["may_hold"]
    assert api.ask("GET", "/v1/nodes/{node_id}/events", node_id="gateway")["events"]
    certificate = base64.b64encode(make_identity("alice", time.time()).der).decode()
    api.ask("POST", "/v1/operators/{name}", {"certificate": certificate}, name="alice")
    assert len(api.ask("GET", "/v1/operators")["operators"]) == 1
    assert api.ask("POST", "/v1/operators/{name}/role", {"role": "viewer"}, name="alice")["role"] == "viewer"
    assert api.ask("POST", "/v1/operators/{name}/role", {"role": "king"}, name="alice")["code"] == "bad_request"
    assert api.ask("POST", "/v1/operators/{name}/role", {"role": "viewer"}, name="nobody")["code"] == "not_found"
    api.ask("DELETE", "/v1/operators/{name}", name="alice")
    changes = api.ask("GET", "/v1/changes")["changes"]
    assert [each["change"] for each in changes] == ["c-1"] and changes[0]["state"] == "done"
    assert api.ask("GET", "/v1/changes/{change}", change="c-1")["timeline"]
    assert api.ask("GET", "/v1/changes/{change}", change="c-9")["code"] == "not_found"
    assert api.ask("GET", "/v1/changes/{change}/diff", change="c-1")["changes"]
    assert api.ask("GET", "/v1/changes/{change}/wait", change="c-1")["mark"]
    said = {"halt": {"reason": "x"}, "resume": {"reason": "x"}, "approve": {"plan_hash": changes[0]["plan_hash"]}}
    for verb, body in said.items():
        assert api.ask("POST", f"/v1/changes/{{change}}/{verb}", body, change="c-1")["code"] == "conflict"
    assert api.ask("POST", "/v1/changes/{change}/revert", {}, change="c-9")["code"] == "not_found"
    answering = api.ask("GET", "/v1/coordinators")["answering"]
    assert api.ask("DELETE", "/v1/coordinators/{coordinator_id}", coordinator_id=answering)["code"] == "in_use"
    assert api.ask("DELETE", "/v1/coordinators/{coordinator_id}", coordinator_id="gone")["code"] == "not_found"
    api.ask("GET", "/v1/nodes/{node_id}/versions/{scope}", node_id="gateway", scope="route_policy")
    api.ask("POST", "/v1/allowlist/{node_id}", {"kind": "data"}, node_id="other")
    token = api.ask("POST", "/v1/tokens", {"node_id": "other"})
    api.ask("DELETE", "/v1/tokens/{jti}", jti=token["jti"])
    api.ask("DELETE", "/v1/allowlist/{node_id}", node_id="other")
    revoked = {"category": "endpoints", "value": "https://old.example:443", "reason": "gone"}
    assert api.ask("POST", "/v1/revocations", revoked)["code"] == "not_found"
    api.ask("POST", "/v1/revocations", {**revoked, "unknown": True})
    path = "/v1/revocations/{category}/{value}"
    api.ask("DELETE", path, category="endpoints", value="https:%2F%2Fold.example:443")
    assert api.ask("POST", "/v1/trust/requests", {})["request"]
    asked = {"node_id": "gateway", "scope": "route_policy", "to_config_version": 99}
    assert api.ask("POST", "/v1/recoveries/requests", asked)["code"]
    assert api.ask("POST", "/v1/trust", {"document": "AAAA"})["code"]
    assert api.ask("POST", "/v1/recoveries", {"document": "AAAA"})["code"]
    part = b"a part of a declared file"
    sha256 = hashlib.sha256(part).hexdigest()
    assert api.ask("POST", "/v1/contents/missing", {"sha256": [sha256]})["missing"] == [sha256]
    assert api.ask("PUT", "/v1/contents/{sha256}", part, sha256=sha256) == {"sha256": sha256}
    assert api.ask("PUT", "/v1/contents/{sha256}", b"another", sha256=sha256)["code"] == "bad_request"
    ((many, _),) = part_bodies.join([part, b"and one more"])
    assert api.ask("POST", "/v1/contents", many) == {"parts": 2}
    (lab.folder / "tree").mkdir()
    assert api.ask("POST", "/v1/publish", {"to": str(lab.folder / "tree")})["new"] > 0
    (mine,) = api.ask("GET", "/v1/coordinators/status")["coordinators"]
    assert mine["coordinator_id"] == "coordinator-1"
    der = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    wanted = {
        "coordinators": {"coordinator-1": ""},
        "algorithm": "ed25519",
        "public_key": base64.b64encode(der).decode(),
    }
    assert api.ask("GET", "/v1/storage")["stores"] == []
    assert api.ask("GET", "/v1/coordinators/recover")["lacks"] == ""
    brought = {"owner": "alice", "manifest": "", "seed": "AAAA", "salt": "AAAA", "signature": "AAAA"}
    assert api.ask("POST", "/v1/coordinators/recover", brought)["code"] == "bad_request"
    assert api.ask("POST", "/v1/coordinators/shares", {})["code"] == "no_state"
    drafted = api.ask("POST", "/v1/coordinators/set", wanted)
    assert api.ask("POST", "/v1/coordinators/commit", {"set": drafted["request"]})["code"] == "not_found"
    assert api.ask("GET", "/v1/coordinators/ca")["authorities"] == []
    following = base64.b64encode(make_authority("the next", time.time()).der).decode()
    begun = api.ask("POST", "/v1/coordinators/ca/begin", {"certificate": following})
    assert [each["standing"] for each in begun["authorities"]] == ["current", "next"]
    assert api.ask("POST", "/v1/coordinators/ca/finish", {})["code"] == "ca_in_use"
    named = {"fingerprint": begun["authorities"][1]["fingerprint"]}
    assert api.ask("DELETE", "/v1/coordinators/ca/{fingerprint}", **named)["code"] == "ca_in_use"
    assert len(api.ask("POST", "/v1/coordinators/ca/cancel", {})["authorities"]) == 1
    page = api.ask("GET", "/v1/audit/verify")
    assert page["faults"] == [] and page["links"] > 0
    assert api.ask("GET", "/v1/audit/verify", query="?after=nowhere")["code"] == "bad_request"
    table = page["tables"][0]
    assert api.ask("GET", "/v1/audit/verify/{table}", table=table) == {"table": table, "fault": ""}
    assert api.ask("GET", "/v1/audit/verify/{table}", table="nothing")["code"] == "not_found"
    assert api.ask("GET", "/v1/trim")["due"] == []
    assert api.ask("POST", "/v1/trim", {"node_ids": ["gateway"]})["code"] == "contradiction"
    path = "/v1/nodes/{node_id}/remove"
    forced = {"document": "AAAA", "reason": "gone"}
    assert api.ask("POST", f"{path}/forced", forced, node_id="gateway")["code"] == "conflict"
    assert api.ask("POST", path, {"reason": "test"}, node_id="gateway")["code"] == "not_draining"
    assert api.ask("POST", "/v1/apply", {"files": {**files, "edge.yaml": CONFIG}})["outcome"] == "applied"
    assert api.ask("POST", "/v1/nodes/{node_id}/drain", {"reason": "moved"}, node_id="gateway")["since"]
    assert api.ask("POST", path, {"reason": "test"}, node_id="gateway")["code"] == "has_dependants"
    assert api.ask("POST", "/v1/nodes/{node_id}/undrain", {}, node_id="gateway") == {"node_id": "gateway"}
    assert api.ask("POST", "/v1/nodes/{node_id}/revoke", {"reason": "test"}, node_id="gateway")
    assert api.ask("POST", path, {"reason": "test"}, node_id="gateway")["code"] == "revoked"
    assert api.ask("POST", "/v1/nodes/{node_id}/readmit", {}, node_id="gateway")
    assert api.unasked(but=set()) == set()

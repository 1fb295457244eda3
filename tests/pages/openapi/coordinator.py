"""docs/openapi-coordinator.yaml: what nodes ask their coordinator over TLS, and its probes."""

from types import SimpleNamespace
from typing import Any

from coordinator.api.node_api import NodeApi
from coordinator.base.settings import CoordinatorSettings
from coordinator.runtime.metrics import ProbeRoutes
from tests.pages.openapi import Api
from tests.pages.openapi.parts import (
    BOOLEAN,
    COUNT,
    DOCUMENT,
    TEXT,
    VERSION,
    Operation,
    answer,
    body,
    closed,
    document,
    header,
    query,
    ref,
    several,
    shown,
)
from wire.forms import record
from wire.messages import Heartbeat, HeartbeatAnswer, JoinGrant, JoinNonce, JoinRequest, TrustList
from wire.routes import HttpRoute

ISSUER = shown(
    {
        "Holdfast-Coordinator": "The id of the replica that answers.",
        "Holdfast-Prove": "`head`: the caller holds more than is on record here. Send it by POST /v1/head.",
    }
)
TAG = shown({"ETag": "The document's id.", "Cache-Control": "A document never changes."})
KNOWN = header("If-None-Match", "The document that the caller holds.")

OPERATIONS = {
    ("GET", "/v1/join/nonce"): Operation(
        "A nonce for a join",
        {200: answer("Good once, for a minute.", ref("JoinNonce"))},
        (429, 503),
        description="On both listeners. A new node asks the one without client certificates.",
    ),
    ("POST", "/v1/join"): Operation(
        "Join, or renew the certificate of a member",
        {200: answer("The first documents: trust bundles, head, bootstrap.", ref("JoinGrant"))},
        (400, 403, 413, 429, 503),
        headers=(
            {
                **header("Holdfast-Proof", "Base64 of the certificate's signature over the body; see protocol.md 1."),
                "required": True,
            },
            header("Authorization", "`Bearer <token>`. Left out by a member that renews its certificate."),
        ),
        body=body(ref("JoinRequest")),
        description="A renewal goes over a connection that the old certificate authenticates.",
    ),
    ("GET", "/v1/head"): Operation(
        "The versions that this node should hold now",
        {
            200: document("A newer head than the one that the caller holds.", ISSUER),
            204: answer("None yet: the caller's stays right.", headers=ISSUER),
        },
        (400, 403, 503),
        query=(
            query("epoch", COUNT, "The authority epoch of the head that the caller holds; 0 for none."),
            query("generation", COUNT, "Its generation; 0 for none."),
            query("wait", {"type": "integer", "minimum": 0, "maximum": 300}, "Seconds to hold the request."),
            query("protocol", COUNT, "The version of the protocol; 1 where it is left out. Another: 400."),
            query("inline", COUNT, "Bytes of documents that the caller takes beside the head; 0 where it is left out."),
        ),
        description="A long poll. With `inline` the answer may be of type application/vnd.holdfast.documents: the head,"
        " and documents that it lists anew, each after its length (protocol.md 1). A revoked node is given the head"
        " that says so, and then 403.",
    ),
    ("POST", "/v1/head"): Operation(
        "Prove which head the node holds",
        {204: answer("It is on record.")},
        (400, 403, 413, 429, 503),
        body=body({"type": "string", "contentMediaType": DOCUMENT}, kind=DOCUMENT),
        description="Asked for by `Holdfast-Prove`. 503: the head proves that the database was restored.",
    ),
    ("GET", "/v1/documents/{snapshot_id}"): Operation(
        "A document that is for this node",
        {200: document("As it was signed.", TAG), 304: answer("The caller holds it.", headers=TAG)},
        (403, 404, 503),
        headers=(KNOWN,),
    ),
    ("GET", "/v1/increments/{scope}"): Operation(
        "The change of a scope from exactly one base",
        {200: document("As it was signed.", TAG), 304: answer("The caller holds it.", headers=TAG)},
        (400, 403, 404, 503),
        query=({**query("base", VERSION, "The version that is active at the caller."), "required": True},),
        headers=(KNOWN,),
        description="404: take the full document.",
    ),
    ("GET", "/v1/recoveries/{scope}"): Operation(
        "The permission to go back in this scope, if there is one",
        {200: document("As it was signed.", TAG), 304: answer("The caller holds it.", headers=TAG)},
        (403, 404, 503),
        headers=(KNOWN,),
    ),
    ("GET", "/v1/trust"): Operation(
        "The trust bundles after a version, in order",
        {200: answer("Containers in base64.", ref("TrustList"))},
        (400, 403, 503),
        query=(query("from", COUNT, "The bundle that the caller holds; 0 for none."),),
    ),
    ("POST", "/v1/heartbeat"): Operation(
        "What the node holds and how it is",
        {200: answer("What is on record for it; given after the commit.", ref("HeartbeatAnswer"))},
        (400, 403, 413, 429, 503),
        body=body(ref("Heartbeat")),
        description="A report; it never changes what is declared. At most 120 a minute of one node.",
    ),
    ("GET", "/probe/startup"): Operation("All listeners serve", {200: answer("Yes.", ref("Probe"))}, (503,)),
    ("GET", "/probe/liveness"): Operation("The process answers", {200: answer("Yes.", ref("Probe"))}),
    ("GET", "/probe/readiness"): Operation(
        "This replica serves nodes",
        {200: answer("Yes. `due`: what ends soon or has ended, a sentence each.", ref("Ready"))},
        (503,),
        description="503 says why not.",
    ),
    ("GET", "/metrics"): Operation("For Prometheus", {200: answer("Text exposition format.", TEXT, "text/plain")}),
}

DESCRIPTION = """\
What nodes ask, over TLS 1.3. Who asks is the pinned certificate of the connection, never a word of the request. A node
is given what is for it; everything else does not exist. Errors name a code alone: see reasons.md."""


def routes() -> tuple[HttpRoute, ...]:
    """The tables of the code, without a coordinator behind them."""
    coordinator: Any = SimpleNamespace(settings=CoordinatorSettings())
    fleet: Any = NodeApi(coordinator).fleet_routes()
    probes: Any = object.__new__(ProbeRoutes).routes()
    return tuple(
        route for table in (fleet, probes) for same_length in table._by_length.values() for route in same_length
    )


def joining() -> set[tuple[str, str]]:
    """What the listener for strangers answers."""
    coordinator: Any = SimpleNamespace(settings=CoordinatorSettings())
    table: Any = NodeApi(coordinator).join_routes()
    return {(route.method, route.template) for same in table._by_length.values() for route in same}


def api() -> Api:
    messages = (JoinNonce, JoinRequest, JoinGrant, TrustList, Heartbeat, HeartbeatAnswer)
    return Api(
        "Holdfast: coordinator, for nodes",
        DESCRIPTION,
        (
            {"url": "https://coordinator.example:7443", "description": "listen.fleet: pinned client certificates"},
            {"url": "https://coordinator.example:7444", "description": "listen.join: /v1/join and its nonce alone"},
            {"url": "http://127.0.0.1:9465", "description": "listen.probes: /probe and /metrics alone"},
        ),
        routes(),
        OPERATIONS,
        {
            **{each.__name__: dict(record(each).schema) for each in messages},
            "Probe": closed({"ok": BOOLEAN}),
            "Ready": closed({"ok": BOOLEAN, "due": several(TEXT)}),
        },
    )

"""docs/openapi-local.yaml: what a node's services ask on its Unix socket."""

from typing import Any

from agent.local.local_api import LocalApi
from tests.pages.openapi import Api
from tests.pages.openapi.parts import (
    ANYTHING,
    COUNT,
    TEXT,
    Operation,
    answer,
    body,
    closed,
    header,
    named,
    query,
    ref,
    schema_of,
    shown,
)
from wire.forms import SCOPE
from wire.local.local_answers import (
    ActiveScopes,
    ConfigFileList,
    ConfirmedRoots,
    Liveness,
    NodeReadiness,
    OfDocument,
    QuarantineList,
    RejectionList,
    RouteAnswer,
    ServiceAnswer,
    ServiceList,
    TakenDocument,
)
from wire.local.node_status import NodeStatus
from wire.messages import ClearQuarantine, ConfirmRoots, MayAnswer, MayRequest, WatchAnswer
from wire.routes import HttpRoute

NODE_HEADERS = {
    "Holdfast-Generation": "How often something was activated or withdrawn on this node.",
    "Holdfast-Grade": "`fresh`, `stale` (nobody confirms it any more) or `expired`.",
}
SCOPE_HEADERS = {
    **NODE_HEADERS,
    "Holdfast-Version": "The scope's `config_version`.",
    "Holdfast-Epoch": "Its authority epoch.",
    "Holdfast-Expires": "When its authority ends.",
    "Holdfast-Age": "Seconds since it was issued.",
    "ETag": "Of the content.",
}
SLOT = query("slot", {"enum": ["active", "previous", "pending"]}, "Which version; `active` unless said.")
EXPIRED = query("expired", {"enum": ["allow"]}, "Read an expired scope, where the configuration permits.")
KNOWN = header("If-None-Match", "The ETag that the caller holds: 304 if it is still right.")

WAIT = query(
    "wait",
    {"type": "integer", "minimum": 0, "maximum": 300},
    "With If-None-Match: seconds until the 304, unless it changes, goes or expires before; none unless said.",
)
READ: dict[str, Any] = {"query": (SLOT, EXPIRED, WAIT), "headers": (KNOWN,)}
STILL = answer("The caller's is still right.", headers=shown(SCOPE_HEADERS))

ROUTE = {"type": "object", "description": "A route of `route_policy`: resources.md."}
ALL_ROUTES = closed({"routes": named(ROUTE), **schema_of(OfDocument)["properties"]})

FILE_BYTES = {"type": "string", "contentMediaType": "application/octet-stream"}


def _section_bytes() -> dict[str, object]:
    """Canonical JSON; of a Config, the bytes of a part of one of its files."""
    of_json = answer("As they were signed, byte for byte.", ANYTHING, headers=shown(SCOPE_HEADERS))
    return {**of_json, "content": {**of_json["content"], "application/octet-stream": {"schema": FILE_BYTES}}}


SCOPE_ANSWER = closed(
    {
        "envelope": {"type": "object", "description": "The signed envelope: format.md 4."},
        "manifest": {"type": "object", "description": "The manifest: format.md 5."},
        "sections": named(ANYTHING),
    }
)

MESSAGES: dict[str, type] = {
    "Status": NodeStatus,
    "Scopes": ActiveScopes,
    "Service": ServiceAnswer,
    "WatchAnswer": WatchAnswer,
    "MayRequest": MayRequest,
    "ConfirmRoots": ConfirmRoots,
    "ConfirmedRoots": ConfirmedRoots,
    "MayAnswer": MayAnswer,
    "ClearQuarantine": ClearQuarantine,
    "Quarantine": QuarantineList,
    "Taken": TakenDocument,
    "Ready": NodeReadiness,
}
"""The schemas with a name of their own, each as the code reads and writes it."""

OPERATIONS = {
    ("GET", "/v1/status"): Operation(
        "What this node runs on, what confirms it, and what is amiss",
        {200: answer("For everyone who can connect.", ref("Status"), headers=shown(NODE_HEADERS))},
        (503,),
    ),
    ("GET", "/v1/scopes"): Operation(
        "The active scopes that the caller may read",
        {200: answer("By scope.", ref("Scopes"), headers=shown(NODE_HEADERS))},
        (403, 503),
    ),
    ("GET", "/v1/scopes/{scope}"): Operation(
        "A scope: its envelope, its manifest and all sections",
        {
            200: answer("One object, streamed.", ref("Scope"), headers=shown(SCOPE_HEADERS)),
            304: STILL,
        },
        (400, 403, 404, 410, 503),
        **READ,
    ),
    ("GET", "/v1/scopes/{scope}/sections/{name}"): Operation(
        "A section's bytes, as they were signed; by a map's name all its parts as one object",
        {
            200: _section_bytes(),
            304: STILL,
        },
        (400, 403, 404, 410, 503),
        **READ,
    ),
    ("GET", "/v1/services"): Operation(
        "The services that the caller may read",
        {
            200: answer(
                "By id.",
                schema_of(ServiceList),
                headers=shown(NODE_HEADERS),
            )
        },
        (403, 503),
    ),
    ("GET", "/v1/services/{id}"): Operation(
        "What this node knows of a service; null for what it is not told",
        {200: answer("The service.", ref("Service"), headers=shown(SCOPE_HEADERS)), 304: STILL},
        (400, 403, 404, 410, 503),
        **READ,
    ),
    ("GET", "/v1/routes"): Operation(
        "All routes, whatever parts they are signed in",
        {
            200: answer("By id, streamed.", ALL_ROUTES, headers=shown(SCOPE_HEADERS)),
            304: STILL,
        },
        (400, 403, 404, 410, 503),
        **READ,
    ),
    ("GET", "/v1/routes/{id}"): Operation(
        "A route",
        {200: answer("The route.", schema_of(RouteAnswer), headers=shown(SCOPE_HEADERS)), 304: STILL},
        (400, 403, 404, 410, 503),
        **READ,
    ),
    ("GET", "/v1/config/{id}"): Operation(
        "Which files a Config has",
        {
            200: answer("By path.", schema_of(ConfigFileList), headers=shown(SCOPE_HEADERS)),
            304: STILL,
        },
        (400, 403, 404, 410, 503),
        **READ,
        description="The ETag is that of all of them: it differs once any file does.",
    ),
    ("GET", "/v1/config/{id}/{path...}"): Operation(
        "A file of a Config: its bytes, as they were declared",
        {
            200: answer("All of it, streamed.", FILE_BYTES, "application/octet-stream", headers=shown(SCOPE_HEADERS)),
            206: answer("A range of it.", FILE_BYTES, "application/octet-stream", headers=shown(SCOPE_HEADERS)),
            304: STILL,
            416: answer("The file has no such bytes.", ref("Error")),
        },
        (400, 403, 404, 410, 503),
        query=(SLOT, EXPIRED, WAIT),
        headers=(KNOWN, header("Range", "One range of bytes.")),
        description="The path has up to 8 parts, each a segment of its own.",
    ),
    ("GET", "/v1/scopes/{scope}/rejections"): Operation(
        "What was refused in a scope, and what the verifier or a validator said",
        {200: answer("The newest first.", schema_of(RejectionList), headers=shown(NODE_HEADERS))},
        (403, 404, 503),
    ),
    ("GET", "/v1/watch"): Operation(
        "What has changed since a generation: a long poll, or a stream of events",
        {
            200: {
                **answer("The generation now, and what changed.", ref("WatchAnswer"), headers=shown(NODE_HEADERS)),
                "content": {
                    "application/json": {"schema": ref("WatchAnswer")},
                    "text/event-stream": {"schema": {**TEXT, "description": "One event each, `id` is the generation."}},
                },
            },
            204: answer("Nothing within the wait.", headers=shown(NODE_HEADERS)),
        },
        (400, 403),
        query=(
            query("after", COUNT, "The generation that the caller has seen; now, if it is left out."),
            query("scope", SCOPE.schema, "Only these scopes.", several=True),
            query("wait", {"type": "integer", "minimum": 0, "maximum": 300}, "Seconds; 55 unless said."),
        ),
        headers=(
            header("Accept", "`text/event-stream` for a stream."),
            header("Last-Event-ID", "The generation that a stream goes on from."),
        ),
        description="It may name more than has changed, never less. Contents are read by GET.",
    ),
    ("POST", "/v1/may"): Operation(
        "The one gate of degraded mode: may this be done, now?",
        {200: answer("Yes or no, why, and until when.", ref("MayAnswer"), headers=shown(NODE_HEADERS))},
        (400, 403),
        body=body(ref("MayRequest")),
        description="Actions and reasons: reasons.md.",
    ),
    ("POST", "/v1/trust/confirm"): Operation(
        "Somebody has compared the root keys of a first use",
        {200: answer("They are those that this node holds; it is kept.", ref("ConfirmedRoots"))},
        (400, 403, 409, 503),
        body=body(ref("ConfirmRoots")),
        description="root and the agent's own account alone. 409 `other_roots`: they are not, and nothing has changed.",
    ),
    ("GET", "/v1/quarantine"): Operation(
        "Content that failed its probation on this node",
        {200: answer("What is not activated again by itself, the oldest first.", ref("Quarantine"))},
        (403,),
        description="root and the agent's own account alone.",
    ),
    ("POST", "/v1/quarantine/clear"): Operation(
        "A person lets what failed be tried again",
        {200: answer("What was in quarantine of the scope, and is not any more.", ref("Quarantine"))},
        (400, 403, 503),
        body=body(ref("ClearQuarantine")),
        description="root and the agent's own account alone; the journal keeps who it was. What the head lists still "
        "is fetched at once, and on probation once more.",
    ),
    ("POST", "/v1/import"): Operation(
        "A document from another medium, through the same verification",
        {
            200: answer("What became of it.", ref("Taken")),
            422: answer("Refused; nothing changed. `step` of format.md 7.", ref("Error")),
        },
        (403, 409, 503),
        body=body(
            {"type": "string", "contentMediaType": "application/vnd.holdfast.document"},
            kind="application/vnd.holdfast.document",
        ),
        description="root and the agent's own account alone.",
    ),
    ("GET", "/probe/startup"): Operation("The event loop runs", {200: answer("Yes.", schema_of(Liveness))}),
    ("GET", "/probe/liveness"): Operation("The event loop runs", {200: answer("Yes.", schema_of(Liveness))}),
    ("GET", "/probe/readiness"): Operation(
        "Whether services may rely on this node",
        {200: answer("They may.", ref("Ready")), 503: answer("They may not; `cause` says why.", ref("Ready"))},
    ),
    ("GET", "/metrics"): Operation(
        "For Prometheus", {200: answer("Text exposition format.", TEXT, "text/plain")}, (503,)
    ),
}

DESCRIPTION = """\
What the services of a node ask their agent. Every answer says how much of it is confirmed: see the `Holdfast-` headers.
The caller is whom the kernel names (SO_PEERCRED). A scope that it may not read is answered as one that does not exist.
`curl --unix-socket /run/holdfast/agent.sock http://localhost/v1/status` works. HEAD is answered as GET."""


def _routes() -> tuple[HttpRoute, ...]:
    """The table of the code, without a node behind it."""
    empty: Any = object.__new__(LocalApi)
    empty.node = None
    table: Any = empty.routes()
    return tuple(route for same_length in table._by_length.values() for route in same_length)


def api() -> Api:
    return Api(
        "Holdfast: local API of the agent",
        DESCRIPTION,
        ({"url": "http://localhost", "description": "the Unix socket /run/holdfast/agent.sock"},),
        _routes(),
        OPERATIONS,
        {
            **{name: schema_of(message) for name, message in MESSAGES.items()},
            "Scope": SCOPE_ANSWER,
        },
    )

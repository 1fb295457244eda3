"""docs/openapi-admin.yaml: what operators ask the coordinator on its Unix socket."""

import importlib
import inspect
import pkgutil
from types import SimpleNamespace

import coordinator.api as package
from coordinator.api import admin_api, authority_api, ceremony_api, operator_api, resource_api
from coordinator.base.requests import BodyMember
from coordinator.database.audit_log import AuditEntry
from coordinator.database.documents import HeadEntry as BundleEntry
from coordinator.fleet import roster
from coordinator.fleet.drill import NodeOutage
from coordinator.fleet.explain import HoldingExplanation
from coordinator.fleet.explain_scope import MOST_ENTRIES, ScopeExplanation
from coordinator.fleet.fleet import MOST_NAMED, Fleet
from coordinator.fleet.roster import Listed, MemberDetail
from coordinator.keys.tokens import MOST_USES
from coordinator.membership.admission import AllowlistEntry, TokenEntry
from coordinator.membership.operators import Operator
from coordinator.membership.replicas import Replica
from coordinator.publishing.static_tree import Written
from coordinator.reports.events import ReportedEvent
from coordinator.trust.request_builder import PublishedVersion
from coordinator.trust.rotation import RotationStep
from snapshot.ending import Urgency
from tests.pages.openapi import Api
from tests.pages.openapi.parts import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    ENDING,
    NUMBER,
    TEXT,
    TIME,
    VERSION,
    Operation,
    Value,
    answer,
    body,
    closed,
    named,
    nullable,
    of,
    query,
    ref,
    several,
)
from wire.forms import HASH, IDENTIFIER, SCOPE
from wire.routes import HttpRoute

CHANGE_OF_A_SECTION = {"enum": ["set", "remove", "patch"]}
BASE64 = {"type": "string", "contentEncoding": "base64"}

CHANGE = closed(
    {
        "verb": {"enum": ["create", "change", "delete"]},
        "kind": TEXT,
        "id": IDENTIFIER.schema,
        "differences": several(closed({"path": TEXT, "before": ANYTHING, "after": ANYTHING})),
    }
)
PLAN = closed(
    {
        "outcome": {"enum": ["planned", "applied"]},
        "changes": several(CHANGE),
        "unchanged": COUNT,
        "touched": named(several(TEXT)),
        "based_on": TEXT,
        "lines": several(TEXT),
        "held_back": TEXT,
        "warnings": several(TEXT),
    }
)
PROBLEMS = closed(
    {
        "code": {"const": "invalid_resources"},
        "message": TEXT,
        "problems": several(closed({"file": TEXT, "line": COUNT, "field": TEXT, "message": TEXT, "remedy": TEXT})),
    }
)
REVOCATIONS = closed(
    {
        "version": COUNT,
        "key_ids": several(HASH.schema),
        "node_ids": several(IDENTIFIER.schema),
        "role_assignments": several(TEXT),
        "service_ids": several(TEXT),
        "endpoints": several(TEXT),
    }
)
STATUS = closed(
    {
        "cluster_id": IDENTIFIER.schema,
        "authority_epoch": VERSION,
        "revision": COUNT,
        "state_id": TEXT,
        "restored_backup": TEXT,
        "sites": named(COUNT),
        "trust_bundle": nullable(ref("TrustBundle")),
        "coordinator_id": IDENTIFIER.schema,
        "held_polls": COUNT,
        "alarms": named(COUNT),
        "certificate": closed({"sha256": HASH.schema, "expires_at": TEXT}),
        "publishing": closed({"fault": TEXT, "behind": COUNT, "conflicts": COUNT, "failed": named(named(TEXT))}),
        "due": several(ref("Ending")),
    }
)
ROTATION = closed(
    {
        "version": VERSION,
        "authority_epoch": VERSION,
        "expires_at": COUNT,
        "renew_at": COUNT,
        "thresholds": named(COUNT),
        "revocations": named(several(TEXT)),
        "keys": several({"$ref": "#/components/schemas/KeyStep"}),
    }
)
KEY = closed(
    {
        "key_id": HASH.schema,
        "algorithm": {"enum": ["ed25519", "rsa-pss-sha256"]},
        "faults": named(nullable(TEXT)),
    }
)
ENTRY_BODY = closed({}, kind={"enum": ["data", "witness"]}, site_id=IDENTIFIER.schema, certificate_sha256=HASH.schema)
REASON_BODY = closed({"reason": {"type": "string", "minLength": 1, "maxLength": 256}})
REQUEST = closed(
    {"about": TEXT, "changes": several(TEXT), "request": TEXT},
    reports=several(closed({"node_id": IDENTIFIER.schema, "version": VERSION})),
)

BODIES: dict[tuple[str, str], tuple[dict[str, BodyMember], Value]] = {
    ("POST", "/v1/apply"): (
        admin_api._APPLY,
        closed({"files": named(TEXT)}, prune=BOOLEAN, drop_endpoints=BOOLEAN, dry_run=BOOLEAN, based_on=TEXT),
    ),
    ("POST", "/v1/nodes/{node_id}/revoke"): (admin_api._REASON, REASON_BODY),
    ("POST", "/v1/nodes/{node_id}/remove"): (admin_api._REASON, REASON_BODY),
    ("POST", "/v1/nodes/{node_id}/readmit"): (admin_api._ENTRY, ENTRY_BODY),
    ("POST", "/v1/allowlist/{node_id}"): (admin_api._ENTRY, ENTRY_BODY),
    ("POST", "/v1/tokens"): (
        admin_api._TOKEN,
        closed(
            {},
            node_id=IDENTIFIER.schema,
            site_id=IDENTIFIER.schema,
            lifetime_s=VERSION,
            uses={"type": "integer", "minimum": 1, "maximum": MOST_USES},
            nodes={"type": "string", "maxLength": 64, "pattern": "[*]$"},
        ),
    ),
    ("POST", "/v1/trust"): (authority_api._BUNDLE, closed({"document": BASE64}, despite_reports=BOOLEAN)),
    ("POST", "/v1/recoveries"): (authority_api._DOCUMENT, closed({"document": BASE64})),
    ("POST", "/v1/revocations"): (
        authority_api._REVOCATION,
        closed(
            {
                "category": {"enum": ["key_ids", "role_assignments", "service_ids", "endpoints"]},
                "value": {"type": "string", "maxLength": 320},
                "reason": {"type": "string", "minLength": 1, "maxLength": 256},
            },
            unknown=BOOLEAN,
        ),
    ),
    ("POST", "/v1/operators/{name}"): (operator_api._CERTIFICATE, closed({"certificate": BASE64})),
    ("POST", "/v1/publish"): (authority_api._PUBLISH, closed({"to": {"type": "string", "pattern": "^/"}})),
    ("POST", "/v1/trust/requests"): (
        ceremony_api._WISHES,
        closed(
            {},
            wishes=several({"type": "object", "required": ["wish"], "properties": {"wish": TEXT}}),
            despite_reports=BOOLEAN,
        ),
    ),
    ("POST", "/v1/recoveries/requests"): (
        ceremony_api._RECOVERY,
        closed({"node_id": IDENTIFIER.schema, "scope": SCOPE.schema, "to_config_version": VERSION}),
    ),
}
"""What each body must be: the table that the code checks it by, and the schema. A test compares their members."""


def _asks(key: tuple[str, str]) -> Value:
    members, schema = BODIES[key]
    return body(schema, required=any(member.required for member in members.values()))


def _ok(about: str, schema: Value) -> dict[int, Value]:
    return {200: answer(about, schema)}


ID = closed({"node_id": IDENTIFIER.schema})
REVOKED = closed({"category": TEXT, "value": TEXT})


def _most(most: int, about: str) -> Value:
    return query("most", {"type": "integer", "minimum": 1, "maximum": most}, f"{about}; {most} unless said.")


RESOURCE = closed({"kind": TEXT, "id": IDENTIFIER.schema, "spec": {"type": "object"}})
SELECTION = (
    query("site", IDENTIFIER.schema, "Those of this site."),
    query("label", TEXT, "Those declared with this label, as `name=value`.", several=True),
    query("state", TEXT, "`unseen`, `silent`, `revoked`, or as a node says itself."),
)
BRIEF = query("brief", {"enum": ["true", "false"]}, "Without members that say what goes without saying.")

OPERATIONS = {
    ("POST", "/v1/apply"): Operation(
        "Show or carry out what declared files would change",
        {**_ok("The plan.", ref("Plan")), 422: answer("Wrong files; nothing was changed.", ref("Problems"))},
        (400, 403, 409, 413, 503),
        body=_asks(("POST", "/v1/apply")),
        description="With `based_on` of an earlier answer exactly that plan is carried out, or `concurrent_update`. An "
        "endpoint of a coordinator that members still need is `endpoint_in_use`, unless `drop_endpoints`.",
    ),
    ("GET", "/v1/resources"): Operation(
        "What is declared, in the order of kind and id",
        _ok("One page; `next` is null on the last.", closed({"resources": several(RESOURCE), "next": nullable(TEXT)})),
        (400, 403, 404, 503),
        query=(
            query("kind", TEXT, "Of this kind alone."),
            query("after", TEXT, "`KIND/ID`: those after it, as `next` of an earlier answer names it."),
            _most(resource_api.MOST, "How many at most"),
            BRIEF,
        ),
    ),
    ("GET", "/v1/resources/{kind}/{id}"): Operation(
        "One declared resource", _ok("As declared.", RESOURCE), (400, 403, 404, 503), query=(BRIEF,)
    ),
    ("GET", "/v1/diff"): Operation(
        "What is declared and not published yet",
        _ok("By node, scope and section.", closed({"nodes": named(named(named(CHANGE_OF_A_SECTION)))})),
        (403, 404, 503),
        query=(query("node", IDENTIFIER.schema, "Of one node; of all, if it is left out."),),
    ),
    ("GET", "/v1/nodes"): Operation(
        "Members, in the order of their ids",
        _ok(
            "Revoked ones, too. One page; `next` is null on the last.",
            closed({"nodes": several(ref("Node")), "next": nullable(IDENTIFIER.schema)}),
        ),
        (400, 403, 503),
        query=(
            *SELECTION,
            query("after", IDENTIFIER.schema, "Those after it, as `next` of an earlier answer names it."),
            _most(roster.MOST, "How many at most"),
        ),
    ),
    ("GET", "/v1/nodes/{node_id}"): Operation(
        "A member: what it is, what it holds, what it was like of late",
        _ok("From one consistent read.", ref("NodeInWhole")),
        (403, 404, 503),
    ),
    ("GET", "/v1/drill/outage"): Operation(
        "What members do in an outage that begins now",
        _ok(
            "Each foreseen by the gate that the nodes themselves ask; nothing is changed.",
            closed(
                {"began": NUMBER, "lasts_s": NUMBER, "restart_s": nullable(NUMBER), "nodes": several(of(NodeOutage))}
            ),
        ),
        (400, 403, 404, 503),
        query=(
            query("lasts_s", VERSION, "How long it lasts; a day unless said, 30 days at most."),
            query("restart_s", COUNT, "When each node is restarted, after its beginning; never unless said."),
            query("node", IDENTIFIER.schema, "Only these members.", several=True),
        ),
    ),
    ("GET", "/v1/nodes/{node_id}/explain"): Operation(
        "Why a node is told what it is told",
        _ok("By scope.", closed({"node_id": TEXT, "scopes": several(ref("Explanation"))})),
        (403, 404, 503),
    ),
    ("GET", "/v1/nodes/{node_id}/explain/{scope}"): Operation(
        "One scope of a node: rule, version, signers, value, sources, holders",
        _ok("From one consistent read.", ref("ScopeExplanation")),
        (400, 403, 404, 503),
        query=(
            query("section", TEXT, "Of one section alone: its value, however large."),
            query(
                "most",
                {"type": "integer", "minimum": 1, "maximum": admin_api.MOST_ENTRIES},
                f"So many entries; {MOST_ENTRIES} unless said.",
            ),
        ),
    ),
    ("POST", "/v1/nodes/{node_id}/revoke"): Operation(
        "Revoke a node", _ok("Done.", ID), (400, 403, 404, 503), body=_asks(("POST", "/v1/nodes/{node_id}/revoke"))
    ),
    ("POST", "/v1/nodes/{node_id}/remove"): Operation(
        "Let a node leave", _ok("Done.", ID), (400, 403, 404, 503), body=_asks(("POST", "/v1/nodes/{node_id}/remove"))
    ),
    ("POST", "/v1/nodes/{node_id}/readmit"): Operation(
        "Let a node come back",
        _ok("Its entry on the allowlist.", ref("Allowed")),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/nodes/{node_id}/readmit")),
    ),
    ("GET", "/v1/allowlist"): Operation(
        "Who may join", _ok("Entries.", closed({"entries": several(ref("Allowed"))})), (403, 503)
    ),
    ("POST", "/v1/allowlist/{node_id}"): Operation(
        "Let a node join",
        _ok("The entry.", ref("Allowed")),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/allowlist/{node_id}")),
    ),
    ("DELETE", "/v1/allowlist/{node_id}"): Operation(
        "Take an entry back", _ok("A member stays one.", ID), (403, 404, 503)
    ),
    ("GET", "/v1/tokens"): Operation(
        "Join tokens, without their text", _ok("Entries.", closed({"tokens": several(ref("Token"))})), (403, 503)
    ),
    ("POST", "/v1/tokens"): Operation(
        "Make a join token",
        _ok(
            "The one time that its text is shown.",
            closed(
                {
                    "token": TEXT,
                    "jti": TEXT,
                    "expires_at": COUNT,
                    "site_id": IDENTIFIER.schema,
                    "node_id": nullable(IDENTIFIER.schema),
                    "uses": VERSION,
                    "nodes": nullable(TEXT),
                },
            ),
        ),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/tokens")),
    ),
    ("GET", "/v1/invitation"): Operation(
        "What a node has to know before it can join",
        _ok(
            "With a token beside it this is a join file.",
            closed(
                {
                    "cluster_id": IDENTIFIER.schema,
                    "urls": several(TEXT),
                    "join_urls": several(TEXT),
                    "ca": nullable(TEXT),
                    "root_key_ids": several(HASH.schema),
                    "root_threshold": VERSION,
                }
            ),
        ),
        (403, 503),
    ),
    ("DELETE", "/v1/tokens/{jti}"): Operation(
        "Revoke a token", _ok("At once, everywhere.", closed({"jti": TEXT})), (403, 404, 503)
    ),
    ("GET", "/v1/fleet"): Operation(
        "How the fleet stands, or a part of it",
        _ok("At one time.", ref("Fleet")),
        (400, 403, 503),
        query=(
            *SELECTION,
            query("from", COUNT, "Without so many of the stragglers."),
            query(
                "most",
                {"type": "integer", "minimum": 1, "maximum": admin_api.MOST_ENTRIES},
                f"So many stragglers; {MOST_NAMED} unless said.",
            ),
        ),
    ),
    ("GET", "/v1/audit"): Operation(
        "Who changed what and when, the newest first",
        _ok("Entries.", closed({"entries": several(ref("Audit"))})),
        (400, 403, 503),
        query=(
            query("before", VERSION, "The audit id to page on from."),
            query("most", {"type": "integer", "minimum": 1}, "How many; 100 unless said."),
            query("action", TEXT, "Only these."),
        ),
    ),
    ("GET", "/v1/nodes/{node_id}/events"): Operation(
        "What a node has told of itself, the newest first",
        _ok("Events.", closed({"node_id": TEXT, "events": several(ref("Event"))})),
        (400, 403, 404, 503),
        query=(query("most", {"type": "integer", "minimum": 1}, "How many; 100 unless said."),),
    ),
    ("GET", "/v1/operators"): Operation(
        "Who may ask over TLS", _ok("Until when.", closed({"operators": several(ref("Operator"))})), (403, 503)
    ),
    ("POST", "/v1/operators/{name}"): Operation(
        "Let an operator in",
        _ok("The entry.", ref("Operator")),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/operators/{name}")),
        description="On the Unix socket alone. The certificate is DER in base64.",
    ),
    ("DELETE", "/v1/operators/{name}"): Operation(
        "Shut an operator out",
        _ok("Open connections end.", closed({"name": TEXT})),
        (403, 404, 503),
        description="On the Unix socket alone.",
    ),
    ("GET", "/v1/coordinators"): Operation(
        "The coordinators that share the database",
        _ok(
            "And which of them answers.",
            closed({"answering": IDENTIFIER.schema, "coordinators": several(ref("Replica"))}),
        ),
        (403, 503),
    ),
    ("DELETE", "/v1/coordinators/{coordinator_id}"): Operation(
        "Forget a coordinator that is gone",
        _ok("The join tokens that it has signed count no more.", closed({"coordinator_id": IDENTIFIER.schema})),
        (403, 404, 409, 503),
        description="Not the one that answers.",
    ),
    ("GET", "/v1/due"): Operation(
        "Everything that ends: when, what happens then, what renews it",
        _ok(
            "What ends first, first. `soon` and `ended` ask for somebody.",
            closed(
                {
                    "now": TIME,
                    "urgency": {"enum": list(map(str, Urgency))},
                    "things": several(ref("Ending")),
                    "members": closed({"certificates": COUNT, "first_ends": nullable(TIME)}),
                }
            ),
        ),
        (400, 403, 503),
        query=(
            query("within_s", COUNT, "What ends in so many seconds is `soon` as well, unless it renews itself."),
            query("all", {"enum": [0, 1]}, "1: each member's certificate."),
        ),
    ),
    ("GET", "/v1/status"): Operation("The coordinator", _ok("This replica.", ref("Status")), (403, 503)),
    ("GET", "/v1/keys"): Operation(
        "The config keys that this replica holds, for what each signs now, and where it looks for them",
        _ok("A fault says why not.", closed({"directory": TEXT, "keys": several(KEY)})),
        (403, 503),
    ),
    ("GET", "/v1/trust"): Operation(
        "Trust bundles, in order",
        _ok("Containers.", closed({"documents": several(BASE64)})),
        (400, 403, 503),
        query=(query("from", COUNT, "Those after this version."),),
    ),
    ("POST", "/v1/trust"): Operation(
        "Hand in the next trust bundle, as root keys have signed it",
        _ok("It holds.", closed({"version": VERSION, "authority_epoch": VERSION, "expires_at": TIME})),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/trust")),
    ),
    ("POST", "/v1/recoveries"): Operation(
        "Hand in a recovery, as root keys have signed it",
        _ok(
            "It holds.",
            closed({"node_id": TEXT, "scope": TEXT, "from_config_version": VERSION, "to_config_version": VERSION}),
        ),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/recoveries")),
    ),
    ("GET", "/v1/revocations"): Operation("What every head carries", _ok("Now.", ref("Revocations")), (403, 503)),
    ("POST", "/v1/revocations"): Operation(
        "Revoke a key, a role assignment, a service or an endpoint",
        _ok("Done.", REVOKED),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/revocations")),
        description="A name that nothing has is `not_found`, unless `unknown`: as of a service that is declared no "
        "longer. A word that is no role is `bad_request` in any case.",
    ),
    ("DELETE", "/v1/revocations/{category}/{value}"): Operation(
        "Take a revocation back", _ok("Done.", REVOKED), (403, 404, 409, 503)
    ),
    ("POST", "/v1/publish"): Operation(
        "Bring a directory up to what is published now",
        _ok("Files by what became of them.", ref("Written")),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/publish")),
    ),
    ("GET", "/v1/rotation"): Operation(
        "The present bundle, and what comes next for each key", _ok("With dates.", ref("Rotation")), (403, 503)
    ),
    ("GET", "/v1/nodes/{node_id}/versions/{scope}"): Operation(
        "The versions of a scope that were published for a node",
        _ok("The oldest first.", closed({"versions": several(ref("Version"))})),
        (403, 404, 503),
    ),
    ("POST", "/v1/trust/requests"): Operation(
        "Draft the next trust bundle for root keys to sign",
        _ok("Nothing is changed by asking.", ref("Request")),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/trust/requests")),
    ),
    ("POST", "/v1/recoveries/requests"): Operation(
        "Draft a recovery for root keys to sign",
        _ok("Nothing is changed by asking.", ref("Request")),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/recoveries/requests")),
    ),
}

DESCRIPTION = """\
What operators ask. On the Unix socket the kernel says who asks: root and the service's own user are answered. Every
change is one transaction and stands in the audit log. Errors name code, details and remedy: see reasons.md. Times
without a form are Unix seconds."""


def routes() -> tuple[HttpRoute, ...]:
    """The tables of the code, without a coordinator behind them: of every class there that has one."""
    found = []
    for module in pkgutil.iter_modules(package.__path__, "coordinator.api."):
        for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and name.endswith("Api") and hasattr(cls, "routes"):
                found += cls(*[SimpleNamespace() for _ in inspect.signature(cls).parameters]).routes()
    return tuple(found)


def api() -> Api:
    bundle = of(BundleEntry)
    bundle["properties"]["expires_at"] = TIME
    step = of(RotationStep)
    step["properties"]["is_due"] = BOOLEAN
    fleet = of(Fleet)
    fleet["properties"]["restored_backup"] = TEXT
    return Api(
        "Holdfast: coordinator, for operators",
        DESCRIPTION,
        (
            {
                "url": "http://localhost",
                "description": "the Unix socket /run/holdfast-coordinator/admin.sock",
            },
            {
                "url": "https://coordinator.example:7445",
                "description": "listen.admin: operators' own client certificates",
            },
        ),
        routes(),
        OPERATIONS,
        {
            "Plan": PLAN,
            "Problems": PROBLEMS,
            "Node": of(Listed),
            "NodeInWhole": of(MemberDetail),
            "Allowed": of(AllowlistEntry),
            "Token": of(TokenEntry),
            "Replica": of(Replica),
            "Explanation": of(HoldingExplanation),
            "ScopeExplanation": of(ScopeExplanation),
            "Fleet": fleet,
            "Audit": of(AuditEntry),
            "Event": of(ReportedEvent),
            "Operator": of(Operator),
            "Status": STATUS,
            "Ending": ENDING,
            "TrustBundle": bundle,
            "Revocations": REVOCATIONS,
            "Rotation": ROTATION,
            "KeyStep": step,
            "Version": of(PublishedVersion),
            "Written": of(Written),
            "Request": REQUEST,
        },
    )

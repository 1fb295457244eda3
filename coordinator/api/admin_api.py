"""What an operator asks about declared state, members and the fleet, on the Unix socket (protocol 2).

docs/admin-api.md describes each route. Every change is one transaction with an audit row that names who asked; after it
the publisher is woken, and the pin table follows.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TypeVar

from coordinator.api.operator_route import body_of, for_operators, parameter
from coordinator.api.roster_api import selection
from coordinator.base.requests import BodyMember, flag_in, is_text, text_in, texts_in
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_database, in_library
from coordinator.database import audit_log, catalog
from coordinator.declared import foresight
from coordinator.declared.model import Key
from coordinator.declared.plans import differences
from coordinator.declared.resources import Declared, InvalidResources
from coordinator.fleet import drill, explain, explain_scope, fleet
from coordinator.keys.tokens import MultiUse
from coordinator.membership import admission, revocation
from coordinator.publishing import declarations, proposals
from coordinator.publishing.declarations import ApplyPlan
from coordinator.reports import events
from coordinator.runtime.context import Coordinator
from coordinator.trust import restored_backup
from snapshot.identifiers import MAX_INTEGER, is_hash, is_id, is_integer
from snapshot.outage import Outage
from wire.request import Request, Response
from wire.routes import HttpRoute

APPLY_BYTES = 64 << 20
APPLY_S = 120.0
DAY = 86_400
MOST_ENTRIES = 1_000
Result = TypeVar("Result")

_BOOLEAN = BodyMember(lambda value: isinstance(value, bool), required=False)
_APPLY = {
    "files": BodyMember(
        lambda value: isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    ),
    "prune": _BOOLEAN,
    "drop_endpoints": _BOOLEAN,
    "dry_run": _BOOLEAN,
    "based_on": BodyMember(is_text(64), required=False),
}
_ENTRY = {
    "kind": BodyMember(is_text(64), required=False),
    "site_id": BodyMember(is_id, required=False),
    "certificate_sha256": BodyMember(is_hash, required=False),
}
_TOKEN = {
    "node_id": BodyMember(is_id, required=False),
    "site_id": BodyMember(is_id, required=False),
    "lifetime_s": BodyMember(is_integer, required=False),
    "uses": BodyMember(is_integer, required=False),
    "nodes": BodyMember(is_text(64), required=False),
}
_REASON = {"reason": BodyMember(is_text(256))}


@dataclass(frozen=True)
class _How:
    """An apply: as the request says it."""

    prune: bool
    drop_endpoints: bool
    dry_run: bool
    based_on: str | None


class AdminApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        def route(method: str, template: str, handler: Callable[..., object]) -> HttpRoute:
            return HttpRoute(method, template, for_operators(handler))  # type: ignore[arg-type]  # each is an Answering

        apply = HttpRoute("POST", "/v1/apply", for_operators(self.apply), body_bytes=APPLY_BYTES, deadline_s=APPLY_S)
        return (
            apply,
            route("GET", "/v1/diff", self.diff),
            route("GET", "/v1/drill/outage", self.drill_outage),
            route("GET", "/v1/nodes/{node_id}/explain", self.explain),
            route("GET", "/v1/nodes/{node_id}/explain/{scope}", self.explain_scope),
            route("GET", "/v1/nodes/{node_id}/events", self.events),
            route("POST", "/v1/nodes/{node_id}/revoke", self.revoke),
            route("POST", "/v1/nodes/{node_id}/remove", self.remove),
            route("POST", "/v1/nodes/{node_id}/readmit", self.readmit),
            route("GET", "/v1/allowlist", self.allowlist),
            route("POST", "/v1/allowlist/{node_id}", self.allow),
            route("DELETE", "/v1/allowlist/{node_id}", self.disallow),
            route("GET", "/v1/tokens", self.tokens),
            route("POST", "/v1/tokens", self.issue_token),
            route("DELETE", "/v1/tokens/{jti}", self.revoke_token),
            route("GET", "/v1/fleet", self.fleet),
            route("GET", "/v1/audit", self.audit),
        )

    # ---- declared state

    async def apply(self, request: Request) -> object:
        body = await body_of(request, _APPLY)
        how = _How(
            prune=flag_in(body, "prune"),
            drop_endpoints=flag_in(body, "drop_endpoints"),
            dry_run=flag_in(body, "dry_run"),
            based_on=text_in(body, "based_on") if "based_on" in body else None,
        )
        plan = await self._carried_out(request, texts_in(body, "files"), how)
        outcome = "planned" if how.dry_run else "applied"
        return await in_library(_told, plan, outcome, self._at.fault, self._at.settings)

    async def _carried_out(self, request: Request, files: Mapping[str, str], how: "_How") -> ApplyPlan:
        """Files are read beside what nodes report and what others change, and once for a plan and its execution."""
        known = await in_library(self._at.last_read.known, files)
        if known is not None:
            with suppress(InvalidResources):  # to be said with its lines
                return await self._made_so(request, known, how)
        return await self._made_so(request, await in_library(self._at.last_read.read, files), how)

    async def _made_so(self, request: Request, declared: Mapping[Key, Declared], how: "_How") -> ApplyPlan:
        """Worked out beside them, too: only what is left is written while they wait."""
        propose = partial(proposals.propose, prune=how.prune, based_on=how.based_on)
        proposal = await in_library(propose, self._at.database, declared)
        flags = {"drop_endpoints": how.drop_endpoints, "dry_run": how.dry_run, "based_on": how.based_on}
        return await self._change(declarations.carry_out, request, proposal, **flags)

    async def diff(self, request: Request) -> object:
        """What is declared and not published yet, for one node or for all."""
        node_id = request.query_one("node")
        wanted = [node_id] if node_id is not None else [each.node_id for each in await self._entries()]
        nodes = {}
        for each in wanted:
            explained = await in_library(explain.explain, self._at.database, each)
            nodes[each] = {one.scope: one.differs for one in explained if one.differs}
        return {"nodes": {each: scopes for each, scopes in nodes.items() if scopes}}

    async def drill_outage(self, request: Request) -> object:
        """What members do in an outage that begins now. Nothing is changed, and no node is asked."""
        restart_s = request.query_integer("restart_s", -1, 0, foresight.LONGEST_S)
        lasts_s = request.query_integer("lasts_s", DAY, 1, foresight.LONGEST_S)
        outage = Outage(int(self._at.now()), lasts_s, None if restart_s < 0 else restart_s)
        node_ids = request.query_all("node")
        nodes = await in_library(drill.drill, self._at.database, outage, node_ids, self._at.settings)
        return {**asdict(outage), "nodes": [asdict(each) for each in nodes]}

    # ---- nodes

    async def explain(self, request: Request) -> object:
        node_id = parameter(request, "node_id", is_id)
        scopes = await in_library(explain.explain, self._at.database, node_id)
        return {"node_id": node_id, "scopes": [asdict(each) for each in scopes]}

    async def explain_scope(self, request: Request) -> object:
        """One in whole; of one of its sections, where that is asked for."""
        node_id = parameter(request, "node_id", is_id)
        most = request.query_integer("most", explain_scope.MOST_ENTRIES, 1, MOST_ENTRIES)
        look = partial(explain_scope.explain_scope, section=request.query_one("section"), now=self._at.now(), most=most)
        return asdict(await in_library(look, self._at.database, node_id, request.parameters["scope"]))

    async def events(self, request: Request) -> object:
        """What the node has told of itself, the newest first."""
        node_id = parameter(request, "node_id", is_id)
        most = request.query_integer("most", 100, 1, events.MOST)
        rows = await in_library(events.read, self._at.database, node_id, most=most)
        return {"node_id": node_id, "events": [asdict(each) for each in rows]}

    async def revoke(self, request: Request) -> object:
        return await self._leave(request, revocation.revoke_node)

    async def remove(self, request: Request) -> object:
        return await self._leave(request, revocation.remove_node)

    async def readmit(self, request: Request) -> object:
        return await self._enter(request, revocation.readmit)

    # ---- who may join

    async def allowlist(self, _request: Request) -> object:
        entries = await in_library(admission.allowed, self._at.database)
        return {"entries": [asdict(each) for each in entries]}

    async def allow(self, request: Request) -> object:
        return await self._enter(request, admission.allow)

    async def disallow(self, request: Request) -> object:
        node_id = parameter(request, "node_id", is_id)
        await self._change(admission.disallow, request, node_id)
        return {"node_id": node_id}

    async def tokens(self, _request: Request) -> object:
        entries = await in_library(admission.list_tokens, self._at.database)
        return {"tokens": [asdict(each) for each in entries]}

    async def issue_token(self, request: Request) -> object:
        """The text is in this answer and nowhere else."""
        body = await body_of(request, _TOKEN)
        uses, nodes = body.pop("uses", 1), body.pop("nodes", None)
        given = {"lifetime_s": self._at.settings.token_lifetime_s, **body}
        given["several"] = MultiUse(uses, nodes)  # type: ignore[arg-type]  # closed above
        text, claims = await self._change(admission.issue_token, request, self._at.token_key, **given)
        about = {"jti": claims.jti, "expires_at": claims.expires_at, "uses": uses}
        return {"token": text, **about, "node_id": claims.node_id, "nodes": nodes, "site_id": claims.site_id}

    async def revoke_token(self, request: Request) -> object:
        jti = parameter(request, "jti", is_text(64))
        await self._change(admission.revoke_token, request, jti)
        return {"jti": jti}

    # ---- what is going on

    async def fleet(self, request: Request) -> object:
        """Of all members or of some, with one page of the stragglers."""
        at, now = self._at, self._at.now()
        first, most = (
            request.query_integer("from", 0, 0, MAX_INTEGER),
            request.query_integer("most", fleet.MOST_NAMED, 1, MOST_ENTRIES),
        )
        observe = partial(fleet.observe, now=now, settings=at.settings, since=now - DAY)
        named = slice(first, first + most)
        seen = await in_library(observe, at.database, which=selection(request), named=named)
        return {
            **asdict(seen),
            "restored_backup": await in_library(restored_backup.reason, at.database, at.standstill.behind),
        }

    async def audit(self, request: Request) -> object:
        """The newest first; `before` is the audit id to page on from."""
        before = request.query_integer("before", MAX_INTEGER, 1, MAX_INTEGER)
        most = request.query_integer("most", 100, 1, audit_log.MOST)
        action = request.query_one("action")
        rows = await in_library(audit_log.read, self._at.database, before=before, most=most, action=action)
        return {"entries": [asdict(each) for each in rows]}

    # ---- in common

    async def _change(
        self, operation: Callable[..., Result], request: Request, *arguments: object, **named: object
    ) -> Result:
        """One change, in the name of who asks; then whoever depends on it is woken."""
        at = self._at
        result = await in_database(operation, at.database, *arguments, actor=request.peer.name, now=at.now(), **named)
        at.publisher.wake()
        return result

    async def _leave(self, request: Request, operation: Callable[..., object]) -> object:
        node_id = parameter(request, "node_id", is_id)
        body = await body_of(request, _REASON)
        await self._change(operation, request, node_id, reason=body["reason"])
        await self._at.pins.follow(node_id)  # its open connections end (threats M07)
        self._at.board.forget(node_id)
        return {"node_id": node_id}

    async def _enter(self, request: Request, operation: Callable[..., object]) -> object:
        """As declared, where the request does not say otherwise."""
        body = await body_of(request, _ENTRY)
        declared = await in_library(admission.declared_entry, self._at.database, parameter(request, "node_id", is_id))
        entry = replace(declared, **body)  # type: ignore[arg-type]  # closed above
        await self._change(operation, request, entry)
        await self._at.pins.load()
        return asdict(entry)

    async def _entries(self) -> list[catalog.NodeEntry]:
        return [each for each in await in_library(catalog.nodes, self._at.database) if each.revoked_at is None]


def _told(plan: ApplyPlan, outcome: str, held_back: str, settings: CoordinatorSettings) -> Response:
    """Who changes nothing is not warned of what stands."""
    warnings = foresight.warnings(plan.after, settings) if plan.changes else ()
    return Response.json({"outcome": outcome, **_plan(plan), "held_back": held_back, "warnings": list(warnings)})


def _plan(plan: ApplyPlan) -> dict[str, object]:
    changes = [
        {
            "verb": change.verb,
            "kind": change.key[0],
            "id": change.key[1],
            "differences": [
                {"path": path, "before": before, "after": after} for path, before, after in differences(*change.specs())
            ],
        }
        for change in plan.changes
    ]
    touched: dict[str, list[str]] = {}
    for node_id, scope in sorted(plan.touched):
        touched.setdefault(node_id, []).append(scope.name)
    return {
        "changes": changes,
        "unchanged": plan.unchanged,
        "touched": touched,
        "based_on": plan.based_on,
        "lines": plan.lines(),
    }

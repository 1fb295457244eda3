"""What an operator asks about declared state, members and the fleet, on the Unix socket (protocol 2).

docs/admin-api.md describes each route. Every change is one transaction with an audit row that names who asked; after it
the publisher is woken, and the pin table follows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import ParamSpec, Protocol, TypeVar

from coordinator.api.operator_route import Answering, for_operators, message_of, parameter, refusal_of, write_answer
from coordinator.api.roster_api import selection
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_database, in_library, in_planner, in_waiting
from coordinator.changes.records import ChangeRequest
from coordinator.configs.apply_cache import ReadDeclaration
from coordinator.database import audit_log, catalog, uploads
from coordinator.database.database import Database
from coordinator.declared import foresight
from coordinator.declared.contents import UploadedFile
from coordinator.declared.model import Key
from coordinator.declared.resources import Declared, InvalidResources
from coordinator.fleet import change_view, drill, explain, explain_scope, fleet
from coordinator.keys.tokens import MultiUse
from coordinator.membership import admission, revocation, trimming
from coordinator.publishing import declarations, file_contents, plan_check, proposals, published_state, unresolved
from coordinator.publishing.declarations import ApplyPlan, OutdatedProposal
from coordinator.publishing.proposals import Proposal
from coordinator.reports import events
from coordinator.runtime import schema_child
from coordinator.runtime.context import Coordinator
from coordinator.trust import restored_backup
from snapshot.identifiers import MAX_INTEGER, is_id
from snapshot.outage import Outage
from wire import forms
from wire.answer_message import AnswerMessage
from wire.operators.fleet_answers import NodeEntry, NodeEvents, NodeExplanation, NodeNamed, OutageDrill
from wire.operators.operator_answers import (
    Allowlist,
    AllowlistEntry,
    AppliedPlan,
    AuditPage,
    IssuedToken,
    RevokedToken,
    TokenList,
    UnpublishedChanges,
)
from wire.operators.operator_messages import APPLY_BYTES, ApplyRequest, EntryRequest, ReasonRequest, TokenRequest
from wire.request import Request, Response
from wire.routes import HttpRoute

APPLY_S = 120.0
CONTENT_RATE = 1 << 20  # bytes a second of files that are looked at, on a machine that has other work
PROPOSALS = 4  # worked out before it is locked: a state that moves on faster is the last one's, under the lock
LONGEST_APPLY_S = 570.0  # below what holdfastctl waits
DAY = 86_400
MOST_ENTRIES = 1_000
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Entering(Protocol):
    """How a node gets on the allowlist."""

    def __call__(self, database: Database, entry: AllowlistEntry, *, actor: str, now: float) -> object: ...


class AdminApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        def route(method: str, template: str, handler: Answering) -> HttpRoute:
            return HttpRoute(method, template, for_operators(handler))

        apply = HttpRoute("POST", "/v1/apply", for_operators(self.apply), body_bytes=APPLY_BYTES, deadline_s=APPLY_S)
        return (
            apply,
            route("GET", "/v1/diff", self.diff),
            route("GET", "/v1/drill/outage", self.drill_outage),
            route("GET", "/v1/nodes/{node_id}/explain", self.explain),
            route("GET", "/v1/nodes/{node_id}/explain/{scope}", self.explain_scope),
            route("GET", "/v1/nodes/{node_id}/events", self.events),
            route("POST", "/v1/nodes/{node_id}/revoke", self.revoke),
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

    async def apply(self, request: Request) -> Response:
        how = await message_of(request, ApplyRequest)
        plan = await self._carry_out(request, how)
        outcome = "planned" if how.dry_run else "applied"
        unheard = tuple(self._unheard(how))
        return await in_planner(_answer, self._at.database, plan, outcome, self._at.fault, self._at.settings, unheard)

    async def _carry_out(self, request: Request, how: ApplyRequest) -> ApplyPlan:
        """Files are read beside what nodes report and what others change, and once for a plan and its execution: unless
        what they say themselves was trimmed in between, and has to be kept anew.
        """
        files, uploaded = how.files, _uploads_of(how)
        request.allow(_apply_s(uploaded))
        known = await in_planner(self._at.last_read.lookup, files, uploaded)
        are_kept = file_contents.are_said_parts_kept
        if known is not None and await in_planner(are_kept, self._at.database, known.declared, uploaded):
            with suppress(InvalidResources):  # to be said with its lines
                proposal = await self._propose(known.declared, how)
                if known.is_judged(proposal.state_id):
                    return await self._make(request, proposal, how)
        read, proposal = await self._read(files, uploaded, how)
        await in_planner(self._at.last_read.keep, files, uploaded, read)
        return await self._make(request, proposal, how)

    async def _read(
        self, files: Mapping[str, str], uploaded: Mapping[str, UploadedFile], how: ApplyRequest
    ) -> tuple[ReadDeclaration, Proposal]:
        """With contents of files by their hashes alone; what the declaration says itself is kept like an upload."""
        at = self._at
        declared = await in_planner(at.last_read.read, files)
        settled = await in_planner(file_contents.settle, at.database, declared, uploaded, at.last_read.shapes)
        await in_database(uploads.add_all, at.database, settled.parts.values(), now=at.now())
        proposal = await self._propose(settled.declared, how)
        await in_waiting(schema_child.check, await in_planner(file_contents.checks_of, settled, proposal.after))
        judged_in = proposal.state_id if settled.templates else None
        return ReadDeclaration(settled.declared, judged_in), proposal

    async def _propose(self, declared: Mapping[Key, Declared], how: ApplyRequest) -> Proposal:
        """Worked out beside them, too: only what is left is written while they wait."""
        propose = partial(proposals.propose, prune=how.prune, based_on=how.based_on)
        proposal = await in_planner(propose, self._at.database, declared)
        return await in_planner(plan_check.judge, self._at.database, proposal, self._ask(how))

    async def _make(self, request: Request, proposal: Proposal, how: ApplyRequest) -> ApplyPlan:
        """Where the state has moved on, and nobody has said from which one, once more from what it is now."""
        for _ in range(PROPOSALS):
            with suppress(OutdatedProposal):
                return await self._carry(request, proposal, how)
            proposal = await self._propose(proposal.declared, how)
        return await self._carry(request, replace(proposal, effect=None, verdict=None), how)

    async def _carry(self, request: Request, proposal: Proposal, how: ApplyRequest) -> ApplyPlan:
        return await self._change(
            declarations.carry_out,
            self._at.database,
            proposal,
            actor=request.peer.name,
            now=self._at.now(),
            drop_endpoints=how.drop_endpoints,
            dry_run=how.dry_run,
            based_on=how.based_on,
            ask=self._ask(how),
        )

    def _ask(self, how: ApplyRequest) -> ChangeRequest | None:
        """What the change is, where there are to be changes."""
        is_guarded = self._at.settings.guarded_changes
        return ChangeRequest(how.message, how.now_reason, how.allow) if is_guarded else None

    def _unheard(self, how: ApplyRequest) -> Iterator[str]:
        """What was asked of a change, where there are none."""
        if not self._at.settings.guarded_changes and (how.message or how.now_reason or how.allow):
            yield "guarded_changes is false here: all nodes get it at once, and -m, --now and --allow say nothing"

    async def diff(self, request: Request) -> AnswerMessage:
        """What is declared and not published yet, for one node or for all."""
        node_id = request.query_one("node")
        wanted = [node_id] if node_id is not None else [entry.node_id for entry in await self._entries()]
        nodes, held_back = {}, {}
        for member_id in wanted:
            explained = await in_planner(explain.explain, self._at.database, member_id)
            nodes[member_id] = {scope.scope: scope.differs for scope in explained if scope.differs}
            held_back[member_id] = {scope.scope: scope.held_back for scope in explained if scope.held_back}
        return UnpublishedChanges(
            {node: scopes for node, scopes in nodes.items() if scopes},
            {node: scopes for node, scopes in held_back.items() if scopes},
        )

    async def drill_outage(self, request: Request) -> AnswerMessage:
        """What members do in an outage that begins now. Nothing is changed, and no node is asked."""
        restart_s = request.query_integer("restart_s", -1, 0, foresight.LONGEST_S)
        lasts_s = request.query_integer("lasts_s", DAY, 1, foresight.LONGEST_S)
        outage = Outage(int(self._at.now()), lasts_s, None if restart_s < 0 else restart_s)
        node_ids = request.query_all("node")
        nodes = await in_planner(drill.drill, self._at.database, outage, node_ids, self._at.settings)
        return OutageDrill(outage.began, outage.lasts_s, outage.restart_s, tuple(nodes))

    # ---- nodes

    async def explain(self, request: Request) -> AnswerMessage:
        node_id = parameter(request, "node_id", is_id)
        scopes = await in_planner(explain.explain, self._at.database, node_id)
        return NodeExplanation(node_id, tuple(scopes))

    async def explain_scope(self, request: Request) -> AnswerMessage:
        """One in whole; of one of its sections, where that is asked for."""
        node_id = parameter(request, "node_id", is_id)
        most = request.query_integer("most", explain_scope.MOST_ENTRIES, 1, MOST_ENTRIES)
        look = partial(explain_scope.explain_scope, section=request.query_one("section"), now=self._at.now(), most=most)
        return await in_planner(look, self._at.database, node_id, request.parameters["scope"])

    async def events(self, request: Request) -> AnswerMessage:
        """What the node has told of itself, the newest first."""
        node_id = parameter(request, "node_id", is_id)
        most = request.query_integer("most", 100, 1, events.MOST)
        rows = await in_library(events.read, self._at.database, node_id, most=most)
        return NodeEvents(node_id, tuple(rows))

    async def revoke(self, request: Request) -> AnswerMessage:
        node_id = parameter(request, "node_id", is_id)
        at, reason, actor = self._at, (await message_of(request, ReasonRequest)).reason, request.peer.name
        await self._change(revocation.revoke_node, at.database, node_id, reason=reason, actor=actor, now=at.now())
        await at.pins.follow(node_id)  # its open connections end (threats M07)
        at.board.forget(node_id)
        return NodeNamed(node_id)

    async def readmit(self, request: Request) -> AnswerMessage:
        entry = await self._enter(request, revocation.readmit)
        self._wake()
        await self._at.pins.load()  # certificates that were kept to be told are forgotten
        return entry

    # ---- who may join

    async def allowlist(self, _request: Request) -> AnswerMessage:
        return Allowlist(tuple(await in_library(admission.allowlist_entries, self._at.database)))

    async def allow(self, request: Request) -> AnswerMessage:
        return await self._enter(request, admission.allow)

    async def disallow(self, request: Request) -> AnswerMessage:
        node_id = parameter(request, "node_id", is_id)
        at, actor = self._at, request.peer.name
        await self._change(admission.disallow, at.database, node_id, actor=actor, now=at.now())
        return NodeNamed(node_id)

    async def tokens(self, _request: Request) -> AnswerMessage:
        return TokenList(tuple(await in_library(admission.list_tokens, self._at.database)))

    async def issue_token(self, request: Request) -> AnswerMessage:
        """The text is in this answer and nowhere else."""
        at = self._at
        at.standstill.check_keys()
        asked = await message_of(request, TokenRequest)
        several = MultiUse(asked.uses, asked.nodes)
        text, claims = await in_database(
            admission.issue_token,
            at.database,
            at.token_key,
            lifetime_s=asked.lifetime_s or at.settings.token_lifetime_s,
            actor=request.peer.name,
            now=at.now(),
            node_id=asked.node_id,
            site_id=asked.site_id,
            several=several,
        )
        return IssuedToken(
            token=text,
            jti=claims.jti,
            expires_at=claims.expires_at,
            site_id=claims.site_id,
            node_id=claims.node_id,
            uses=several.uses,
            nodes=several.nodes,
        )

    async def revoke_token(self, request: Request) -> AnswerMessage:
        jti = parameter(request, "jti", forms.text(64, 1).takes)
        await self._change(admission.revoke_token, self._at.database, jti, actor=request.peer.name, now=self._at.now())
        return RevokedToken(jti)

    # ---- what is going on

    async def fleet(self, request: Request) -> AnswerMessage:
        """Of all members or of some, with one page of the stragglers."""
        at, now = self._at, self._at.now()
        first, most = (
            request.query_integer("from", 0, 0, MAX_INTEGER),
            request.query_integer("most", fleet.MOST_NAMED, 1, MOST_ENTRIES),
        )
        observe = partial(fleet.observe, now=now, settings=at.settings, since=now - DAY)
        named = slice(first, first + most)
        seen = await in_planner(observe, at.database, which=selection(request), named=named)
        changes = await in_planner(change_view.open_summaries, at.database, now=now, settings=at.settings)
        behind = await in_library(restored_backup.reason, at.database, at.standstill.behind)
        planned = await in_library(partial(trimming.plan, now=now, settings=at.settings), at.database)
        unseen = (*planned.due, *planned.soon)
        seen = replace(seen, unseen=unseen[: fleet.MOST_NAMED], unseen_total=len(unseen))
        return replace(seen, restored_backup=behind, changes=changes)

    async def audit(self, request: Request) -> AnswerMessage:
        """The newest first; `before` is the audit id to page on from."""
        before = request.query_integer("before", MAX_INTEGER, 1, MAX_INTEGER)
        most = request.query_integer("most", 100, 1, audit_log.MOST)
        action = request.query_one("action")
        rows = await in_library(audit_log.read, self._at.database, before=before, most=most, action=action)
        return AuditPage(tuple(rows))

    # ---- in common

    async def _change(
        self, operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """One change; then whoever depends on it is woken."""
        result = await in_database(operation, *arguments, **named)
        self._wake()
        return result

    def _wake(self) -> None:
        self._at.rollouts.wake()
        self._at.publisher.wake()

    async def _enter(self, request: Request, operation: Entering) -> AllowlistEntry:
        """As declared, where the request does not say otherwise. Who may join is told to nobody, so nobody is woken."""
        asked = await message_of(request, EntryRequest)
        declared = await in_library(admission.declared_entry, self._at.database, parameter(request, "node_id", is_id))
        entry = AllowlistEntry(
            declared.node_id,
            asked.kind or declared.kind,
            asked.site_id or declared.site_id,
            asked.certificate_sha256 or declared.certificate_sha256,
        )
        await in_database(operation, self._at.database, entry, actor=request.peer.name, now=self._at.now())
        return entry

    async def _entries(self) -> list[NodeEntry]:
        return [node for node in await in_library(catalog.nodes, self._at.database) if node.revoked_at is None]


def _apply_s(uploaded: Mapping[str, UploadedFile]) -> float:
    """Each byte of a file is looked at for secrets, once."""
    return min(APPLY_S + sum(upload.size for upload in uploaded.values()) / CONTENT_RATE, LONGEST_APPLY_S)


def _uploads_of(how: ApplyRequest) -> dict[str, UploadedFile]:
    return {name: UploadedFile(upload.size, upload.parts) for name, upload in (how.contents or {}).items()}


def _answer(
    database: Database,
    plan: ApplyPlan,
    outcome: str,
    held_back: str,
    settings: CoordinatorSettings,
    unheard: Sequence[str],
) -> Response:
    """Who changes nothing is not warned of what stands."""
    warnings = foresight.warnings(plan.after, settings) if plan.changes else ()
    with database.read() as transaction:
        read = published_state.reader(transaction)
        references = unresolved.sentences((change.after for change in plan.changes if change.after is not None), read)
        lines = plan.lines(read)
    by_node = groupby(sorted(plan.touched), key=itemgetter(0))
    touched = {node_id: tuple(scope.name for _, scope in scopes) for node_id, scopes in by_node}
    return write_answer(
        AppliedPlan(
            outcome=outcome,
            changes=tuple(map(change_view.planned_change, plan.changes)),
            unchanged=plan.unchanged,
            touched=touched,
            based_on=plan.based_on,
            lines=tuple(lines),
            held_back=held_back,
            warnings=(*unheard, *warnings, *references, *plan.verdict.warnings),
            moved=plan.moved,
            refusals=tuple(map(refusal_of, plan.verdict.refusals)),
            change=plan.change.record.name if plan.change is not None and outcome == "applied" else None,
            plan_hash=plan.plan_hash,
        )
    )

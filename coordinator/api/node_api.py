"""What nodes ask, over TLS: join, head, documents, increments, recoveries, trust, heartbeat (protocol 1, 3).

Who asks is the pinned certificate of the connection, never a word of the request (rules J2, J3). A node is given what
is for it and nothing else: all other things do not exist. What a peer is told of a refusal is its code alone.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from functools import partial

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_library, in_thread_of
from coordinator.database import documents
from coordinator.database.documents import Document, StoredObject, container_of
from coordinator.database.member import Member
from coordinator.membership import enrolment, membership, moving
from coordinator.membership.admissions import Admissions
from coordinator.membership.enrolment import GrantReader, ProvenJoin
from coordinator.membership.membership import Grant
from coordinator.publishing import head_cache
from coordinator.publishing.board import News, Pair
from coordinator.reports import checkin
from coordinator.reports.checkin import Comparison
from coordinator.reports.collector import NotRecorded
from coordinator.reports.heartbeat_form import SCOPES_REMEMBERED, HeartbeatReader, ReceivedHeartbeat
from coordinator.runtime.context import UNAVAILABLE_S, Coordinator, to_peer, unavailable
from coordinator.trust import restored_backup
from snapshot import container
from snapshot.identifiers import HEAD, MAX_INTEGER, is_id, parse_scope
from wire.limits import Tally
from wire.logs import log
from wire.messages import INLINE_BYTES, HeadAnswer, JoinGrant, JoinNonce, TrustList
from wire.peer import Peer, PinState, TlsPeer, UnixPeer
from wire.request import JSON, HttpError, Request, Response
from wire.routes import Handler, HttpRoute, Routes
from wire.shedding import Concern, Rate
from wire.version import PROTOCOL

DOCUMENT = ("content-type", "application/vnd.holdfast.document")
MOST_WAIT_S = 300
JOIN_BYTES = 64 << 10
HEAD_BYTES = 5 << 20
LARGE_REPORT_BYTES = 64 << 10  # of some 150 scopes: milliseconds, if the event loop read it
DOCUMENTS_AT_ONCE = 16
WHOLE_BYTES = 4 << 20  # of sections; what has more is sent as it is read
DOCUMENTS_IN_LINE = 4096  # of each kind: a fleet that hears of one change
DOCUMENTS_EACH = 2  # of one node, until they are sent: an agent asks for one after the other
PROOFS_AT_ONCE = 2
CLAIM_NOTED_S = 600.0
# Of one node; an honest one reports twice a minute and once a second at most, and shows its head once an hour.
REPORTS_PER_MINUTE = 120
PROOFS_PER_MINUTE = 10
JOINS_IN_ALL_PER_MINUTE = 10_000  # of strangers, from everywhere; members renew beside it
GRANT_S = 20.0
LOOK_AGAIN_S = 1.0
PROVE = ("holdfast-prove", "head")  # protocol 1: show the head that you hold
NOT_ON_RECORD = frozenset({Comparison.RESTORED_BACKUP, Comparison.CONFLICT})
TOLD = frozenset({PinState.ACTIVE, PinState.REVOKED})  # rules K22


class NodeApi:
    """The handlers; `fleet_routes` for pinned nodes, `join_routes` for strangers."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator
        joins = coordinator.settings.joins_per_minute
        self._join_rate = Rate(joins, 60.0)
        self._strangers = Rate(JOINS_IN_ALL_PER_MINUTE, 60.0)
        self._nonce_rate = Rate(2 * joins, 60.0)  # a join needs one, and one more where the first ran out
        self._admissions = Admissions(self._admit, self._wait_for_turn)
        self._grants = GrantReader()
        self._reader = HeartbeatReader()
        self._large_reader, self._reading = HeartbeatReader(most_scopes=SCOPES_REMEMBERED // 2), trio.CapacityLimiter(1)
        self._claims = Rate(1, CLAIM_NOTED_S)
        self._reports = Rate(REPORTS_PER_MINUTE, 60.0)
        self._proofs = Rate(PROOFS_PER_MINUTE, 60.0)

    def fleet_routes(self) -> Routes:
        at_once, line, proofs, concern = DOCUMENTS_AT_ONCE, DOCUMENTS_IN_LINE, PROOFS_AT_ONCE, Concern.DOCUMENT
        wait_s = MOST_WAIT_S + 30.0
        most = self._at.settings.heartbeat_bytes
        each = Tally(DOCUMENTS_EACH, 1 << 20)  # in all there are turns, and the line's end
        document = partial(HttpRoute, concern=concern, most=at_once, line=line, each=each)
        return _guard(
            HttpRoute("GET", "/v1/head", self.head, deadline_s=wait_s, concern=Concern.HEAD, states=TOLD),
            HttpRoute("POST", "/v1/head", self.proof, body_bytes=HEAD_BYTES, concern=Concern.HEARTBEAT, most=proofs),
            HttpRoute("POST", "/v1/heartbeat", self.heartbeat, body_bytes=most, concern=Concern.HEARTBEAT),
            HttpRoute("GET", "/v1/trust", self.trust, concern=concern, states=TOLD),
            document("GET", "/v1/documents/{snapshot_id}", self.document),
            document("GET", "/v1/increments/{scope}", self.increment),
            document("GET", "/v1/recoveries/{scope}", self.recovery),
            *self._joining(),
        )

    def join_routes(self) -> Routes:
        return _guard(*self._joining())

    def _joining(self) -> tuple[HttpRoute, HttpRoute]:
        """Also for members, who renew their certificate over the connection that the old one authenticates."""
        return (
            HttpRoute("GET", "/v1/join/nonce", self.nonce, concern=Concern.JOIN, rate=self._nonce_rate),
            HttpRoute("POST", "/v1/join", self.join, body_bytes=JOIN_BYTES, concern=Concern.JOIN, rate=self._join_rate),
        )

    # ---- joining

    async def nonce(self, _request: Request) -> Response:
        at = self._at
        self._sound()
        lifetime_s = at.settings.nonce_lifetime_s
        text = await in_library(membership.new_nonce, at.database, now=at.now(), lifetime_s=lifetime_s)
        return Response.json(JoinNonce(text).to_value())

    async def join(self, request: Request) -> Response:
        """The grant is made from what is published after the admission (rules J9); a retry gets a full one (J12)."""
        at, peer = self._at, request.peer
        self._sound()
        if not isinstance(peer, TlsPeer):
            _check_rate(self._strangers, "everybody")
        body = await request.body()
        proof, token = request.header("holdfast-proof") or "", _bearer(request)
        pin = peer.fingerprint if isinstance(peer, TlsPeer) else None
        note = partial(self._note_join, peer)
        candidate = await in_library(
            enrolment.prove, at.database, body, proof, token=token, pin=pin, note=note, now=at.now()
        )
        grant = await self._admissions.admit(candidate)
        node_id = grant.member.node_id
        await at.pins.follow(node_id)
        given = await self._grant_documents(grant)
        return Response.json(JoinGrant(grant.outcome, at.coordinator_id, tuple(given)).to_value())

    async def _admit(self, candidates: Sequence[ProvenJoin]) -> list[Grant | Refused]:
        at = self._at
        foreseen = await in_library(enrolment.foresee, at.database, candidates)
        return await in_database(enrolment.admit, at.database, candidates, foreseen, now=at.now())

    async def _wait_for_turn(self) -> None:
        await self._at.publisher.wait_at_rest()

    def _note_join(self, peer: Peer, refused: Refused) -> None:
        address = peer.name if isinstance(peer, UnixPeer) else peer.address
        self._at.refused_joins.note(address, refused, self._at.now())

    async def _grant_documents(self, grant: Grant) -> list[bytes]:
        """A new member's head is on its way: once it is out, what it names is at hand, or the database is asked."""
        at, node_id = self._at, grant.member.node_id
        is_new = grant.outcome == "admitted"
        with trio.move_on_after(GRANT_S):
            while True:
                news = at.board.latest(node_id)
                is_out = news is not None and news.base[1] >= grant.generation
                given = self._grants.find(news, at.publisher.handouts) if is_out else None
                if given is None and (is_out or not is_new):
                    given = await in_library(self._grants.read, at.database, node_id, grant.generation)
                if given is not None:
                    return given
                with trio.move_on_after(LOOK_AGAIN_S) as looking:
                    await at.publisher.wait_published(node_id)
                is_new = is_new and not looking.cancelled_caught  # published elsewhere, perhaps: then ask
        raise HttpError(503, "not_ready", "admitted; the documents are not signed yet: ask again", retry_after=5)

    # ---- the head

    async def head(self, request: Request) -> Response:
        """A newer head at once, or when there is one within the wait; 204 leaves the held one as it is (rules K20)."""
        peer = await self._member(request)
        _check_protocol(request)
        held = (
            request.query_integer("epoch", 0, 0, MAX_INTEGER),
            request.query_integer("generation", 0, 0, MAX_INTEGER),
        )
        if await self._has_gone_over(peer, held):
            return Response(204, [self._issuer(), *([PROVE] if self._is_new(peer, "gone over") else [])])
        if peer.state is PinState.ACTIVE:
            self._at.seen.note(peer.node_id)
        wait_s = request.query_integer("wait", 0, 0, MOST_WAIT_S)
        inline = request.query_integer("inline", 0, 0, MAX_INTEGER)
        news = await self._newer(request, peer, held, wait_s if peer.state is PinState.ACTIVE else 0)
        if news is not None and news.pair > held:
            return self._answer_with_head(peer, news, held, min(inline, INLINE_BYTES))
        if peer.state is not PinState.ACTIVE:  # it has been told by the head that names it
            raise HttpError(403, peer.state.value, "refused")
        return Response(204, [self._issuer(), *([PROVE] if news is not None and held > news.pair else [])])

    def _answer_with_head(self, peer: TlsPeer, news: News, held: Pair, inline: int) -> Response:
        """With what it names anew beside it, as far as that is at hand and the node takes so much."""
        at_hand = self._at.publisher.handouts
        documents = at_hand.beside(news, held[1], inline) if peer.state is PinState.ACTIVE else ()
        answer = HeadAnswer(news.container, documents)
        return Response(200, [("content-type", answer.media_type), self._issuer()], answer.to_bytes())

    async def proof(self, request: Request) -> Response:
        """The head that a node holds and that is above our record: is it ours, then we were restored (rules K41)."""
        at, peer = self._at, await self._member(request)
        _check_rate(self._proofs, peer.node_id)
        data = await request.body()
        try:
            mark = await in_library(restored_backup.prove_head, at.database, peer.node_id, data)
        except Refused as refused:
            if at.standstill.moved is not None:  # by keys that are not known here
                raise to_peer(refused) from refused
            at.alarm(Comparison.NODE_AHEAD.value)
            await self._note(peer, HEAD, (0, 0), refused.code.value)
            raise to_peer(refused) from refused
        if at.standstill.moved is not None and mark.mark.authority_epoch > await self._epoch(peer.node_id):
            await in_database(moving.note_ahead, at.database, now=at.now())
            return Response(204, [self._issuer()])
        found = await in_library(restored_backup.stands, at.database, peer.node_id, mark)
        if found is Comparison.RESTORED_BACKUP or (
            found is Comparison.CONFLICT and self._is_new(peer, "proven conflict")
        ):
            await self._note_proof(
                peer, await in_database(restored_backup.keep, at.database, peer.node_id, mark, now=at.now())
            )
        return Response(204, [self._issuer()])

    async def _note_proof(self, peer: TlsPeer, found: Comparison) -> None:
        at = self._at
        if found in NOT_ON_RECORD:
            at.alarm(found.value)
            log.error("a node shows a head of ours that is not on record", node=peer.node_id, verdict=found.value)
        async with at.standstill.reading:
            at.standstill.reason = await in_library(restored_backup.reason, at.database, at.standstill.behind)
        if at.standstill.reason:
            at.board.wake_all()
        self._sound()

    async def _has_gone_over(self, peer: TlsPeer, held: Pair) -> bool:
        """Whether it holds an epoch of the coordinator that the cluster was exported to: ours is no restored database.
        It counts no more among those that ask here, and once in a while it is to prove it (moving.py).
        """
        return self._at.standstill.moved is not None and held[0] > await self._epoch(peer.node_id)

    async def _epoch(self, node_id: str) -> int:
        """Of its last head here; none is above every one."""
        news = await self._latest(node_id)
        return MAX_INTEGER if news is None else news.pair[0]

    async def _newer(self, request: Request, peer: TlsPeer, held: Pair, wait_s: int) -> News | None:
        """None without news; a head below the held one where the node is ahead of the database."""
        news = await self._latest(peer.node_id)
        if news is not None and news.is_behind(held):
            self._at.board.forget(peer.node_id)  # another replica may have published it: ask the database
            news = await self._latest(peer.node_id)
        if news is not None and news.is_behind(held):
            await self._ahead(peer, held, news.pair)
            return news
        until = trio.current_time() + wait_s
        while news is None or news.pair <= held:
            if wait_s == 0 or trio.current_time() >= until:
                return None
            with request.waiting():
                await self._at.board.wait(peer.node_id, until)
            self._sound()
            news = await self._latest(peer.node_id)
        return news

    async def _latest(self, node_id: str) -> News | None:
        """Returns without a pause where the board knows it: between looking and waiting nothing may happen."""
        at = self._at
        known = at.board.latest(node_id)
        if known is not None:
            return known
        found = await in_library(head_cache.latest_head, at.database, node_id)
        if found is not None:
            at.board.announce(node_id, found)
        return at.board.latest(node_id)

    async def _ahead(self, peer: TlsPeer, held: Pair, ours: Pair) -> None:
        """It holds more than we ever signed: it gets nothing, and somebody should look (rules K37, K41)."""
        self._at.alarm(Comparison.NODE_AHEAD.value)
        await self._note(peer, HEAD, held, Comparison.NODE_AHEAD.value, published=ours)

    async def _note(self, peer: TlsPeer, scope: str, held: Pair, outcome: str, **known: object) -> None:
        """Once in a while for each node and outcome: who claims without end fills neither the log nor the audit log."""
        at = self._at
        if at.standstill.moved is None and self._is_new(peer, outcome):
            log.warning("a node holds what is not on record", node=peer.node_id, scope=scope, held=held, **known)
            await in_database(restored_backup.note, at.database, peer.node_id, scope, held, outcome, now=at.now())

    def _is_new(self, peer: TlsPeer, outcome: str) -> bool:
        return self._claims.wait_s((peer.node_id, outcome), trio.current_time()) is None

    # ---- documents

    async def document(self, request: Request) -> Response:
        """One that the node's head names may be at hand; every other is asked for."""
        snapshot_id, peer = _id(request.parameters["snapshot_id"]), await self._member(request)
        handouts = self._at.publisher.handouts
        at_hand = handouts.find(snapshot_id, self._at.board.latest(peer.node_id))
        if at_hand is not None:
            return _answer_who_has_it(request, snapshot_id) or Response(200, _headers_of(snapshot_id), at_hand)
        find = partial(documents.document, most=WHOLE_BYTES)
        found = await in_library(find, self._at.database, peer.node_id, snapshot_id)
        handouts.keep([found])
        return self._answer_with(request, found)

    async def increment(self, request: Request) -> Response:
        base = request.query_integer("base", 0, 1, MAX_INTEGER)
        find = partial(documents.increment, most=WHOLE_BYTES)
        return await self._hand_out(request, find, _scope(request.parameters["scope"]), base)

    async def recovery(self, request: Request) -> Response:
        return await self._hand_out(request, documents.recovery, _scope(request.parameters["scope"]))

    async def trust(self, request: Request) -> Response:
        await self._member(request)
        start = request.query_integer("from", 0, 0, MAX_INTEGER)
        found = await in_library(documents.trust_bundles, self._at.database, start)
        return Response.json(TrustList(tuple(container_of(document) for document in found)).to_value())

    async def _hand_out(self, request: Request, find: Callable[..., Document], *which: object) -> Response:
        peer = await self._member(request)
        return self._answer_with(request, await in_library(find, self._at.database, peer.node_id, *which))

    def _answer_with(self, request: Request, found: Document) -> Response:
        if (known := _answer_who_has_it(request, found.snapshot_id)) is not None:
            return known
        headers = _headers_of(found.snapshot_id)
        named = [section for section in found.sections if isinstance(section, StoredObject)]
        if not named:
            return Response(200, headers, container_of(found))
        opening = b"".join(
            container.encode_opening(found.envelope, found.signatures, found.manifest, len(found.sections))
        )
        size = len(opening) + sum(len(container.encode_section_head(part.size)) + part.size for part in named)
        return Response(200, [*headers, ("content-length", str(size))], self._pieces(opening, named))

    async def _pieces(self, opening: bytes, named: Sequence[StoredObject]) -> AsyncGenerator[bytes, None]:
        """Section by section, so that a folder of files is never in memory as a whole."""
        yield opening
        for part in named:
            yield container.encode_section_head(part.size)
            yield await in_library(documents.section, self._at.database, part.key)

    # ---- heartbeat

    async def heartbeat(self, request: Request) -> Response:
        """Answered after its commit (protocol 3). A coordinator that was restored notes what nodes hold, and answers
        nothing: its operator has to know which bundles there are (bundle_conflicts.py).
        """
        peer = await self._member(request, is_report=True)
        _check_rate(self._reports, peer.node_id)
        body = await request.body()
        report = await self._read_report(body)
        self._judge(peer, report)
        try:
            answer = await self._at.collector.report(report)
        except NotRecorded:  # it is logged already
            raise HttpError(503, "unavailable", "not recorded: send it again", retry_after=UNAVAILABLE_S) from None
        self._at.seen.forget(peer.node_id)
        self._sound()
        for scope, comparison in answer.comparisons.items():
            self._at.alarm(comparison.value)
            if comparison is not Comparison.NODE_BEHIND:  # it holds what nobody here has published (rules K37)
                await self._note(peer, scope, report.active[scope].pair, comparison.value)
        return Response(200, [JSON], answer.to_bytes())

    async def _read_report(self, body: bytes) -> ReceivedHeartbeat:
        """A large one in a thread, one after the other: one of a thousand scopes that a later release has written takes
        longer than anything may hold the event loop. What a reader remembers is one thread's.
        """
        most = self._at.settings.heartbeat_bytes
        if len(body) <= LARGE_REPORT_BYTES:
            return self._reader.read(body, most=most)
        return await in_thread_of(self._reading, self._large_reader.read, body, most=most)

    def _judge(self, peer: TlsPeer, report: ReceivedHeartbeat) -> None:
        """In the order of rules K33; the pin table is what the catalog says. Beside the certificates of a member it
        knows those of before a revocation (rules K22): who was readmitted is judged by the new ones alone. Of nearly
        every report one look says that nothing is wrong with it.
        """
        is_ours = report.cluster_id == self._at.cluster_id
        if is_ours and self._at.pins.table.speaks_for(peer.fingerprint, report.node_id):
            return
        pins = self._at.pins.table.of_node(report.node_id)
        active = [pin.fingerprint for pin in pins if pin.state is PinState.ACTIVE]
        shown = active or [pin.fingerprint for pin in pins if pin.state is PinState.REVOKED]
        member = Member(report.node_id, "", "", shown[0], shown[-1], revoked=not active) if shown else None
        claim = (report.cluster_id, report.node_id)
        checkin.judge(claim, peer.fingerprint, cluster_id=self._at.cluster_id, member=member)

    # ---- who asks

    async def _member(self, request: Request, *, is_report: bool = False) -> TlsPeer:
        """The node of the connection. The first use of a new certificate ends the old one."""
        peer = request.peer
        if not isinstance(peer, TlsPeer):
            raise HttpError(403, Code.BAD_PROOF.value, "no client certificate was shown")
        if is_report and self._at.standstill.why:
            return peer
        self._sound()
        pins = self._at.pins
        if pins.is_next(peer.fingerprint):
            await in_database(membership.confirm_pin, self._at.database, peer.fingerprint, now=self._at.now())
            await pins.follow(peer.node_id)
            self._at.publisher.wake()
        return peer

    def _sound(self) -> None:
        """A coordinator that was restored from an old backup serves nobody (rules K41), nor does one without the config
        keys: others have them, and nodes go there (rules H21).
        """
        if self._at.standstill.why:
            raise HttpError(503, "not_ready", "refused", retry_after=5)

    def _issuer(self) -> tuple[str, str]:
        return ("holdfast-coordinator", self._at.coordinator_id)  # rules K31


def _headers_of(snapshot_id: str) -> list[tuple[str, str]]:
    """A document never changes, so its id is its tag, too."""
    return [DOCUMENT, ("etag", f'"{snapshot_id}"'), ("cache-control", "private, immutable")]


def _answer_who_has_it(request: Request, snapshot_id: str) -> Response | None:
    """To whoever has it already."""
    is_known = request.header("if-none-match") == f'"{snapshot_id}"'
    return Response(304, _headers_of(snapshot_id)) if is_known else None


def _guard(*routes: HttpRoute) -> Routes:
    """A refusal is said as the peer may hear it (rules X20); a database that fails is no verdict (P23)."""
    return Routes(*(replace(route, handler=_to_peers(route.handler)) for route in routes))


def _to_peers(handler: Handler) -> Handler:

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            raise to_peer(refused) from refused
        except SQLAlchemyError as error:
            raise unavailable(error) from error

    return answer


def _check_protocol(request: Request) -> None:
    """Before anything is noted (rules K45). Who names none is of a release that knew of one alone."""
    asked = request.query_integer("protocol", PROTOCOL, 0, MAX_INTEGER)
    if asked != PROTOCOL:
        raise HttpError(400, "unsupported_protocol", f"protocol {asked} is not served here, {PROTOCOL} is")


def _check_rate(rate: Rate, key: str) -> None:
    """By the node, and not by its address, which others may share; or one for all."""
    seconds = rate.wait_s(key, trio.current_time())
    if seconds is not None:
        raise HttpError(429, "too_many_requests", "refused", retry_after=seconds)


def _bearer(request: Request) -> str | None:
    header = request.header("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise HttpError(403, Code.BAD_TOKEN.value, "refused")
    return token


def _id(text: str) -> str:
    if not is_id(text):
        raise HttpError(404, Code.NOT_FOUND.value, "refused")
    return text


def _scope(text: str) -> str:
    try:
        parse_scope(text)
    except ValueError:
        raise HttpError(404, Code.NOT_FOUND.value, "refused") from None
    return text

"""What peers may ask, and nothing else (protocol.md 6; rules J45, K5). Who asks is the pinned certificate of the
connection; whether he is given it is decided in entitlement.py, and what he is not given does not exist.

Nothing here changes what this node holds: there is no admission, no role, no trust, no vote and no configuration to be
pushed. What a peer is told of a refusal is its code alone (rules X20).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import replace

import trio

from agent.peers.coming import Coming
from agent.peers.entitlement import (
    ForEveryMember,
    MapMember,
    Wanted,
    WantedDocument,
    WantedHead,
    WantedSection,
    may_have,
    near_neighbours,
)
from agent.peers.shelf import HeldContainer, Shelf, document_facts
from agent.peers.standing import Standings
from agent.relay.handing_out import PIECE_BYTES
from agent.sources.peers import Peers
from agent.state.node import RunningNode
from snapshot.container import MEDIA_TYPE
from snapshot.identifiers import MAX_INTEGER
from snapshot.reasons import Rejected
from store.base.errors import StoreError, StoreFault
from wire.limits import Tally
from wire.logs import log
from wire.messages import BadMessageError, TrustList
from wire.peer import TlsPeer
from wire.peers.peer_messages import INVENTORY_HEADS, HeldPair, PeerInventory, PeerStanding
from wire.request import HttpError, Request, Response
from wire.routes import Handler, HttpRoute, Routes
from wire.shedding import Concern, Rate

DOCUMENT = ("content-type", MEDIA_TYPE)
BYTES = ("content-type", "application/octet-stream")
# Of one peer. An honest one asks for an inventory twice a minute, and for a few hundred sections when much has changed.
REQUESTS_PER_MINUTE = 3_000
STANDINGS_PER_MINUTE = 20
DOCUMENTS_AT_ONCE = 8
DOCUMENTS_IN_LINE = 64
DOCUMENTS_EACH = 2
TRUST_BYTES = 11 << 20  # as base64 they are within one answer
AGAIN_S = 30
BOTH_AUTOMATIC = "both_automatic"
COMING_S = 2


class PeerApi:
    """The handlers. `peers`: who may ask."""

    def __init__(self, node: RunningNode, peers: Peers, shelf: Shelf, standings: Standings) -> None:
        self._node = node
        self._peers = peers
        self._shelf = shelf
        self._standings = standings
        self._handing_out = shelf.relay.handing_out
        self._coming = Coming(node, trio.current_time)
        self._rate = Rate(REQUESTS_PER_MINUTE, 60.0)
        self._shown = Rate(STANDINGS_PER_MINUTE, 60.0)

    def routes(self) -> Routes:
        each = Tally(DOCUMENTS_EACH, 1 << 20)

        def document(template: str, handler: Handler) -> HttpRoute:
            return HttpRoute(
                "GET",
                template,
                handler,
                concern=Concern.DOCUMENT,
                most=DOCUMENTS_AT_ONCE,
                line=DOCUMENTS_IN_LINE,
                each=each,
            )

        return self._guard_all(
            HttpRoute("GET", "/v1/inventory", self.inventory, concern=Concern.HEAD),
            HttpRoute("GET", "/v1/heads/{node}", self.head, concern=Concern.HEAD),
            HttpRoute(
                "POST",
                "/v1/standing",
                self.standing,
                body_bytes=PeerStanding.MOST_BYTES,
                concern=Concern.HEARTBEAT,
                most=2,
            ),
            HttpRoute("GET", "/v1/trust", self.trust, concern=Concern.DOCUMENT, most=2, line=DOCUMENTS_IN_LINE),
            document("/v1/documents/{snapshot_id}", self.document),
            document("/v1/increments/{scope}", self.increment),
            document("/v1/manifests/{snapshot_id}", self.manifest),
            document("/v1/sections/{sha256}", self.section),
        )

    # ---- the messages

    async def inventory(self, request: Request) -> Response:
        asker, neighbours = await self._members(request)
        self._refuse(asker, ForEveryMember(), neighbours)
        if request.query_integer("automatic_refresh", 0, 0, 1) and self._refreshes_from(asker.node_id):
            raise HttpError(409, BOTH_AUTOMATIC, "refused")
        found = await self._node.threads.read(self._inventory, asker, neighbours)
        return Response.json(found.to_value())

    async def head(self, request: Request) -> Response:
        """204 where it is none that is higher than the one the asker holds."""
        asker, neighbours = await self._members(request)
        held = (
            request.query_integer("epoch", 0, 0, MAX_INTEGER),
            request.query_integer("generation", 0, 0, MAX_INTEGER),
        )
        digest = request.parameters["node"]
        self._refuse(asker, WantedHead(digest), neighbours)
        found = await self._node.threads.read(self._shelf.head, digest)
        if found is None or found[0] <= held:
            return Response(204)
        return await self._at_pace(asker.node_id, Response(200, [DOCUMENT], found[1]))

    async def standing(self, request: Request) -> Response:
        """Rejected by the twelve steps: the verdict's reason is its code."""
        peer = self._peer(request)
        _check_rate(self._shown, peer.node_id)
        said = await self._node.threads.read(PeerStanding.parse, await request.body())
        try:
            shown = await self._node.threads.verify(self._standings.judge, peer.node_id, said)
        except Rejected as refused:
            self._node.counters.add("peer_standings_refused")
            raise HttpError(422, str(refused.reason), "refused", step=refused.step) from refused
        self._standings.keep(peer.node_id, shown)
        return Response(204)

    async def trust(self, request: Request) -> Response:
        asker, neighbours = await self._members(request)
        self._refuse(asker, ForEveryMember(), neighbours)
        after = request.query_integer("from", 0, 0, MAX_INTEGER)
        found = await self._node.threads.read(self._trust_list, after)  # as long as it is, it takes a fifth of a second
        return await self._at_pace(asker.node_id, found)

    async def document(self, request: Request) -> Response:
        found = await self._document(request)
        return Response(200, [DOCUMENT], self._stream(request, self._shelf.pieces(found)))

    async def increment(self, request: Request) -> Response:
        """Of a relay: what led this node from the same base, as it came."""
        asker, neighbours = await self._members(request)
        scope, base = request.parameters["scope"], request.query_integer("base", 0, 0, MAX_INTEGER)
        found = self._shelf.increment(scope, base)
        if found is None:
            raise _coming() if self._coming.increment(asker, scope, base) else _nothing()
        self._refuse(asker, WantedSection((document_facts(found.envelope),)), neighbours)
        self._node.counters.add("peer_documents_served")
        return Response(200, [DOCUMENT], self._stream(request, self._shelf.pieces(found)))

    async def manifest(self, request: Request) -> Response:
        """So that who has most of the sections already asks for the others alone."""
        found = await self._document(request)
        data = await self._node.threads.read(self._shelf.manifest, found)
        return await self._at_pace(self._peer(request).node_id, Response(200, [DOCUMENT], data))

    async def section(self, request: Request) -> Response:
        asker, neighbours = await self._members(request)
        sha256 = request.parameters["sha256"]

        def may(document: WantedDocument) -> bool:
            return may_have(asker, WantedSection((document,)), neighbours)

        place = await self._node.threads.read(self._shelf.section_place, sha256, may)
        if place is None:
            self._node.counters.add("peer_requests_not_entitled")
            raise _nothing()
        self._node.counters.add("peer_sections_served")
        data = await self._node.threads.read(self._shelf.section, sha256, place)
        return await self._at_pace(asker.node_id, Response(200, [BYTES], data))

    # ---- inside

    async def _document(self, request: Request) -> HeldContainer:
        asker, neighbours = await self._members(request)
        snapshot_id = request.parameters["snapshot_id"]
        found = self._shelf.find(snapshot_id)
        if found is None:
            raise _coming() if self._coming.document(asker, snapshot_id) else _nothing()
        self._refuse(asker, document_facts(found.envelope), neighbours)
        self._node.counters.add("peer_documents_served")
        return found

    def _inventory(self, asker: MapMember, neighbours: list[MapMember]) -> PeerInventory:
        """Of heads that the asker may have; it asks for none of which it has a higher one."""
        heads: dict[str, HeldPair] = {}
        for member in [asker, *near_neighbours(asker, neighbours)][:INVENTORY_HEADS]:
            pair = self._shelf.head_version(member.digest)
            if pair is not None and may_have(asker, WantedHead(member.digest), neighbours):
                heads[member.digest] = HeldPair(*pair)
        bundle = self._node.holdings.bundle
        return PeerInventory(self._node.settings.node.cluster_id, bundle.version if bundle else 0, heads)

    def _trust_list(self, after: int) -> Response:
        return Response.json(TrustList(tuple(self._shelf.bundles_after(after, TRUST_BYTES))).to_value())

    def _refreshes_from(self, node_id: str) -> bool:
        """Whether our own manual map has automatic_refresh for it: two maps by hand may both say so (rules K7)."""
        peers = self._peers.served_peers()
        return any(peer.is_manual and peer.automatic_refresh and peer.node_id == node_id for peer in peers)

    async def _members(self, request: Request) -> tuple[MapMember, list[MapMember]]:
        """Who asks, and all of the map, as they are now."""
        peer = self._peer(request)
        peers = self._peers.served_peers()
        neighbours = await self._node.threads.read(self._standings.members, peers)
        asker = next((member for member in neighbours if member.node_id == peer.node_id), None)
        if asker is None:  # it was taken out of the map a moment ago: its connection ends, too
            raise _nothing()
        return asker, neighbours

    @staticmethod
    def _peer(request: Request) -> TlsPeer:
        if not isinstance(request.peer, TlsPeer):
            raise _nothing()
        return request.peer

    def _refuse(self, asker: MapMember, wanted: Wanted, neighbours: list[MapMember]) -> None:
        if not may_have(asker, wanted, neighbours):
            if isinstance(wanted, WantedDocument | WantedSection):
                self._node.counters.add("peer_requests_not_entitled")
            raise _nothing()

    async def _at_pace(self, asker: str, answer: Response) -> Response:
        """What is at hand. More than a piece goes as a document does: taken at once, it would keep others from a first
        byte for as long as all of it lasts, and they would take this node for one that does not answer.
        """
        data = answer.body
        if not isinstance(data, bytes):
            return answer
        if len(data) <= PIECE_BYTES:
            await self._handing_out.take(asker, len(data))
            return answer
        headers = [*answer.headers, ("content-length", str(len(data)))]
        return Response(answer.status, headers, self._handing_out.pace(asker, _once(data)))

    def _stream(self, request: Request, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """At the pace of what is handed out, fair among those who ask."""
        return self._handing_out.pace(self._peer(request).node_id, self._read(pieces))

    async def _read(self, pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            while (piece := await self._node.threads.read(next, pieces, None)) is not None:
                if piece:
                    yield piece
        except StoreError as error:
            log.warning("an answer to a peer breaks off", fault=error.fault, detail=error.detail)
            await self._shelf.relay.drop_damaged()
            raise

    def _guard_all(self, *routes: HttpRoute) -> Routes:
        return Routes(*(replace(route, handler=self._guard(route.handler)) for route in routes))

    def _guard(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            _check_rate(self._rate, self._peer(request).node_id)
            self._node.counters.add("peer_requests")
            try:
                return await handler(request)
            except BadMessageError as error:
                raise HttpError(400, "bad_request", "refused") from error
            except Rejected as damage:  # of what is kept here: whoever asks is to ask somebody else
                raise _nothing() from damage
            except StoreError as error:
                if error.fault in (StoreFault.NOT_FOUND, StoreFault.STORE_CORRUPT):
                    raise _nothing() from error
                raise HttpError(503, str(error.fault), "refused", retry_after=AGAIN_S) from error
            finally:
                await self._shelf.relay.drop_damaged()

        return answer


async def _once(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


def _nothing() -> HttpError:
    """For what is not here and for what the asker may not have alike."""
    return HttpError(404, "not_found", "there is nothing at this path")


def _coming() -> HttpError:
    """This node fetches it (coming.py)."""
    return HttpError(503, "coming", "refused", retry_after=COMING_S)


def _check_rate(rate: Rate, key: str) -> None:
    seconds = rate.wait_s(key, trio.current_time())
    if seconds is not None:
        raise HttpError(429, "too_many_requests", "refused", retry_after=seconds)

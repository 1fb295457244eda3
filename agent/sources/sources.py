"""Where documents come from, and in which order (protocol.md 1; rules S64, K50, X27, X28, P16).

The coordinators, configured ones and those that the `node_bootstrap` lists (coordinators.py), the storage endpoints of
the last valid `storage_directory`, each believed by what its entry says (snapshot/mirrors.py), peers of the
`peer_directory` and of agent.toml with their pinned certificates: active, warm, cold (peer_sets.py). Each has its own
back-off; what is revoked is not asked. DNS is asked at each attempt, the last working address first (wire/client.py).
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from pathlib import Path

import trio

from agent.config.configuration import AgentSettings
from agent.sources import authorities
from agent.sources.addresses import KeptAddresses
from agent.sources.connecting import LateConnector, authority_connector, mirror_connector
from agent.sources.coordinators import Coordinators
from agent.sources.peers import Peers
from agent.sources.source import Kind, PeerPlace, PeerSet, Source
from agent.state.endpoint_sets import NamedBy, url_of
from agent.state.health_rows import ADDRESSES_ROW, AUTHORITIES_ROW, PEERS_ROW
from agent.state.held_state import BOOTSTRAP
from agent.state.node import RunningNode
from snapshot import degraded
from snapshot.degraded import Question
from snapshot.grants import Grants, LateGrants
from snapshot.identifiers import SHAREABLE, parse_scope
from snapshot.mirrors import Mirror, MirrorTls
from store.base.errors import StoreError
from store.base.tables import Name
from wire.backoff import BackOff
from wire.certificate import fingerprint
from wire.client import Deadlines, HttpClient, HttpsConnector
from wire.endpoint import BadEndpointError, Endpoint
from wire.local.node_status import AskedSource
from wire.logs import log
from wire.tls_contexts import SYSTEM_ROOTS, TlsIdentity

Pins = frozenset[bytes]
Shown = Pins | MirrorTls  # what a server has to show, where it is not a chain as the coordinators'
Known = tuple[Kind, Endpoint, Shown]

DIRECTORY = "storage_directory"
NO_PINS: Pins = frozenset()
ATTENDED_S = 300.0
MOST_STORAGE_ASKED = 16  # as many as coordinators: each may take a connection's time, for each document
NAMED_BY = {Kind.STORAGE: NamedBy.STORAGE, Kind.PEER: NamedBy.PEERS}


@dataclass(frozen=True)
class ClientConnector:
    """A client, and the connector whose connections it uses."""

    client: HttpClient[Endpoint]
    connector: LateConnector

    async def cut_off(self) -> None:
        """Idle connections, and those in the middle of a transfer."""
        await self.connector.cut_off()
        await self.client.aclose()


@dataclass(frozen=True)
class OwnLine:
    """The key of a client for one server, which shows what no CA of the coordinators' is asked about."""

    endpoint: Endpoint
    shown: Shown


@dataclass
class Sources:
    """The sources of one node; `identity` is what TLS shows of it."""

    node: RunningNode
    identity: TlsIdentity
    uniform: Callable[[float, float], float] = random.uniform
    system_roots: Path = SYSTEM_ROOTS
    wakes: int = 0  # hints so far
    _woken: trio.Event = field(default_factory=trio.Event)
    _attended_until: float = float("-inf")
    _answered_at: float = float("-inf")
    _lines: dict[object, ClientConnector] = field(default_factory=dict)
    _retired: list[tuple[Known, ClientConnector]] = field(default_factory=list)
    _mirrors: tuple[Grants | LateGrants | None, list[Mirror]] = (None, [])  # of these, the ones that are asked
    _known: dict[Known, Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.peers = Peers(self.node)
        self._coordinators = Coordinators(self.node, tuple(configured_endpoints(self.node.settings)))
        self._believed = authorities.believed_authorities(self.node)
        self.addresses = KeptAddresses(self.node.remembered.addresses, self.node.now)

    def coordinators(self) -> list[Source]:
        """The last that worked first. A manual map has none: nobody is reported to (rules K3)."""
        return self._coordinator_sources() if self.node.settings.coordinator is not None else []

    def all(self) -> list[Source]:
        """In the order in which they are asked for documents."""
        return [*self._pollable(), *self._peer_sources()]

    def rested_sources(self) -> Iterator[Source]:
        return (source for source in self.all() if source.is_rested)

    def peer_sources(self) -> list[Source]:
        """In the order in which they are asked."""
        return list(self._peer_sources())

    def in_order_for(self, scope: str) -> list[Source]:
        """Those that may be asked now for a document. A relay of the site comes first for what others are given too, so
        that it travels over the site's link once; one that fails, after its back-off. A relay asks no other first.
        """
        rested = list(self.rested_sources())
        if parse_scope(scope)[0] not in SHAREABLE or self.node.settings.peers.relay:
            return rested
        return sorted(rested, key=lambda source: not is_relay(source))

    @property
    def is_attended(self) -> bool:
        """Whether an operator has asked lately for what is not fetched unattended (rules K7, K38)."""
        return trio.current_time() < self._attended_until

    def attend(self) -> None:
        """An operator asks: for a while everything is fetched, and at once."""
        self._attended_until = trio.current_time() + ATTENDED_S
        self.wake()

    def wake(self) -> None:
        """A hint that it is worth asking now (rules P14, J44)."""
        for source in self._known.values():
            source.wake()
        self.wakes += 1
        self._woken.set()
        self._woken = trio.Event()

    async def wait_woken(self, seen: int) -> None:
        """Until there are more hints than these: one that came while something else was done counts."""
        while self.wakes <= seen:
            await self._woken.wait()

    async def wait_pollable(self, least_s: float, most_s: float) -> None:
        """Until one may be asked for a head again, or a hint comes; seconds that it takes at least and at most."""
        asked = [max(source.not_before, source.poll_again_at) for source in self._pollable()]
        rest_s = min(asked, default=trio.current_time() + most_s) - trio.current_time()
        with trio.move_on_after(min(most_s, max(least_s, rest_s))):
            await self._woken.wait()

    def report(self) -> tuple[AskedSource, ...]:
        """The coordinators, others that were asked, and peers, in their order; it connects to none."""
        self._place_peers()
        known = {(source.kind, source.endpoint): source for source in self._known.values()}
        named = {(self._first_kind, endpoint): named_by for endpoint, named_by in self._coordinators.askable().items()}
        others = [key for key in known if key[0] in NAMED_BY]
        named |= {key: NAMED_BY[key[0]] for key in sorted(others, key=lambda key: list(Kind).index(key[0]))}
        return tuple(_report(*key, named_by, known.get(key)) for key, named_by in named.items())

    async def aclose(self) -> None:
        for line in [*self._lines.values(), *(line for _, line in self._retired)]:
            await line.client.aclose()

    async def renew(self, identity: TlsIdentity) -> None:
        """A new certificate: new contexts, for the next connection (threats D-49). A request that waits over an old
        connection may end first, for as long as whom it asks is somebody.
        """
        self.identity = identity
        lines = [(known, self._lines.get(self._line_key(*known))) for known in self._known]
        self._retired += [(known, line) for known, line in lines if line is not None]
        self._lines.clear()
        self._known.clear()
        for _, line in list(self._retired):
            await line.client.aclose()

    async def follow(self) -> None:
        """To the coordinators that the accepted `node_bootstrap` lists, and the CAs. Called once that may be another
        one.
        """
        await self._follow_authorities()
        await self._coordinators.follow()
        await self._forget_coordinators()
        await self.keep()

    async def keep(self) -> None:
        """What is to outlive this process: by which addresses sources were reached, and which peers have worked."""
        for rows, name, row in (
            (self.addresses, Name.ROUTES, ADDRESSES_ROW),
            (self.peers.cache, Name.PEERS, PEERS_ROW),
        ):
            if rows.is_changed:
                try:
                    await self.node.threads.write(self.node.store.table(name).put, row, rows.to_row())
                except StoreError as error:
                    rows.is_changed = True
                    log.warning("row not kept", row=row, fault=error.fault, detail=error.detail)

    @property
    def answered_s_ago(self) -> float:
        """Since a coordinator has answered as one; infinite where none has since the start."""
        return trio.current_time() - self._answered_at

    async def note_answer(self, source: Source) -> None:
        """A coordinator has, as one does: those that were replaced by it are not kept longer (rules P25)."""
        self._answered_at = trio.current_time()
        self.addresses.note_answer(source.endpoint)
        await self._coordinators.note_answer(source.endpoint)
        await self._forget_coordinators()
        await self.keep()

    @asynccontextmanager
    async def last_resort(self, source: Source) -> AsyncIterator[Source]:
        """The same source, also where its chain ends at a CA that is believed for trust bundles alone."""
        node, authority, identity = self.node, first_authority(self.node.settings), self.identity
        anybody = authorities.last_resort_of(node)
        connector = LateConnector(
            lambda: authority_connector(anybody, authority, identity), str(authority), self.addresses
        )
        line = ClientConnector(HttpClient(connector, deadlines(node.settings)), connector)
        try:
            yield replace(source, client=line.client, back_off=BackOff(self.uniform))
        finally:
            with trio.CancelScope(shield=True):
                await line.cut_off()

    async def forget_removed(self) -> None:
        """Who is pinned no more is nobody: no connection to it is kept, nor a transfer over it (threats D-49); nor is a
        mirror whose own certificate or CA is no longer believed of it. Called once that may be so.
        """
        trusted = {(peer.endpoint, peer.pins) for peer in self.peers.trusted_peers()}
        listed = {(mirror.url, mirror.tls) for mirror in self._asked_mirrors()}

        def is_gone(kind: Kind, endpoint: Endpoint, shown: Shown) -> bool:
            if kind is Kind.PEER:
                return (endpoint, shown) not in trusted
            return kind is Kind.STORAGE and shown != NO_PINS and (url_of(endpoint), shown) not in listed

        await self._forget(is_gone)

    # ---- inside

    async def _follow_authorities(self) -> None:
        """New contexts, for the next connection. A CA that is believed no more takes its connections with it: whoever
        has its key may be at the other end.
        """
        await self._keep_authorities()
        before, now = self._believed, authorities.believed_authorities(self.node)
        if now == before:
            return
        self._believed = now
        log.info("CAs", listed=[fingerprint(der) for der in now.ders], with_file=now.with_file)
        for error in authorities.signed_authorities(self.node.holdings.authorities).passed_over:
            log.warning("CA passed over", error=error)
        if set(before.ders) <= set(now.ders) and before.with_file <= now.with_file:
            await self.renew(self.identity)
            return
        lines = [self._lines.pop(key) for key in list(self._lines) if not isinstance(key, OwnLine)]
        self._known = {key: source for key, source in self._known.items() if key[2]}
        lines += [line for _, line in self._retired]
        self._retired.clear()
        for line in lines:
            await line.cut_off()

    async def _keep_authorities(self) -> None:
        """Durable before a list that lacks one of them can follow, and before the document is let go."""
        node, document = self.node, self.node.holdings.kept.active.get(BOOTSTRAP)
        if document is None or node.settings.coordinator is None:
            return
        signed = authorities.signed_authorities(node.holdings.authorities)
        before = authorities.parse_row(node.authorities_row)
        signers = () if node.holdings.scopes[BOOTSTRAP].signer_revoked else document.signers
        seen = authorities.after_list(before, document.envelope.authority_epoch, signed.ders, signers)
        if seen == before:
            return
        row = seen.to_row()
        try:
            await node.threads.write(node.store.table(Name.HEALTH).put, AUTHORITIES_ROW, row)
            node.authorities_row = row
        except StoreError as error:
            log.warning("CAs not kept", fault=error.fault, detail=error.detail)

    @property
    def _first_kind(self) -> Kind:
        return Kind.COORDINATOR if self.node.settings.coordinator is not None else Kind.MANUAL

    def _pollable(self) -> list[Source]:
        """All but peers, which hold no heads of ours."""
        return [*self._coordinator_sources(), *self._storage()]

    def _coordinator_sources(self) -> list[Source]:
        """Those that were replaced come last, however well they work: else the new ones would never be asked."""
        asked = self._coordinators.askable()
        kind, own = self._first_kind, own_tls(self.node.settings)
        found = [self._source(kind, endpoint, own.get(endpoint, NO_PINS)) for endpoint in asked]
        return sorted(found, key=lambda source: (asked[source.endpoint] is NamedBy.EARLIER, -source.worked_at))

    async def _forget_coordinators(self) -> None:
        asked = self._coordinators.askable()
        await self._forget(lambda kind, endpoint, _: kind is Kind.COORDINATOR and endpoint not in asked)

    async def _forget(self, is_gone: Callable[[Kind, Endpoint, Shown], bool]) -> None:
        """With what a former certificate of ours has begun there."""
        gone = [known for known in self._known if is_gone(*known)]
        for known in gone:
            del self._known[known]
        found = [self._lines.pop(self._line_key(*known), None) for known in gone]
        lines = [line for line in found if line is not None]
        lines += [line for known, line in self._retired if is_gone(*known)]
        self._retired = [(known, line) for known, line in self._retired if not is_gone(*known)]
        for line in lines:
            await line.cut_off()

    def _storage(self) -> Iterator[Source]:
        """Those of the last valid directory that are not revoked; without a fresh head, if policy allows (S55e)."""
        if not (mirrors := self._asked_mirrors()):
            return
        facts, now = self.node.gate_facts(), self.node.now()
        for mirror in mirrors:
            question = Question("use_storage_endpoints", DIRECTORY, mirror.url)
            if not degraded.may(question, facts, now).allowed:
                continue
            try:
                yield self._source(Kind.STORAGE, Endpoint.parse(mirror.url), mirror.tls or NO_PINS)
            except BadEndpointError as error:
                log.warning("storage endpoint passed over", url=mirror.url, error=str(error))

    def _asked_mirrors(self) -> list[Mirror]:
        """Found once for each directory: it may list a great many."""
        held = self.node.holdings.scopes.get(DIRECTORY)
        grants = held.grants if held is not None else None
        if grants is not self._mirrors[0]:
            found = nsmallest(MOST_STORAGE_ASKED, grants.mirrors, key=_url_of) if grants is not None else []
            self._mirrors = grants, found
        return self._mirrors[1]

    def _peer_sources(self) -> Iterator[Source]:
        sets = self.peers.sets()
        ordered = ((PeerSet.ACTIVE, sets.active), (PeerSet.WARM, sets.warm), (PeerSet.COLD, sets.cold))
        for peer_set, peer in ((peer_set, peer) for peer_set, peers in ordered for peer in peers):
            if peer.endpoint is None:
                continue
            source = self._source(Kind.PEER, peer.endpoint, peer.pins)
            source.unattended = peer.automatic_refresh
            source.peer = PeerPlace(peer.node_id, peer_set, self.peers.is_near(peer), peer.is_bootstrap, peer.is_relay)
            source.note_outcome = partial(self._note_peer, peer.node_id)
            yield source

    def _place_peers(self) -> None:
        """As they are now. Who has no place among those that are asked is cold, until its turn comes."""
        placed = list(self._peer_sources())
        for source in self._known.values():
            if source.peer is not None and source not in placed:
                source.peer = replace(source.peer, peer_set=PeerSet.COLD)

    def _note_peer(self, node_id: str, worked: bool) -> None:
        if worked:
            self.peers.cache.note_worked(node_id)
        else:
            self.peers.cache.note_failed(node_id)

    def _source(self, kind: Kind, endpoint: Endpoint, shown: Shown = NO_PINS) -> Source:
        found = self._known.get((kind, endpoint, shown))
        if found is None:
            cap_s = float(self.node.settings.intervals.backoff_cap_s)
            client = self._client(kind, endpoint, shown)
            unattended = kind is not Kind.MANUAL or endpoint in unattended_endpoints(self.node.settings)
            found = Source(kind, endpoint, client, BackOff(self.uniform, cap_s=cap_s), unattended)
            self._known[kind, endpoint, shown] = found
        return found

    def _client(self, kind: Kind, endpoint: Endpoint, shown: Shown) -> HttpClient[Endpoint]:
        settings, key = self.node.settings, self._line_key(kind, endpoint, shown)
        if key not in self._lines:
            connector = self._connector(shown, authority_of(settings, endpoint))
            self._lines[key] = ClientConnector(HttpClient(connector, deadlines(settings)), connector)
        return self._lines[key].client

    def _line_key(self, kind: Kind, endpoint: Endpoint, shown: Shown) -> object:
        """A peer, a mirror with a certificate or CA of its own, and a coordinator that is listed have a client of their
        own: its connections may have to end.
        """
        if shown != NO_PINS:
            return OwnLine(endpoint, shown)
        if kind is Kind.COORDINATOR and not endpoint.configured:
            return endpoint
        return authority_of(self.node.settings, endpoint)

    def _connector(self, shown: Shown, authority: Path | None) -> LateConnector:
        identity, addresses = self.identity, self.addresses
        if isinstance(shown, MirrorTls):
            return LateConnector(lambda: mirror_connector(shown, self.system_roots), str(self.system_roots), addresses)
        if shown:
            return LateConnector(lambda: HttpsConnector.to_node(shown, identity), str(identity.certificate), addresses)
        files = f"{authority} and {identity.certificate}" if authority else "agent.toml"
        return LateConnector(
            lambda: authority_connector(authorities.believed_authorities(self.node), authority, identity),
            files,
            addresses,
        )


def is_relay(source: Source) -> bool:
    """Of this node's site."""
    return source.peer is not None and source.peer.is_relay


def _url_of(mirror: Mirror) -> str:
    return mirror.url


def configured_endpoints(settings: AgentSettings) -> Iterator[Endpoint]:
    urls = (
        settings.coordinator.urls
        if settings.coordinator
        else [coordinator.url for coordinator in settings.manual or ()]
    )
    return (Endpoint.parse(url, configured=True) for url in urls)


def authority_of(settings: AgentSettings, endpoint: Endpoint) -> Path | None:
    """The CA file that an endpoint's chain must end at: of a manual map its own entry's."""
    entries = {Endpoint.parse(entry.url, configured=True): entry.ca_file for entry in settings.manual or ()}
    return entries.get(endpoint) or first_authority(settings)


def first_authority(settings: AgentSettings) -> Path | None:
    """Of the coordinators; of a manual map the first entry's that has one, if any has."""
    if settings.coordinator is not None:
        return settings.coordinator.ca_file
    return next((entry.ca_file for entry in settings.manual or () if entry.ca_file is not None), None)


def own_tls(settings: AgentSettings) -> dict[Endpoint, MirrorTls]:
    """Of a manual map: the entries without a CA file."""
    entries = settings.manual or ()
    return {Endpoint.parse(entry.url, configured=True): entry.tls for entry in entries if entry.tls is not None}


def unattended_endpoints(settings: AgentSettings) -> frozenset[Endpoint]:
    """Of a manual map: the sources from which a full resync may start unattended (rules K7)."""
    entries = settings.manual or ()
    return frozenset(Endpoint.parse(entry.url, configured=True) for entry in entries if entry.automatic_refresh)


def deadlines(settings: AgentSettings) -> Deadlines:
    return Deadlines(connect_s=settings.intervals.connect_s, silence_s=settings.intervals.silence_s)


def _report(kind: Kind, endpoint: Endpoint, named_by: NamedBy, source: Source | None) -> AskedSource:
    """For the status; without a source: it was not asked yet."""
    peer = source.peer if source else None
    return AskedSource(
        kind=str(kind),
        url=str(endpoint),
        named_by=str(NamedBy.CONFIGURATION if peer and peer.is_bootstrap else named_by),
        error=source.error if source else "",
        failures=source.back_off.failures if source else 0,
        again_in_s=int(source.again_in_s) if source else 0,
        node_id=peer.node_id if peer else None,
        peer_set=str(peer.peer_set) if peer else None,
        near=peer.is_near if peer else None,
        relay=peer.is_relay if peer else None,
        worked_s_ago=source.worked_s_ago if source else None,
        lacks=source.lacks if source and peer else None,
        trust_bundle_version=source.told_bundle if source else None,
    )

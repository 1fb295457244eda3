"""Where documents come from, and in which order (protocol.md 1; rules S64, K50, X27, X28, P16).

The configured coordinators, the storage endpoints of the last valid `storage_directory`, peers of the `peer_directory`
with their pinned certificates. Each has its own back-off; what is revoked is not asked. DNS is asked at each attempt,
the last working address first (wire/client.py).
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import trio

from agent import degraded
from agent.configuration import Settings
from agent.connecting import LateConnector
from agent.degraded import Question
from agent.node import Node
from agent.peers import Peers
from agent.source import Kind, Source
from wire.backoff import BackOff
from wire.client import Client, Deadlines, HttpsConnector
from wire.contexts import Identity
from wire.endpoint import BadEndpointError, Endpoint

Pins = frozenset[bytes]

DIRECTORY = "storage_directory"
NO_PINS: Pins = frozenset()
ATTENDED_S = 300.0
MOST_PEERS_ASKED = 5  # rules, Numbers: peer sets, active

log = structlog.get_logger(__name__)


@dataclass
class Sources:
    """The sources of one node; `identity` is what TLS shows of it."""

    node: Node
    identity: Identity
    uniform: Callable[[float, float], float] = random.uniform
    _configured: tuple[Endpoint, ...] = field(init=False)
    _woken: trio.Event = field(default_factory=trio.Event)
    _attended_until: float = float("-inf")
    _clients: dict[object, Client[Endpoint]] = field(default_factory=dict)
    _retired: list[Client[Endpoint]] = field(default_factory=list)
    _known: dict[tuple[Kind, Endpoint, Pins], Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._peers = Peers(self.node)
        self._configured = tuple(configured_endpoints(self.node.settings))

    def coordinators(self) -> list[Source]:
        """The last that worked first. A manual map has none: nobody is reported to (rules K3)."""
        return self._configured_sources() if self.node.settings.coordinator is not None else []

    def all(self) -> list[Source]:
        """In the order in which they are asked for documents."""
        return [*self._configured_sources(), *self._storage(), *self._peer_sources()]

    def rested(self) -> Iterator[Source]:
        return (source for source in self.all() if source.is_rested)

    @property
    def attended(self) -> bool:
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
        self._woken.set()
        self._woken = trio.Event()

    async def wait_pollable(self, least_s: float, most_s: float) -> None:
        """Until one may be asked for a head again, or a hint comes; seconds that it takes at least and at most."""
        polled = (source for source in self._known.values() if source.kind is not Kind.PEER)
        asked = [max(source.not_before, source.poll_again_at) for source in polled]
        rest_s = min(asked, default=0.0) - trio.current_time()
        with trio.move_on_after(min(most_s, max(least_s, rest_s))):
            await self._woken.wait()

    def report(self) -> list[dict[str, object]]:
        """Those that were asked, and the configured ones, in their order; it connects to none."""
        known = {(source.kind, source.endpoint): source for source in self._known.values()}
        configured = [(self._configured_kind, endpoint) for endpoint in self._configured]
        ordered = dict.fromkeys([*configured, *sorted(known, key=lambda key: list(Kind).index(key[0]))])
        return [_report(kind, endpoint, known.get((kind, endpoint))) for kind, endpoint in ordered]

    async def aclose(self) -> None:
        for client in [*self._clients.values(), *self._retired]:
            await client.aclose()

    async def renewed(self, identity: Identity) -> None:
        """A new certificate: new contexts, for the next connection (threats D-49). A request that waits over an old
        connection may end first.
        """
        self.identity = identity
        self._retired += self._clients.values()
        self._clients.clear()
        self._known.clear()
        for client in self._retired:
            await client.aclose()

    async def forget_removed(self) -> None:
        """Who is pinned no more is nobody: no connection to it is kept (threats D-49). Called once that may be so."""
        listed = {(peer.endpoint, peer.pins) for peer in self._peers.listed()}
        gone = [key for key in self._known if key[0] is Kind.PEER and key[1:] not in listed]
        for key in gone:
            del self._known[key]
            client = self._clients.pop(key[2], None)
            if client is not None:
                await client.aclose()

    # ---- inside

    @property
    def _configured_kind(self) -> Kind:
        return Kind.COORDINATOR if self.node.settings.coordinator is not None else Kind.MANUAL

    def _configured_sources(self) -> list[Source]:
        found = [self._source(self._configured_kind, endpoint) for endpoint in self._configured]
        return sorted(found, key=lambda source: -source.worked_at)

    def _storage(self) -> Iterator[Source]:
        """Those of the last valid directory that are not revoked; without a fresh head, if policy allows (S55e)."""
        held = self.node.holdings.scopes.get(DIRECTORY)
        if held is None:
            return
        facts, now = self.node.gate_facts(), self.node.now()
        for url in sorted(held.grants.endpoints):
            question = Question("use_storage_endpoints", DIRECTORY, url)
            if not degraded.may(question, facts, now).allowed:
                continue
            try:
                yield self._source(Kind.STORAGE, Endpoint.parse(url))
            except BadEndpointError as error:
                log.warning("storage endpoint passed over", url=url, error=str(error))

    def _peer_sources(self) -> Iterator[Source]:
        for peer in self._peers.usable()[:MOST_PEERS_ASKED]:
            yield self._source(Kind.PEER, peer.endpoint, peer.pins)

    def _source(self, kind: Kind, endpoint: Endpoint, pins: Pins = NO_PINS) -> Source:
        found = self._known.get((kind, endpoint, pins))
        if found is None:
            cap_s = float(self.node.settings.intervals.backoff_cap_s)
            client = self._client(endpoint, pins)
            unattended = kind is not Kind.MANUAL or endpoint in unattended_endpoints(self.node.settings)
            found = Source(kind, endpoint, client, BackOff(self.uniform, cap_s=cap_s), unattended)
            self._known[kind, endpoint, pins] = found
        return found

    def _client(self, endpoint: Endpoint, pins: Pins) -> Client[Endpoint]:
        settings = self.node.settings
        key: object = pins or authority_of(settings, endpoint)
        if key not in self._clients:
            self._clients[key] = Client(self._connector(pins, authority_of(settings, endpoint)), deadlines(settings))
        return self._clients[key]

    def _connector(self, pins: Pins, authority: Path) -> LateConnector:
        identity = self.identity
        if pins:
            return LateConnector(lambda: HttpsConnector.to_node(pins, identity), str(identity.certificate))
        files = f"{authority} and {identity.certificate}"
        return LateConnector(lambda: HttpsConnector.to_authority(authority, identity), files)


def configured_endpoints(settings: Settings) -> Iterator[Endpoint]:
    urls = settings.coordinator.urls if settings.coordinator else [one.url for one in settings.manual or ()]
    return (Endpoint.parse(url, configured=True) for url in urls)


def authority_of(settings: Settings, endpoint: Endpoint) -> Path:
    """The CA file that an endpoint's chain must end at: of a manual map its own entry's."""
    if settings.coordinator is not None:
        return settings.coordinator.ca_file
    entries = {Endpoint.parse(one.url, configured=True): one.ca_file for one in settings.manual or ()}
    first = next(iter(entries.values()))
    return entries.get(endpoint, first)


def unattended_endpoints(settings: Settings) -> frozenset[Endpoint]:
    """Of a manual map: the sources from which a full resync may start unattended (rules K7)."""
    entries = settings.manual or ()
    return frozenset(Endpoint.parse(one.url, configured=True) for one in entries if one.automatic_refresh)


def deadlines(settings: Settings) -> Deadlines:
    return Deadlines(connect_s=settings.intervals.connect_s, silence_s=settings.intervals.silence_s)


def _report(kind: Kind, endpoint: Endpoint, source: Source | None) -> dict[str, object]:
    """JSON, for the status; without a source: it was not asked yet."""
    return {
        "kind": str(kind),
        "url": str(endpoint),
        "error": source.error if source else "",
        "failures": source.back_off.failures if source else 0,
        "again_in_s": int(source.again_in_s) if source else 0,
    }

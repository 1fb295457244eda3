"""Where documents come from, and in which order (protocol.md 1; rules S64, K50, X27, X28, P16).

The configured coordinators, the storage endpoints of the last valid `storage_directory`, peers of the `peer_directory`
with their pinned certificates. Each has its own back-off; what is revoked is not asked. DNS is asked at each attempt,
the last working address first (wire/client.py).
"""

import base64
import binascii
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import structlog
import trio

from agent import degraded
from agent.configuration import Settings
from agent.degraded import Question
from agent.node import Node
from snapshot import canonical
from store.errors import StoreError
from wire.backoff import BackOff
from wire.client import Client, ClientError, Deadlines, HttpsConnector
from wire.contexts import Identity
from wire.endpoint import BadEndpointError, Endpoint

PEERS, DIRECTORY = "peer_directory", "storage_directory"
MOST_PEERS_ASKED = 5  # rules, Numbers: peer sets, active

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    COORDINATOR = "coordinator"
    STORAGE = "storage"
    PEER = "peer"


@dataclass
class Source:
    """`not_before`: trio's clock. A source that fails is left alone until then."""

    kind: Kind
    endpoint: Endpoint
    client: Client[Endpoint]
    back_off: BackOff
    not_before: float = 0.0
    error: str = ""
    worked_at: float = float("-inf")

    def __str__(self) -> str:
        return str(self.endpoint)

    @property
    def is_rested(self) -> bool:
        return trio.current_time() >= self.not_before

    def worked(self) -> None:
        self.back_off.succeeded()
        self.error, self.not_before, self.worked_at = "", 0.0, trio.current_time()

    def failed(self, error: ClientError | str) -> None:
        """Nothing good came of it: it is asked again after its back-off, or later where it says so."""
        retry_after_s = error.retry_after_s if isinstance(error, ClientError) else None
        self.error = str(error)[:256]
        self.not_before = trio.current_time() + self.back_off.failed(retry_after_s)

    def pause(self, seconds: float) -> None:
        self.not_before = trio.current_time() + seconds


@dataclass
class Sources:
    """The sources of one node; `identity` is what TLS shows of it."""

    node: Node
    identity: Identity
    uniform: Callable[[float, float], float] = random.uniform
    _configured: tuple[Endpoint, ...] = field(init=False)
    _woken: trio.Event = field(default_factory=trio.Event)
    _clients: dict[object, Client[Endpoint]] = field(default_factory=dict)
    _retired: list[Client[Endpoint]] = field(default_factory=list)
    _known: dict[tuple[Kind, Endpoint], Source] = field(default_factory=dict)
    _peers: tuple[object, list[tuple[Endpoint, frozenset[bytes]]]] = (None, [])

    def __post_init__(self) -> None:
        self._configured = tuple(configured_endpoints(self.node.settings))

    def coordinators(self) -> list[Source]:
        """The configured ones, the last that worked first."""
        found = [self._source(Kind.COORDINATOR, endpoint) for endpoint in self._configured]
        return sorted(found, key=lambda source: -source.worked_at)

    def all(self) -> list[Source]:
        """In the order in which they are asked for documents."""
        return [*self.coordinators(), *self._storage(), *self._peer_sources()]

    def rested(self) -> Iterator[Source]:
        return (source for source in self.all() if source.is_rested)

    def wake(self) -> None:
        """A hint that it is worth asking now (rules P14, J44)."""
        for source in self._known.values():
            source.not_before = 0.0
        self._woken.set()
        self._woken = trio.Event()

    async def wait_rested(self, least_s: float, most_s: float) -> None:
        """Until one that was asked may be asked again, or a hint comes; seconds that it takes at least and at most."""
        asked = [source.not_before for source in self._known.values() if source.kind is not Kind.PEER]
        rest_s = min(asked, default=0.0) - trio.current_time()
        with trio.move_on_after(min(most_s, max(least_s, rest_s))):
            await self._woken.wait()

    def report(self) -> list[dict[str, object]]:
        """Those that were asked, and the configured ones; it connects to none, nor needs an identity to."""
        asked = [
            {"kind": str(source.kind), "url": str(source), "error": source.error, "failures": source.back_off.failures}
            for source in self._known.values()
        ]
        told = {row["url"] for row in asked}
        rest = [str(endpoint) for endpoint in self._configured if str(endpoint) not in told]
        return [*asked, *({"kind": str(Kind.COORDINATOR), "url": url, "error": "", "failures": 0} for url in rest)]

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

    # ---- inside

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
        for endpoint, pins in self._pinned_peers()[:MOST_PEERS_ASKED]:
            yield self._source(Kind.PEER, endpoint, pins)

    def _pinned_peers(self) -> list[tuple[Endpoint, frozenset[bytes]]]:
        """Peers with an address and a certificate; a peer without a pin is not connected to (threats D-49)."""
        document = self.node.holdings.kept.active.get(PEERS)
        held = self.node.holdings.scopes.get(PEERS)
        if document is None or held is None or self.node.now() >= held.expires_at:
            return []
        revoked = self.node.holdings.revocations.node_ids
        if self._peers[0] != (document.envelope_hash, revoked):
            try:
                sections = [document.read(name) for name in document.sections if name.split(".")[0] == "peers"]
            except StoreError:
                return []
            self._peers = (document.envelope_hash, revoked), sorted(_read_peers(sections, revoked), key=str)
        return self._peers[1]

    def _source(self, kind: Kind, endpoint: Endpoint, pins: frozenset[bytes] = frozenset()) -> Source:
        found = self._known.get((kind, endpoint))
        if found is None:
            cap_s = float(self.node.settings.intervals.backoff_cap_s)
            client = self._client(endpoint, pins)
            found = Source(kind, endpoint, client, BackOff(self.uniform, cap_s=cap_s))
            self._known[kind, endpoint] = found
        return found

    def _client(self, endpoint: Endpoint, pins: frozenset[bytes]) -> Client[Endpoint]:
        settings = self.node.settings
        key: object = pins or authority_of(settings, endpoint)
        if key not in self._clients:
            connector = (
                HttpsConnector.to_node(pins, self.identity)
                if pins
                else HttpsConnector.to_authority(authority_of(settings, endpoint), self.identity)
            )
            self._clients[key] = Client(connector, deadlines(settings))
        return self._clients[key]


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


def deadlines(settings: Settings) -> Deadlines:
    return Deadlines(connect_s=settings.intervals.connect_s, silence_s=settings.intervals.silence_s)


def _read_peers(sections: list[bytes], revoked: frozenset[str]) -> Iterator[tuple[Endpoint, frozenset[bytes]]]:
    for section in sections:
        value = canonical.loads(section)
        for name, entry in value.items() if isinstance(value, dict) else ():
            peer = _read_peer(entry) if name not in revoked else None
            if peer is not None:
                yield peer


def _read_peer(entry: object) -> tuple[Endpoint, frozenset[bytes]] | None:
    """What is malformed authorises nothing (format.md 10)."""
    if not isinstance(entry, dict) or not isinstance(entry.get("certificates"), list):
        return None
    try:
        pins = frozenset(base64.b64decode(str(one), validate=True) for one in entry["certificates"])
        endpoint = Endpoint.parse(str(entry.get("url")))
    except (BadEndpointError, binascii.Error, ValueError):
        return None
    return (endpoint, pins) if pins else None

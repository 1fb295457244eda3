"""The daemon `holdfast-coordinator`: what is built, and what is started. Its nursery is the table of contents.

admin      the operator's Unix socket          protocol 2
fleet      nodes, by pinned certificates       protocol 1
join       who is no node yet                  protocol 1
probes     probes and metrics                  rules J46
publisher  collector  keeper                   documents out, reports in, what goes with time
"""

import argparse
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from sqlalchemy.exc import OperationalError

from coordinator import authority, clock, configuration, custody, heartbeats, signing_key
from coordinator.admin_api import AdminApi
from coordinator.api import NodeApi
from coordinator.authority_api import AuthorityApi
from coordinator.ceremony_api import CeremonyApi
from coordinator.collector import Collector
from coordinator.configuration import Address, Configuration, file_of
from coordinator.database import Database
from coordinator.heartbeats import Answer, Heartbeat, History
from coordinator.keeper import Keeper
from coordinator.metrics import Probes, Readiness
from coordinator.pinning import Pins
from coordinator.publisher import Publisher
from coordinator.refusal import Refused
from coordinator.running import Coordinator
from coordinator.signing_key import SigningKey, UnusableKeyError
from coordinator.threads import in_database
from coordinator.waiting import Board
from wire.certificate import BadCertificateError, pem_to_der
from wire.contexts import Identity
from wire.limits import LOCAL, REMOTE
from wire.pins import PinTable
from wire.routes import Routes
from wire.server import CAPACITY, Server
from wire.shedding import Gate
from wire.systemd import Notifier
from wire.tls import PinnedTransport, PlainTransport, ServerAuthTransport
from wire.unix import HOSTS, SocketError, UnixTransport, unix_listener

WRONG_CONFIGURATION = 78  # EX_CONFIG
COME_AGAIN = 75  # EX_TEMPFAIL: nothing is wrong here, and the service manager may start it anew

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Ports:
    """Where the TCP listeners are bound in the end (a configured port may be 0)."""

    fleet: int
    join: int
    probes: int


@dataclass(frozen=True)
class Daemon:
    """All parts, built and not yet started."""

    configuration: Configuration
    coordinator: Coordinator
    keeper: Keeper
    readiness: Readiness
    servers: dict[str, Server]
    transports: "tuple[PinnedTransport, ServerAuthTransport]"

    async def serve(self, *, task_status: "trio.TaskStatus[Ports]" = trio.TASK_STATUS_IGNORED) -> None:
        """Until SIGTERM or SIGINT, or cancelled."""
        notifier = Notifier()
        at = self.configuration
        with (
            trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals,
            unix_listener(at.admin_socket, mode=0o600) as admin,
        ):
            await self.keeper.look()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.coordinator.collector.run)
                nursery.start_soon(self.coordinator.publisher.run)
                nursery.start_soon(self.keeper.poll)
                nursery.start_soon(self.keeper.trim)
                nursery.start_soon(notifier.watchdog)
                fleet, join, probes = [await _listener(each) for each in (at.fleet, at.join, at.probes)]
                await nursery.start(self.servers["admin"].serve, admin)
                await nursery.start(self.servers["fleet"].serve, fleet)
                await nursery.start(self.servers["join"].serve, join)
                await nursery.start(self.servers["probes"].serve, probes)
                self.readiness.started = True
                notifier.ready(self.coordinator.standstill.reason or self.readiness.reason or "serving")
                ports = Ports(*(each.socket.getsockname()[1] for each in (fleet, join, probes)))
                _log.info("serving", **vars(ports))
                task_status.started(ports)
                await self._until_ended(signals)
                notifier.stopping()
                await self._wind_down()
                nursery.cancel_scope.cancel()

    async def _until_ended(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number != signal.SIGHUP:
                return
            self._reload()

    async def _wind_down(self) -> None:
        """No more callers; what runs may finish, and who waits is told."""
        for server in self.servers.values():
            server.stop()
        for server in self.servers.values():
            await server.wait_empty()

    def _reload(self) -> None:
        """Keys and certificates are read again; what cannot be read leaves the present ones as they are."""
        try:
            self.coordinator.publisher.keys = _config_keys(self.configuration)
            for transport in self.transports:
                transport.reload_identity()
        except (UnusableKeyError, OSError) as error:
            _log.error("not reloaded", reason=str(error))
            return
        self.coordinator.publisher.wake()
        _log.info("reloaded", keys=[key.key_id for key in self.coordinator.publisher.keys])


def build(at: Configuration, now: Callable[[], float] = clock.now) -> Daemon:
    """Everything, from its configuration. Refused, UnusableKeyError, OSError where it cannot be had."""
    database = _opened(at)
    identity = Identity(file_of(at.certificate), file_of(at.key))
    table = PinTable([pem_to_der(identity.certificate.read_bytes())])
    with database.read() as transaction:
        cluster_id = authority.standing(transaction).cluster_id
    board = Board()
    publisher = Publisher(database, _config_keys(at), at.settings, board, now)
    coordinator = Coordinator(
        cluster_id=cluster_id,
        coordinator_id=at.coordinator_id,
        database=database,
        settings=at.settings,
        token_key=_token_key(file_of(at.token_key)),
        board=board,
        publisher=publisher,
        collector=Collector(_recording(database, at, now)),
        pins=Pins(database, table),
        now=now,
    )
    readiness = Readiness()
    transports = PinnedTransport(table, identity, REMOTE), ServerAuthTransport(identity, REMOTE)
    servers = _servers(coordinator, readiness, *transports)
    return Daemon(at, coordinator, Keeper(coordinator, readiness), readiness, servers, transports)


def main() -> None:
    parser = argparse.ArgumentParser(prog="holdfast-coordinator", description="The Holdfast coordinator of a cluster.")
    parser.add_argument("--config", type=Path, help=f"coordinator.toml (default: {configuration.DEFAULT_PATH})")
    parser.add_argument("path", nargs="?", type=Path, metavar="CONFIG", help="the same, by its place")
    asked = parser.parse_args()
    try:
        daemon = build(configuration.load(asked.config or asked.path or configuration.DEFAULT_PATH))
    except (Refused, UnusableKeyError, BadCertificateError, OSError) as error:
        sys.exit(_said(error))
    except OperationalError as error:
        sys.exit(_said(ConnectionError(f"the database does not answer: {error.orig}"), COME_AGAIN))
    try:
        trio.run(daemon.serve, strict_exception_groups=True)
    except SocketError as error:
        sys.exit(_said(error))
    finally:
        daemon.coordinator.database.close()


def _servers(
    coordinator: Coordinator, readiness: Readiness, pinned: PinnedTransport, anonymous: ServerAuthTransport
) -> dict[str, Server]:
    """Fleet and joins share one gate: heads go before heartbeats, joins and documents, wherever they come in."""
    nodes = NodeApi(coordinator)
    gate = Gate(CAPACITY, random.random)
    apis = AdminApi(coordinator), AuthorityApi(coordinator), CeremonyApi(coordinator)
    operators = Routes(*(route for api in apis for route in api.routes()))
    servers = {
        "admin": Server("admin", operators, UnixTransport(), LOCAL, hosts=HOSTS),
        "fleet": Server("fleet", nodes.fleet_routes(), pinned, REMOTE, gate=gate),
        "join": Server("join", nodes.join_routes(), anonymous, REMOTE, gate=gate),
    }
    probes = Probes(coordinator, readiness, servers)
    return {**servers, "probes": Server("probes", probes.routes(), PlainTransport(), LOCAL)}


def _opened(at: Configuration) -> Database:
    """One coordinator for each SQLite file, and no schema newer than this program (rules P8)."""
    database = Database(at.database_url)
    database.claim()
    database.migrate()
    return database


def _recording(
    database: Database, at: Configuration, now: Callable[[], float]
) -> Callable[[Sequence[Heartbeat]], Awaitable[list[Answer]]]:
    settings = at.settings
    history = History(settings.heartbeat_history_slots, settings.heartbeat_history_slot_s)

    async def record(batch: Sequence[Heartbeat]) -> list[Answer]:
        return await in_database(heartbeats.record, database, batch, now=now(), history=history)

    return record


async def _listener(address: Address) -> trio.SocketListener:
    listeners = await trio.open_tcp_listeners(address.port, host=address.host, backlog=REMOTE.backlog)
    return listeners[0]


def _config_keys(at: Configuration) -> tuple[SigningKey, ...]:
    return custody.config_keys(at.keys_directory, os.environ)


def _token_key(path: Path) -> Ed25519PrivateKey:
    """Read with the care that signing_key.py takes."""
    private = load_pem_private_key(signing_key.from_file(path).to_pem(), None)
    if not isinstance(private, Ed25519PrivateKey):
        raise UnusableKeyError(f"{path}: tokens are signed with Ed25519 alone")
    return private


def _said(error: Exception, status: int = WRONG_CONFIGURATION) -> int:
    sys.stderr.write(f"holdfast-coordinator: {error}\n")
    return status

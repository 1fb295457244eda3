"""The daemon `holdfast-coordinator`: what is built, and what is started. Its nursery is the table of contents.

servers    who may ask what: listeners.py
publisher  board  collector  seen  keeper    documents out, reports in, what goes with time
rollouts                             changes, from ring to ring
door  reminder  lately               operators from afar, what ends, the fleet in numbers
storages                             what is published, in the stores that are declared
"""

import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from coordinator.api import listeners
from coordinator.api.listeners import Transports
from coordinator.base import clock, core_dumps, interpreter
from coordinator.base.clock_jump import HOLD_S, Leap
from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_database
from coordinator.changes.votes import VoteCount
from coordinator.configs.apply_cache import LastRead
from coordinator.database import history, object_store, own_entry
from coordinator.database.database import Database
from coordinator.database.database_fault import first_line, line_of
from coordinator.database.own_entry import AwaitedHistory
from coordinator.declared import value_shapes
from coordinator.keys import identity, server_certificate, signing_key, tokens
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.signing_key import UnusableKeyError
from coordinator.membership import ca_exchange, replicas
from coordinator.membership.pin_sync import PinSync
from coordinator.publishing.board import Board
from coordinator.publishing.publisher import Publisher
from coordinator.replicas.claims import Claims
from coordinator.reports import heartbeats
from coordinator.reports.collector import HeartbeatCollector
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.reports.heartbeats import History
from coordinator.reports.last_seen import Seen
from coordinator.reports.report_merge import RecordedAnswer
from coordinator.rollout.rollout import Rollouts
from coordinator.runtime.absence import Absence
from coordinator.runtime.context import Coordinator, ShownCertificate, Standstill
from coordinator.runtime.fleet_figures import Lately
from coordinator.runtime.maintenance import Keeper
from coordinator.runtime.metrics import Readiness
from coordinator.runtime.own_report import OwnReport
from coordinator.runtime.recovering import Recovering, RecoverySettings
from coordinator.runtime.reminder import Reminder
from coordinator.runtime.remote_admin import Door
from coordinator.runtime.repeating import Repeater, repeated_heads
from coordinator.runtime.trims import Trims
from coordinator.setup import configuration, lost_database
from coordinator.setup.configuration import CREDENTIAL, Configuration, file_of
from coordinator.setup.opening import link_as_coordinator, open_as_coordinator
from coordinator.setup.ports import Ports, bound_to
from coordinator.storage.storages import StorageKeeper
from coordinator.storage.ways import Ways
from wire.certificate import BadCertificateError, Certificate, KeyPair, fingerprint
from wire.endpoint import Endpoint
from wire.limits import JOIN, REMOTE
from wire.listening import ListenError
from wire.logs import last_words, log, set_up_logging
from wire.pins import PinTable
from wire.server import Server
from wire.systemd import SystemdNotifier
from wire.tls_contexts import TlsIdentity, alert_of, server_context
from wire.unix import SocketError, SocketFault, unix_listener

WRONG_CONFIGURATION = 78  # EX_CONFIG
NOTHING_HELD = "a coordinator that starts without it has nothing to sign again, and comes again once it is back"
COME_AGAIN = 75  # EX_TEMPFAIL: nothing is wrong here, and the service manager may start it anew


@dataclass(frozen=True)
class Daemon:
    """All parts, built and not yet started."""

    configuration: Configuration
    coordinator: Coordinator
    keeper: Keeper
    repeater: Repeater
    trims: Trims
    own_report: OwnReport
    recovering: Recovering | None
    door: Door
    reminder: Reminder
    lately: Lately
    readiness: Readiness
    servers: dict[str, Server]
    transports: Transports

    async def serve(self, *, task_status: "trio.TaskStatus[Ports]" = trio.TASK_STATUS_IGNORED) -> None:
        """Until SIGTERM or SIGINT, or cancelled. SocketError, ListenError before anybody is let in."""
        at, peers = self.configuration, self.coordinator.peers
        peers.take_up, peers.link = self._reload, partial(link_as_coordinator, at, self.coordinator.database)
        peers.roots = at.roots
        peers.ask = None if self.recovering is None else self.recovering.attempt
        with (
            trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals,
            unix_listener(at.admin_socket, mode=0o600, setting="[listen] admin_socket") as admin,
        ):
            async with bound_to(at) as bound:
                await self._serve_at({"admin": admin, **bound}, Ports.of(bound), signals, task_status)

    async def _serve_at(
        self,
        places: Mapping[str, trio.abc.Listener[trio.SocketStream]],
        ports: Ports,
        signals: AsyncIterator[int],
        task_status: "trio.TaskStatus[Ports]",
    ) -> None:
        notifier = SystemdNotifier()
        await self.keeper.look()
        await self.door.look()
        await self.reminder.remind()
        await self.own_report.note()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.coordinator.board.run)
            nursery.start_soon(self.coordinator.collector.run)
            nursery.start_soon(self.coordinator.publisher.run)
            nursery.start_soon(self.coordinator.rollouts.run)
            nursery.start_soon(self.coordinator.seen.run)
            nursery.start_soon(self.keeper.poll)
            nursery.start_soon(self.repeater.run)
            nursery.start_soon(self.keeper.trim)
            nursery.start_soon(self.keeper.link)
            nursery.start_soon(self.keeper.walk)
            nursery.start_soon(self.trims.note_readiness)
            nursery.start_soon(self.trims.run)
            nursery.start_soon(self.coordinator.storages.run)
            nursery.start_soon(self.own_report.run)
            if self.recovering is not None:
                nursery.start_soon(self.recovering.run)
            nursery.start_soon(self.keeper.note_refused_joins)
            nursery.start_soon(self.reminder.poll)
            nursery.start_soon(self.lately.run)
            nursery.start_soon(interpreter.tidy)
            nursery.start_soon(notifier.watchdog)
            nursery.start_soon(self.door.keep, self.configuration.settings.store_polling_s)
            for name, listener in places.items():
                await nursery.start(self.servers[name].serve, listener)
            nursery.start_soon(self._say_started)
            notifier.ready(self.readiness.reason or self.coordinator.fault or "serving")
            log.info("serving", **vars(ports))
            self._say_what_is_open()
            task_status.started(ports)
            await self._wait_for_end(signals)
            notifier.stopping()
            await self._wind_down()
            nursery.cancel_scope.cancel()

    def _say_what_is_open(self) -> None:
        if not self.coordinator.settings.guarded_changes:
            log.warning("changes are not guarded: guarded_changes is false, an apply reaches all nodes at once")
        if self.coordinator.database.history is None and not self.coordinator.standstill.history:
            log.warning(f"what is changed is not proven: this cluster has no signed history ({history.BEGIN})")

    async def _say_started(self) -> None:
        """Once all ports serve, and the other coordinators were asked once (rules H18)."""
        if self.recovering is not None:
            await self.recovering.tried.wait()
        self.readiness.started = True

    async def _wait_for_end(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number != signal.SIGHUP:
                return
            await self._reload()

    async def _wind_down(self) -> None:
        """No more callers; what runs may finish, and who waits is told."""
        for server in self.servers.values():
            server.stop()
        for server in self.servers.values():
            await server.wait_empty()
        await self.coordinator.seen.write()
        await self.own_report.note(is_stopped=True)
        await self.coordinator.refused_joins.flush(self.coordinator.database, self.coordinator.now())

    async def _reload(self) -> None:
        """Keys and certificates are read again: all of it is taken, or all stays as it is."""
        at, coordinator = self.configuration, self.coordinator
        try:
            keys, shown = coordinator.secrets.config_keys(), _server_identity(at)
            shapes = value_shapes.load(at.value_shapes)
            certificate = _shown_certificate(at, shown)
            async with coordinator.standstill.reading:  # or a look that has begun follows the one before
                await in_database(_follow, coordinator.database, at, shown, coordinator.token_key, coordinator.now())
                vars(coordinator.shown).update(vars(certificate))
        except (UnusableKeyError, BadCertificateError, Refused, OSError) as error:
            log.error("not reloaded", reason=str(error))  # noqa: TRY400 - no trace needed
            return
        except SQLAlchemyError as error:
            log.error("not reloaded", reason=line_of(error))  # noqa: TRY400 - no trace needed
            return
        for table in (coordinator.pins.table, self.door.table):
            table.add_own(shown.der)
        self.transports.show(shown)
        coordinator.publisher.sign_with(keys)
        coordinator.last_read.look_for(shapes)
        await self.keeper.look()  # whoever asks now is told what holds for these keys
        await self.own_report.note()
        log.info("reloaded", keys=[key.key_id for key in keys])


def build(at: Configuration, now: Callable[[], float] = clock.now) -> Daemon:
    """Everything, from its configuration. Refused, UnusableKeyError, OSError where it cannot be had."""
    database = _open(at)
    _await_history(database, at)
    shown = _server_identity(at)
    table = PinTable([shown.der])
    token_key = _token_key(file_of(at.token_key))
    cluster_id = lost_database.standing(database, at).cluster_id
    _follow_where_possible(database, at, shown, token_key, now())
    board = Board()
    leap = Leap(clock.now, clock.elapsed_s, min(HOLD_S, at.settings.head_refresh_s / 2))
    present = _shown_certificate(at, shown)
    secrets = OwnSecrets(at.keys_directory.absolute(), os.environ, is_kept=at.settings.keep_secrets)
    standstill, absence = Standstill(), Absence(at.settings.database_away_s, clock.elapsed_s)
    claimed = None if database.is_sqlite else Claims(database, at.coordinator_id)  # of a file there is one (rules P8)
    publisher = Publisher(
        database,
        secrets.config_keys(),
        at.settings,
        board,
        now,
        leap.fault,
        lambda: standstill.why or absence.unread or _settling(database, at.settings),
        claimed,
    )
    publisher.require_listed(present.missing_authority)
    rollouts = Rollouts(database, at.settings, now, clock.elapsed_s, publisher.wake)
    storages = StorageKeeper(
        database,
        at.coordinator_id,
        Ways(at.storage, at.coordinator_id, file_of, lambda: identity.find(at.keys_directory, os.environ), now),
        now,
        lambda: publisher.health.published_heads,
        lambda: _why_stores_wait(standstill, absence),
        lambda: repeated_heads(board, absence, standstill),
        check_s=at.settings.storage_check_s,
        poll_s=at.settings.store_polling_s,
    )
    coordinator = Coordinator(
        cluster_id=cluster_id,
        coordinator_id=at.coordinator_id,
        database=database,
        settings=at.settings,
        token_key=token_key,
        board=board,
        publisher=publisher,
        rollouts=rollouts,
        collector=HeartbeatCollector(_recording(database, at, now, rollouts)),
        pins=PinSync(database, table),
        seen=Seen(database, now),
        now=now,
        keys_directory=at.keys_directory.absolute(),
        shown=present,
        join_port=at.join.port,
        node_authority=file_of(at.certificate).absolute().with_name(server_certificate.AUTHORITY),
        last_read=LastRead(value_shapes.load(at.value_shapes)),
        standstill=standstill,
        absence=absence,
        storages=storages,
        secrets=secrets,
    )
    readiness = Readiness()
    door = Door(database, PinTable([shown.der]), now)
    reminder, lately = Reminder(coordinator), Lately(coordinator)
    fleet, join = (replace(limits, connections_each=at.connections_per_address) for limits in (REMOTE, JOIN))
    limits = listeners.LimitsByListener(fleet, join)
    over = listeners.transports(coordinator, door, shown, limits)
    servers = listeners.servers(coordinator, door, readiness, reminder, lately, over, limits, probes_at=at.probes.host)
    keeper, trims = Keeper(coordinator, readiness), Trims(coordinator, readiness)
    own, again = OwnReport(coordinator, readiness, keeper), Repeater(coordinator)
    recovering = _recovering(at, coordinator, servers)
    return Daemon(
        at, coordinator, keeper, again, trims, own, recovering, door, reminder, lately, readiness, servers, over
    )


def _why_stores_wait(standstill: Standstill, absence: Absence) -> str:
    """Nothing is given out there that is not handed out here. Once the cluster was exported, who has it now writes
    there: two would take away each other's files, and lay old heads over new ones.
    """
    return standstill.why or absence.unread or ("the cluster was exported" if standstill.moved is not None else "")


def _recovering(at: Configuration, coordinator: Coordinator, servers: dict[str, Server]) -> Recovering | None:
    """With the listener for other coordinators, where one is wanted."""
    if at.coordinators is None:
        return None
    own = identity.load(at.keys_directory, os.environ)
    if own is None:
        remedy = f"give this coordinator one: {own_entry.PIN}"
        raise Refused(Code.INVALID_SETTINGS, "[listen] coordinators, and it has no identity", remedy=remedy)
    table = PinTable([own.der])
    is_given = at.certificate.startswith(CREDENTIAL) or at.key.startswith(CREDENTIAL)
    settings = RecoverySettings(
        port=at.coordinators.port,
        asked=tuple(Endpoint(place.host, place.port, configured=True) for place in at.peers),
        roots=at.roots,
        files=None if is_given else (file_of(at.certificate), file_of(at.key)),
        link=partial(link_as_coordinator, at, coordinator.database),
    )
    servers["coordinators"] = listeners.among_coordinators(coordinator, table, own)
    return Recovering(coordinator, own, settings, table)


def _await_history(database: Database, at: Configuration) -> None:
    """Without the seed, where others may be asked for it: recovery mode (rules H16)."""
    if at.coordinators is None or database.history is not None:
        return
    with database.read() as transaction:
        if object_store.pointer(transaction, history.LATEST) is not None:
            database.history = AwaitedHistory()


def run(path: Path) -> None:
    """Until it is told to end; a start that fails ends the process with words and a status of sysexits(3)."""
    set_up_logging("info")
    try:
        core_dumps.forbid()
        daemon = build(configuration.load(path))
    except FileNotFoundError as error:
        begin = "a cluster begins with `holdfastctl init`, which makes it"
        sys.exit(_say(FileNotFoundError(f"{error.filename}: there is no such file; {begin}")))
    except (Refused, UnusableKeyError, BadCertificateError, OSError) as error:
        sys.exit(_say(error))
    except OperationalError as error:
        sys.exit(
            _say(ConnectionError(f"the database does not answer: {first_line(error)}; {NOTHING_HELD}"), COME_AGAIN)
        )
    except SQLAlchemyError as error:
        what = "is no database URL" if isinstance(error, ArgumentError) else first_line(error)
        sys.exit(_say(ValueError(f"database.url: {what} (name a database that `holdfastctl init` has made)")))
    interpreter.set_up()
    try:
        trio.run(daemon.serve, strict_exception_groups=True)
    except SocketError as error:
        sys.exit(_say(error, COME_AGAIN if error.reason is SocketFault.IN_USE else WRONG_CONFIGURATION))
    except ListenError as error:
        sys.exit(_say(error, COME_AGAIN if error.may_pass else WRONG_CONFIGURATION))
    finally:
        daemon.coordinator.database.close()


def _open(at: Configuration) -> Database:
    """One coordinator for each SQLite file, and no schema newer than this program (rules P8). None is made here."""
    lost_database.check(at)
    database = open_as_coordinator(at)
    try:
        database.claim()
        lost_database.check_tables(database, at)
        database.migrate()
        lost_database.standing(database, at)
    except BaseException:
        database.close()
        raise
    return database


def _recording(
    database: Database, at: Configuration, now: Callable[[], float], rollouts: Rollouts
) -> Callable[[Sequence[ReceivedHeartbeat]], Awaitable[list[RecordedAnswer]]]:
    settings = at.settings
    history = History(settings.heartbeat_history_slots, settings.heartbeat_history_slot_s)

    async def record(batch: Sequence[ReceivedHeartbeat]) -> list[RecordedAnswer]:
        counted: list[VoteCount] = []
        answers = await in_database(
            heartbeats.record, database, batch, now=now(), history=history, count=counted.append
        )
        for counts in counted:
            rollouts.take_note(counts)
        return answers

    return record


def _settling(database: Database, settings: CoordinatorSettings) -> str:
    """Why nothing is published right after a failover, or nothing: what another coordinator has published since the
    promoted server's last word, that one alone knows, and says within its next look (continuity.py).
    """
    if database.servers is None or not database.servers.has_moved_within(2 * settings.store_polling_s):
        return ""
    return "the database failed over just now, and each coordinator looks first whether anything was lost"


def _token_key(path: Path) -> Ed25519PrivateKey:
    """Read with the care that signing_key.py takes."""
    private = load_pem_private_key(signing_key.from_file(path).to_pem(), None)
    if not isinstance(private, Ed25519PrivateKey):
        raise UnusableKeyError(f"{path}: tokens are signed with Ed25519 alone")
    return private


def _server_identity(at: Configuration) -> KeyPair:
    """What all listeners show: a certificate, and the key that fits it."""
    files = TlsIdentity(file_of(at.certificate), file_of(at.key))
    shown = files.read()
    try:
        server_context(shown)
    except ssl.SSLError as error:
        detail = f"{files.key} is no key without passphrase of the certificate {files.certificate}"
        raise UnusableKeyError(f"{detail} ({alert_of(error)}); put a pair there that was made together") from None
    return shown


def _shown_certificate(at: Configuration, shown: KeyPair) -> ShownCertificate:
    file = file_of(at.certificate)
    known, is_exchanged = server_certificate.authorities(file), server_certificate.is_exchanged(file)
    return ShownCertificate(Certificate.read(shown.der), known, is_exchanged)


def _follow(database: Database, at: Configuration, shown: KeyPair, token_key: Ed25519PrivateKey, now: float) -> None:
    """Joins are bound to the certificate that is shown, tokens are checked by the key that signs them."""
    public = tokens.spki(token_key.public_key())
    own = at.coordinator_id
    if replicas.follow(database, own, fingerprint(shown.der), public, actor=own, now=now):
        log.info("entry of this coordinator renewed", coordinator_id=own)
    certificate = file_of(at.certificate)
    known, is_exchanged = server_certificate.authorities(certificate), server_certificate.is_exchanged(certificate)
    ca_exchange.follow(database, own, shown.der, known, is_exchanged=is_exchanged, now=now)


def _follow_where_possible(
    database: Database, at: Configuration, shown: KeyPair, token_key: Ed25519PrivateKey, now: float
) -> None:
    """A history that cannot be believed, or names others alone, keeps a coordinator from changing anything, not from
    saying so.
    """
    try:
        _follow(database, at, shown, token_key, now)
    except Refused as refused:
        is_new = refused.code is Code.NOT_FOUND and isinstance(database.history, AwaitedHistory)
        if not is_new and refused.code not in (Code.UNTRUSTED_HISTORY, Code.NOT_IN_MANIFEST, Code.RECOVERY_MODE):
            raise
        log.error("this coordinator changes nothing", reason=str(refused))  # noqa: TRY400 - no trace needed


def _say(error: Exception, status: int = WRONG_CONFIGURATION) -> int:
    last_words(f"holdfast-coordinator: {error}")
    return status

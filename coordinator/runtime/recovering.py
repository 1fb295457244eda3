"""Recovery mode: a coordinator lacks what those of the manifest have, and asks them (rules H15, H16, H22, H25, H28).

Entered at the start, and whenever the newest manifest is another one than the last that was looked at: found by a look
every few seconds, or by the call that is refused (database/own_entry.py). From step 1 each time: at once, after 2, 4
and 8 s, and then every 15 s, since whoever is asked may be about to learn of this one; one peer after the other. The
first success ends it. What came goes into files of mode 0600 beside the config keys, as if `set` had been made here.
Then it makes its certificate of the CA that the others show (keys/own_certificate.py), and all of it is in use.

Nobody has to tell it of a manifest: a look that fails, or a missed one, is made up by the next.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.database.history import LinkedHistory
from coordinator.keys import identity, own_certificate
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.membership import peer_recovery
from coordinator.membership.peer_recovery import NamedPeer, Secrets, UnverifiedManifest
from coordinator.membership.recover_messages import ANSWER_BYTES, NONCE_DIGITS, PATH, RecoverAnswer, RecoverRequest
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import format_time
from wire.certificate import BadCertificateError, KeyPair
from wire.client import Call, ClientError, Deadlines, HttpClient, HttpsConnector
from wire.endpoint import BadEndpointError, Endpoint
from wire.logs import log
from wire.messages import BadMessageError
from wire.peer import PinState
from wire.pins import PinTable
from wire.tls_contexts import TlsIdentity

RECOVERY_S = 15.0
SOONER_S = (2.0, 4.0, 8.0)  # after the first attempts of a manifest
DEADLINES = Deadlines(connect_s=5, first_byte_s=10, silence_s=10, rate_from_s=10)


@dataclass(frozen=True)
class RecoverySettings:
    """`asked`: where peers are asked, or none for the hosts of the manifest, at this port. `roots`: whom to believe.
    `certificate`, `key`: the files that callers are shown; None where they come from elsewhere. `link`: the history of
    a seed, under this coordinator's identity.
    """

    port: int
    asked: tuple[Endpoint, ...]
    roots: PinnedRootKeys
    files: tuple[Path, Path] | None
    link: Callable[[Seed], LinkedHistory]


class Recovering:
    """`table`: who may ask here."""

    def __init__(self, coordinator: Coordinator, own: KeyPair, settings: RecoverySettings, table: PinTable) -> None:
        self._at = coordinator
        self._own = own
        self._with = settings
        self._table = table
        self._is_published = False
        self._looked_at: UnverifiedManifest | None = None
        self._one = trio.Lock()
        self.tried = trio.Event()
        self._follow_keys()

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            failures = 0 if await self.attempt() else failures + 1
            self.tried.set()
            with trio.move_on_after(_rest_s(failures)):
                await self._wait_for_another_manifest()
                failures = 0

    async def attempt(self) -> bool:
        """Once, and one at a time: what was read before another's attempt is old. Whether nothing is missing then."""
        async with self._one:
            return await self._attempt()

    async def _attempt(self) -> bool:
        at = self._at
        self._follow_keys()
        try:
            await self._publish()
            tried = await in_library(peer_recovery.read_unverified, at.database, at.coordinator_id)  # 1
        except (SQLAlchemyError, Refused) as error:  # `look` says so
            log.info("the manifest was not read", reason=_words(error))
            return False
        if tried is None:
            return True
        self._looked_at = tried
        self._admit(tried)
        if self._lacks(tried):
            if not await self._ask_all(tried):
                return False
            await self._take_up()  # or it would say until the next look that something is missing
        return await self._certify(tried)

    async def _take_up(self) -> None:
        if self._at.peers.take_up is not None:
            await self._at.peers.take_up()

    async def _ask_all(self, tried: UnverifiedManifest) -> bool:
        """One after the other."""
        said = []
        for peer in tried.peers:
            for place in self._places(peer):
                reason = await self._recover(peer, place, tried)
                if not reason:
                    self._at.standstill.recovery = ""
                    return True
                said.append(f"{peer.coordinator_id} at {place}: {reason}")
        asked = "; ".join(said) or "the manifest names no other coordinator whose certificate is in the database"
        self._at.standstill.recovery = f"asked in vain at {format_time(int(self._at.now()))}: {asked}"
        log.warning("what the manifest's coordinators have was not had", mesh_key=tried.mesh_key, asked=asked)
        return False

    async def _wait_for_another_manifest(self) -> None:
        """Or one whose coordinators are known better: who has just started has put its identity there. A database that
        is away says nothing: `attempt` looks in any case.
        """
        at = self._at
        while True:
            await trio.sleep(at.settings.store_polling_s)
            with suppress(SQLAlchemyError, Refused):
                found = await in_library(peer_recovery.read_unverified, at.database, at.coordinator_id)
                if found is not None and found != self._looked_at:
                    return

    async def _certify(self, tried: UnverifiedManifest) -> bool:
        """A certificate that nodes believe, of the CA that the others show, or a renewed one; whether it is there."""
        at = self._at
        if self._with.files is None or tried.pins.get(at.coordinator_id) != identity.pin_of(self._own):
            return True
        try:
            seed = await in_library(at.secrets.seed)
            shown = await in_library(peer_recovery.authority_certificates, at.database, at.coordinator_id)
            made = await in_library(own_certificate.make_where_due, *self._with.files, seed, shown, at.now())
        except (SQLAlchemyError, UnusableKeyError, BadCertificateError, Refused, OSError) as error:
            if at.standstill.uncertified != _words(error):
                log.error("no certificate of the coordinators' CA was made", reason=_words(error))  # noqa: TRY400
            at.standstill.uncertified = _words(error)
            return False
        at.standstill.uncertified = ""
        if made is not None:
            log.info("made a certificate of the coordinators' CA", certificate=made.fingerprint, names=list(made.names))
            await self._take_up()
        return True

    async def _publish(self) -> None:
        """Once: who is to be asked by others, or asks them, must be known by more than a hash."""
        at = self._at
        if not self._is_published:
            known = [certificate.der for certificate in at.shown.authorities]
            await in_database(partial(peer_recovery.publish, at.database, self._own.der, known, now=at.now()))
            self._is_published = True

    def _admit(self, tried: UnverifiedManifest) -> None:
        """Whom TLS lets in to ask; what they are told is decided by the verified manifest."""
        self._table.bring_to((peer.certificate, peer.coordinator_id, PinState.ACTIVE) for peer in tried.peers)

    def _lacks(self, tried: UnverifiedManifest) -> bool:
        """Named by the manifest, and without its seed or its mesh key."""
        if tried.pins.get(self._at.coordinator_id) != identity.pin_of(self._own):
            return False
        is_held = any(key.key_id == tried.mesh_key for key in self._at.publisher.keys)
        return not isinstance(self._at.database.history, LinkedHistory) or not is_held

    def _places(self, peer: NamedPeer) -> Iterator[Endpoint]:
        """The pin says who answers, so each place may be asked for each of them."""
        try:
            host = Endpoint.parse(peer.url, configured=True).host
            yield from self._with.asked or (Endpoint(host, self._with.port, configured=True),)
        except BadEndpointError as error:
            log.warning("a coordinator is not asked", coordinator=peer.coordinator_id, reason=str(error))

    async def _recover(self, peer: NamedPeer, place: Endpoint, tried: UnverifiedManifest) -> str:
        """Steps 2 to 7, and what came is adopted; or why not."""
        nonce = secrets.token_hex(NONCE_DIGITS // 2)
        try:
            received = await self._ask(peer, place, nonce)  # 2, 3
            judged = partial(_judge, self._at.database, tried, nonce, received, self._with.roots)
            found = await in_library(judged, self._at.secrets)  # 4 to 7
            keys = await in_database(_keep, self._at.secrets, found)
        except (ClientError, BadMessageError, UnusableKeyError, Refused, SQLAlchemyError, OSError) as error:
            about = {"coordinator": peer.coordinator_id, "place": str(place), "reason": _words(error)}
            log.warning("not recovered from a peer", **about)
            return _words(error)
        self._use(found, keys)
        log.info("recovered from a peer", coordinator=peer.coordinator_id, mesh_key=found.mesh_key.key_id)
        return ""

    async def _ask(self, peer: NamedPeer, place: Endpoint, nonce: str) -> RecoverAnswer:
        file = identity.find(self._at.keys_directory, os.environ)
        connector = HttpsConnector.to_node([peer.certificate], TlsIdentity(file, file))
        client = HttpClient(connector, DEADLINES)
        try:
            body = RecoverRequest(nonce).to_bytes()
            answer = await client.fetch(place, Call("POST", PATH, body=body, limit=ANSWER_BYTES))
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()
        return RecoverAnswer.parse(answer.body)

    def _use(self, found: Secrets, keys: tuple[SigningKey, ...]) -> None:
        at = self._at
        if not isinstance(at.database.history, LinkedHistory):
            at.database.history = self._with.link(found.seed)
            self._follow_keys()
        at.publisher.sign_with(keys)
        at.publisher.reconsider()

    def _follow_keys(self) -> None:
        """Without the mesh key of the manifest this coordinator changes nothing: it can ask for it."""
        at = self._at
        if isinstance(at.database.history, LinkedHistory) and at.database.history.own is not None:
            at.database.history.own.keys = lambda: {key.key_id for key in at.publisher.keys}


def _rest_s(failures: int) -> float:
    """After so many in a row; none is as good as many, for whoever has nothing to ask for."""
    return SOONER_S[failures - 1] if 0 < failures <= len(SOONER_S) else RECOVERY_S


def _judge(
    database: Database,
    tried: UnverifiedManifest,
    nonce: str,
    received: RecoverAnswer,
    roots: PinnedRootKeys,
    own: OwnSecrets,
) -> Secrets:
    """Over a connection of its own: the coordinator's database has no history, or keeps the one that it has."""
    beside = Database(database.url)
    try:
        return peer_recovery.judge(beside, tried, nonce, received, roots, own.seed())
    finally:
        beside.close()


def _keep(own: OwnSecrets, found: Secrets) -> tuple[SigningKey, ...]:
    """The config keys that are here now."""
    own.keep_seed(found.seed)
    own.keep_key(found.mesh_key)
    return own.config_keys()


def _words(error: Exception) -> str:
    return line_of(error) if isinstance(error, SQLAlchemyError) else str(error)

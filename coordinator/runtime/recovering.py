"""Until a coordinator has what the manifest's coordinators have, it asks the others (rules H22, H25, H28, H29).

From step 1 each time, every 15 s while anything is missing, one peer after the other; the first success ends it. What
came goes into files of mode 0600 beside the config keys, as if `set` had been made here, and is in use at once.
"""

import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import OwnEntry
from coordinator.keys import identity
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.membership import peer_recovery
from coordinator.membership.peer_recovery import NamedPeer, Secrets, UnverifiedManifest
from coordinator.membership.recover_messages import ANSWER_BYTES, NONCE_DIGITS, PATH, RecoverAnswer, RecoverRequest
from coordinator.runtime.context import Coordinator
from wire.certificate import KeyPair
from wire.client import Call, ClientError, Deadlines, HttpClient, HttpsConnector
from wire.endpoint import BadEndpointError, Endpoint
from wire.logs import log
from wire.messages import BadMessageError
from wire.peer import PinState
from wire.pins import PinTable
from wire.tls_contexts import TlsIdentity

RECOVERY_S = 15.0
DEADLINES = Deadlines(connect_s=5, first_byte_s=10, silence_s=10, rate_from_s=10)


class Recovering:
    """`asked`: where peers are asked, or none for the hosts of the manifest, at this port. `table`: who may
    ask here.
    """

    def __init__(
        self, coordinator: Coordinator, own: KeyPair, port: int, asked: tuple[Endpoint, ...], table: PinTable
    ) -> None:
        self._at = coordinator
        self._own = own
        self._port = port
        self._asked = asked
        self._table = table
        self._is_published = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.attempt()
            await trio.sleep(RECOVERY_S)

    async def attempt(self) -> bool:
        """Once; whether nothing is missing afterwards."""
        at = self._at
        try:
            await self._publish()
            tried = await in_library(peer_recovery.read_unverified, at.database, at.coordinator_id)  # 1
        except (SQLAlchemyError, Refused) as error:  # `look` says so
            log.info("the manifest was not read", reason=_words(error))
            return False
        if tried is None:
            return True
        self._admit(tried)
        if not self._lacks(tried):
            return True
        for peer in tried.peers:
            for place in self._places(peer):
                if await self._recover(peer, place, tried):
                    return True
        log.warning("what the manifest's coordinators have was not had", mesh_key=tried.mesh_key)
        return False

    async def _publish(self) -> None:
        """Once: who is to be asked by others, or asks them, must be known by more than a hash."""
        at = self._at
        if not self._is_published:
            await in_database(partial(peer_recovery.publish, at.database, self._own.der, now=at.now()))
            self._is_published = True

    def _admit(self, tried: UnverifiedManifest) -> None:
        """Whom TLS lets in to ask; what they are told is decided by the verified manifest."""
        self._table.bring_to((peer.certificate, peer.coordinator_id, PinState.ACTIVE) for peer in tried.peers)

    def _lacks(self, tried: UnverifiedManifest) -> bool:
        """Named by the manifest, and without its seed or its mesh key."""
        if tried.pins.get(self._at.coordinator_id) != identity.pin_of(self._own):
            return False
        is_held = any(key.key_id == tried.mesh_key for key in self._at.publisher.keys)
        return self._at.database.history is None or not is_held

    def _places(self, peer: NamedPeer) -> Iterator[Endpoint]:
        """The pin says who answers, so each place may be asked for each of them."""
        try:
            host = Endpoint.parse(peer.url, configured=True).host
            yield from self._asked or (Endpoint(host, self._port, configured=True),)
        except BadEndpointError as error:
            log.warning("a coordinator is not asked", coordinator=peer.coordinator_id, reason=str(error))

    async def _recover(self, peer: NamedPeer, place: Endpoint, tried: UnverifiedManifest) -> bool:
        """Steps 2 to 7, and what came is adopted."""
        nonce = secrets.token_hex(NONCE_DIGITS // 2)
        try:
            received = await self._ask(peer, place, nonce)  # 2, 3
            found = await in_library(_judge, self._at.database, tried, nonce, received)  # 4 to 7
            keys = await in_database(_keep, self._at.secrets, found)
        except (ClientError, BadMessageError, UnusableKeyError, Refused, SQLAlchemyError, OSError) as error:
            about = {"coordinator": peer.coordinator_id, "place": str(place), "reason": _words(error)}
            log.warning("not recovered from a peer", **about)
            return False
        self._use(found, keys)
        log.info("recovered from a peer", coordinator=peer.coordinator_id, mesh_key=found.mesh_key.key_id)
        return True

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
        own = OwnEntry(at.coordinator_id, identity.pin_of(self._own))
        if at.database.history is None:
            at.database.history = replace(LinkedHistory(found.seed.history_key), own=own)
        at.publisher.sign_with(keys)
        at.publisher.reconsider()


def _judge(database: Database, tried: UnverifiedManifest, nonce: str, received: RecoverAnswer) -> Secrets:
    """Over a connection of its own: the coordinator's database has no history, or keeps the one that it has."""
    beside = Database(database.url)
    try:
        return peer_recovery.judge(beside, tried, nonce, received)
    finally:
        beside.close()


def _keep(own: OwnSecrets, found: Secrets) -> tuple[SigningKey, ...]:
    """The config keys that are here now."""
    own.keep_seed(found.seed)
    own.keep_key(found.mesh_key)
    return own.config_keys()


def _words(error: Exception) -> str:
    return line_of(error) if isinstance(error, SQLAlchemyError) else str(error)

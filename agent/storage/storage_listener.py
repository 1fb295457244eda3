"""The listener of a storage node: TLS with the node's own certificate, which `StorageEndpoint` pins.

Nodes show none, as to any mirror. A coordinator shows its identity, and is known by it where `[[storage.writers]]` has
that certificate; a store that copies from here shows its own, which the signed `storage_directory` names. Whoever shows
another one is not let in.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from agent.enrolment.identity import IdentityFile
from agent.state.node import RunningNode
from agent.storage.storage_api import PublishedFilesApi
from wire.backoff import BackOff
from wire.certificate import KeyPair
from wire.limits import ListenerLimits
from wire.listening import patient_listener
from wire.local.node_status import ReplicatedStore, StorageCondition
from wire.logs import log
from wire.messages import StorageReport
from wire.pins import PinRefusedError, PinTable
from wire.server import Server
from wire.shedding import Gate
from wire.tls import AskingTransport

SETTING = "[storage] listen"
FLOOR_S, BASE_S, CAP_S = 5.0, 5.0, 300.0
CAPACITY = 32
LOOK_EVERY_S = 15.0  # a directory ends by time alone
STORAGE = ListenerLimits(
    connections=1_024,
    connections_each=64,
    handshakes=128,
    body_bytes=64 << 10,
    sending_bytes=64 << 20,
    backlog=128,
)


@dataclass
class StorageListener:
    """`run` once there is an identity. `listening`: files can be asked for. `copy`: keeps up with other stores; until
    cancelled. `describe_sources`: how it is with each of these, and whether none is asked, since a coordinator comes.
    """

    node: RunningNode
    identity: IdentityFile
    api: PublishedFilesApi
    copy: Callable[[], Awaitable[None]]
    describe_sources: Callable[[], tuple[bool, tuple[ReplicatedStore, ...]]]
    uniform: Callable[[float, float], float] = random.uniform
    listening: trio.Event = field(default_factory=trio.Event)
    _transport: AskingTransport | None = None
    _shown: KeyPair | None = None
    _readers: tuple[tuple[str, bytes], ...] = ()

    async def run(self) -> None:
        """Until cancelled. Nothing where no address is configured."""
        at = self.node.settings.storage
        if at.listen is None:
            return
        await self.node.threads.read(self.api.taking.kept.load, self.node.now())
        pair = await self.node.threads.read(self.identity.present)
        if pair is None:
            raise RuntimeError("a member has an identity")
        self._shown, self._readers = pair, self.api.terms.now().readers
        self._transport = AskingTransport(self._pin_table(pair), pair, STORAGE)
        back_off = BackOff(self.uniform, BASE_S, CAP_S)
        listener = await patient_listener(at.listen, back_off, FLOOR_S, setting=SETTING, what="storage")
        server = Server("storage", self.api.routes(), self._transport, STORAGE, gate=Gate(CAPACITY, random.random))
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listener)
            log.info("what is published is kept and served", listen=at.listen, files=len(self.api.taking.kept.files))
            self.listening.set()
            nursery.start_soon(self.copy)
            nursery.start_soon(self._follow_readers)

    def held_files(self) -> StorageReport | None:
        """As it is reported; None of a node that keeps none."""
        kept = self.api.taking.kept
        if not self.listening.is_set():
            return None
        return StorageReport(len(kept.files), kept.used_bytes, kept.most_bytes)

    def report(self) -> StorageCondition | None:
        """The same for the node's own status, with whom it copies from."""
        if (held := self.held_files()) is None:
            return None
        has_coordinator, sources = self.describe_sources()
        return StorageCondition(held.files, held.bytes, held.most_bytes, has_coordinator, sources)

    async def show(self) -> None:
        """After a renewal: the new certificate, from the next handshakes on."""
        self._shown = await self.node.threads.read(self.identity.present) or self._shown
        self._show()

    def _show(self) -> None:
        if self._transport is not None and self._shown is not None:
            self._transport.show(self._pin_table(self._shown), self._shown)

    async def _follow_readers(self) -> None:
        """Whoever is named no more learns nothing over an open connection either (storage_api.py)."""
        while True:
            seen, readers = self.node.changed.value, self.api.terms.now().readers
            if readers != self._readers:
                self._readers = readers
                self._show()
            with trio.move_on_after(LOOK_EVERY_S):
                await self.node.changed.wait_above(seen)

    def _pin_table(self, shown: KeyPair) -> PinTable:
        table = PinTable([shown.der])
        writers = ((writer.coordinator_id, writer.certificate) for writer in self.node.settings.storage.writers)
        for name, der in (*writers, *self._readers):
            try:
                table.add(der, name)
            except PinRefusedError as error:
                log.error("a certificate is not let in at the store", reason=str(error))  # noqa: TRY400 - no trace needed
        return table

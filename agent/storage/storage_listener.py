"""The listener of a storage node: TLS with the node's own certificate, which `StorageEndpoint` pins.

Nodes show none, as to any mirror. A coordinator shows its identity, and is known by it where `[[storage.writers]]` has
that certificate; whoever shows another one is not let in.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from agent.config.configuration import StorageWriter
from agent.enrolment.identity import IdentityFile
from agent.state.node import RunningNode
from agent.storage.storage_api import PublishedFilesApi
from wire.backoff import BackOff
from wire.limits import ListenerLimits
from wire.listening import patient_listener
from wire.logs import log
from wire.messages import StorageReport
from wire.pins import PinRefusedError, PinTable
from wire.server import Server
from wire.shedding import Gate
from wire.tls import AskingTransport

SETTING = "[storage] listen"
FLOOR_S, BASE_S, CAP_S = 5.0, 5.0, 300.0
CAPACITY = 32
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
    """`run` once there is an identity. `listening`: files can be asked for."""

    node: RunningNode
    identity: IdentityFile
    api: PublishedFilesApi
    uniform: Callable[[float, float], float] = random.uniform
    listening: trio.Event = field(default_factory=trio.Event)
    _transport: AskingTransport | None = None
    _table: PinTable = field(default_factory=PinTable)

    async def run(self) -> None:
        """Until cancelled. Nothing where no address is configured."""
        at = self.node.settings.storage
        if at.listen is None:
            return
        await self.node.threads.read(self.api.kept.load)
        pair = await self.node.threads.read(self.identity.present)
        if pair is None:
            raise RuntimeError("a member has an identity")
        self._table = _pin_table(at.writers, pair.der)
        self._transport = AskingTransport(self._table, pair, STORAGE)
        back_off = BackOff(self.uniform, BASE_S, CAP_S)
        listener = await patient_listener(at.listen, back_off, FLOOR_S, setting=SETTING, what="storage")
        server = Server("storage", self.api.routes(), self._transport, STORAGE, gate=Gate(CAPACITY, random.random))
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listener)
            log.info("what is published is kept and served", listen=at.listen, files=len(self.api.kept.files))
            self.listening.set()

    def held_files(self) -> StorageReport | None:
        """As it is reported; None of a node that keeps none."""
        kept = self.api.kept
        if not self.listening.is_set():
            return None
        return StorageReport(len(kept.files), kept.used_bytes, kept.most_bytes)

    async def show(self) -> None:
        """After a renewal: the new certificate, from the next handshakes on."""
        pair = await self.node.threads.read(self.identity.present)
        if pair is not None and self._transport is not None:
            self._transport.show(pair)


def _pin_table(writers: tuple[StorageWriter, ...], own: bytes) -> PinTable:
    table = PinTable([own])
    for writer in writers:
        try:
            table.add(writer.certificate, writer.coordinator_id)
        except PinRefusedError as error:
            log.error("a coordinator may not write here", reason=str(error))  # noqa: TRY400 - no trace needed
    return table

"""The pin table of the fleet listener, brought to what the catalog says (rules J3, K34, H-000-3; threats M07).

Certificates of nodes that were removed stay known, so that they can be told; the catalog itself has forgotten them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import trio
from sqlalchemy import select

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_library
from coordinator.database import object_store, schema
from coordinator.database.database import Database, Transaction
from coordinator.membership.revocation import CERTIFICATES
from wire.certificate import fingerprint
from wire.logs import log
from wire.peer import PinState
from wire.pins import PinRefusedError, PinTable


@dataclass(frozen=True)
class Pinned:
    """One certificate that TLS is to know. `is_next`: its first use ends the one before it."""

    der: bytes
    node_id: str
    state: PinState
    is_next: bool = False


def read(database: Database, node_id: str | None = None) -> list[Pinned]:
    """Of members, revoked ones too, and of nodes that were removed: of all, or of one."""
    with database.read() as transaction:
        members = list(_members(transaction, node_id))
        held = {member.der for member in members}
        return [*members, *(pin for pin in _retired_pins(transaction, node_id) if pin.der not in held)]


class PinSync:
    """Keeps the table at what `read` says."""

    def __init__(self, database: Database, table: PinTable) -> None:
        self.table = table
        self._database = database
        self._next: set[str] = set()
        self._reading = trio.Lock()  # or what was read first might be the last word, and let a revoked node in

    async def load(self) -> None:
        """All of it: at the start, and when another replica has changed the catalog."""
        async with self._reading:
            self._bring_all(await in_library(read, self._database))

    async def follow(self, node_id: str) -> None:
        """One node has joined, renewed, or left."""
        async with self._reading:
            self._bring_one(node_id, await in_library(read, self._database, node_id))

    def is_next(self, shown: str) -> bool:
        """Whether the use of this certificate is to be confirmed (protocol 1: both pins hold until then)."""
        return shown in self._next

    def _bring_all(self, pinned: Sequence[Pinned]) -> None:
        refused = self.table.bring_to((pin.der, pin.node_id, pin.state) for pin in pinned)
        for error in refused:
            log.error("certificate not pinned", reason=error.reason.value, detail=str(error))
        self._next = {fingerprint(pin.der) for pin in pinned if pin.is_next}

    def _bring_one(self, node_id: str, pinned: Sequence[Pinned]) -> None:
        wanted = {fingerprint(pin.der): pin for pin in pinned}
        if not wanted:
            self.table.set_state(node_id, PinState.REMOVED)
        for pin in self.table.of_node(node_id) if wanted else ():
            if pin.fingerprint not in wanted:
                self.table.remove(pin.fingerprint)
        for shown, wanted_pin in wanted.items():
            self._pin(shown, wanted_pin)

    def _pin(self, shown: str, each: Pinned) -> None:
        try:
            self.table.add(each.der, each.node_id, each.state)
        except PinRefusedError as error:
            log.error("certificate not pinned", reason=error.reason.value, detail=str(error))  # noqa: TRY400 - no trace needed
            return
        if each.is_next:
            self._next.add(shown)
        else:
            self._next.discard(shown)


def _members(transaction: Transaction, node_id: str | None) -> Iterator[Pinned]:
    table = schema.nodes
    chosen = select(table.c.node_id, table.c.certificate, table.c.next_certificate, table.c.revoked_at)
    for row in transaction.rows(chosen if node_id is None else chosen.where(table.c.node_id == node_id)):
        state = PinState.ACTIVE if row.revoked_at is None else PinState.REVOKED
        yield Pinned(bytes(row.certificate), row.node_id, state)
        if row.next_certificate is not None:
            yield Pinned(bytes(row.next_certificate), row.node_id, state, is_next=True)


def _retired_pins(transaction: Transaction, node_id: str | None) -> Iterator[Pinned]:
    table = schema.retired_certificates
    chosen = select(table)
    for row in transaction.rows(chosen if node_id is None else chosen.where(table.c.node_id == node_id)):
        try:
            der = object_store.get(transaction, f"{CERTIFICATES}/{row.certificate_sha256.removeprefix('sha256:')}")
        except Refused:
            continue  # retired before its bytes were kept: TLS refuses it, which says less
        yield Pinned(der, row.node_id, PinState(row.code))

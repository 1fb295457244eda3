"""The pin table of the fleet listener, brought to what the catalog says (rules J3, K34, H-000-3; threats M07).

Certificates of nodes that were removed stay known, so that they can be told; the catalog itself has forgotten them.

Whenever the state has changed, all of it is compared, by the hashes that the database has of the certificates, and only
what is another is read, and pinned on the event loop. While nodes join that is every few seconds: to read and to judge
all certificates of a large cluster each time stopped the loop for longer than anybody should wait. So would hundreds
that have joined together, each of which costs TLS half a millisecond: others have their turn after each.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import trio
from sqlalchemy import BindParameter, bindparam, select
from sqlalchemy.engine import Row

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_library
from coordinator.database import object_store, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import chunks
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


@dataclass(frozen=True, slots=True)
class PinStanding:
    """Whose a certificate is, and as what."""

    node_id: str
    state: PinState


@dataclass(frozen=True)
class PinDifferences:
    """What is another than it was known: hashes that are pinned no more, also since what they are now cannot be
    read, and what is pinned of the nodes of which something is new. `next_ones`: of all nodes, the certificates whose
    first use ends the one before them.
    """

    gone: Set[str]
    new: Sequence[Pinned]
    next_ones: Set[str]


def read(database: Database, node_ids: Sequence[str]) -> dict[str, list[Pinned]]:
    """By id, of members, revoked ones too, and of nodes that were removed."""
    found: dict[str, list[Pinned]] = {node_id: [] for node_id in node_ids}
    with database.read() as transaction:
        for pinned in (pin for chunk in chunks(node_ids) for pin in _read_pinned(transaction, chunk)):
            found[pinned.node_id].append(pinned)
    return found


def read_differences(database: Database, known: Mapping[str, PinStanding]) -> PinDifferences:
    """`known`: by hash. Of all nodes."""
    with database.read() as transaction:
        nodes = transaction.rows(_HASHES)
        retired = {
            row.certificate_sha256: PinStanding(row.node_id, PinState(row.code)) for row in transaction.rows(_RETIRED)
        }
        wanted = retired | dict(_list_standings(nodes))
        others = {found.node_id for shown, found in wanted.items() if known.get(shown) != found}
        pinned = [pin for chunk in chunks(sorted(others)) for pin in _read_pinned(transaction, chunk)]
    next_ones = {row.next_certificate_sha256 for row in nodes if row.next_certificate_sha256 is not None}
    at_hand = {fingerprint(pin.der) for pin in pinned}
    gone = {shown for shown, standing in known.items() if wanted.get(shown) != standing and shown not in at_hand}
    return PinDifferences(gone, pinned, next_ones)


class PinSync:
    """Keeps the table at what the catalog says."""

    def __init__(self, database: Database, table: PinTable) -> None:
        self.table = table
        self._database = database
        self._next: Set[str] = set()
        self._asked: set[str] = set()  # of which something is new, and nobody has begun to read it
        self._reading = trio.Lock()  # or what was read first might be the last word, and let a revoked node in

    async def load(self) -> None:
        """All of it: at the start, and when another replica may have changed the catalog."""
        async with self._reading:
            known = {pin.fingerprint: PinStanding(pin.node_id, pin.state) for pin in self.table}
            await self._bring_all(await in_library(read_differences, self._database, known))

    async def follow(self, node_id: str) -> None:
        """One node has joined, renewed, or left. Those that do so together are read together, by whose turn it is."""
        self._asked.add(node_id)
        async with self._reading:
            if node_id not in self._asked:
                return  # read since
            await self._follow_all(sorted(self._asked))

    async def _follow_all(self, node_ids: Sequence[str]) -> None:
        """Who asks for one of them from now on has perhaps seen more than is read here."""
        self._asked.difference_update(node_ids)
        try:
            for node_id, pinned in (await in_library(read, self._database, node_ids)).items():
                self._bring_one(node_id, pinned)
                await trio.lowlevel.checkpoint()
        except BaseException:
            self._asked.update(node_ids)  # whoever waits for one of them reads it
            raise

    def is_next(self, shown: str) -> bool:
        """Whether the use of this certificate is to be confirmed (protocol 1: both pins hold until then)."""
        return shown in self._next

    async def _bring_all(self, found: PinDifferences) -> None:
        for shown in found.gone:
            self.table.remove(shown)
        self._next = found.next_ones
        for pinned in found.new:
            self._pin(pinned)
            await trio.lowlevel.checkpoint()

    def _bring_one(self, node_id: str, found: Sequence[Pinned]) -> None:
        wanted = {fingerprint(pinned.der): pinned for pinned in found}
        if not wanted:
            self.table.set_state(node_id, PinState.REMOVED)
        for pin in self.table.of_node(node_id) if wanted else ():
            if pin.fingerprint not in wanted:
                self.table.remove(pin.fingerprint)
        for pinned in wanted.values():
            self._pin(pinned)
        self._next = self._next - wanted.keys() | {shown for shown, pinned in wanted.items() if pinned.is_next}

    def _pin(self, each: Pinned) -> None:
        """Of a node that was readmitted, and has joined under another name, the table knows who it was."""
        known = self.table.find(each.der)
        was_anothers = known is not None and known.node_id != each.node_id and known.state is not PinState.ACTIVE
        if was_anothers and each.state is PinState.ACTIVE:
            self.table.remove(fingerprint(each.der))
        try:
            self.table.add(each.der, each.node_id, each.state)
        except PinRefusedError as error:
            log.error("certificate not pinned", reason=error.reason.value, detail=str(error))  # noqa: TRY400 - no trace needed


_node, _gone = schema.nodes.c, schema.retired_certificates.c
_HASHES = select(_node.node_id, _node.certificate_sha256, _node.next_certificate_sha256, _node.revoked_at)
_IDS: BindParameter[str] = bindparam("ids", expanding=True)
_CERTIFICATES = select(_node.node_id, _node.certificate, _node.next_certificate, _node.revoked_at).where(
    _node.node_id.in_(_IDS)
)
_RETIRED = select(_gone.certificate_sha256, _gone.node_id, _gone.code)
_RETIRED_OF = _RETIRED.where(_gone.node_id.in_(_IDS))


def _list_standings(nodes: Sequence["Row[Any]"]) -> Iterator[tuple[str, PinStanding]]:
    for row in nodes:
        standing = PinStanding(row.node_id, _state_of(row))
        yield row.certificate_sha256, standing
        if row.next_certificate_sha256 is not None:
            yield row.next_certificate_sha256, standing


def _state_of(row: "Row[Any]") -> PinState:
    return PinState.ACTIVE if row.revoked_at is None else PinState.REVOKED


def _read_pinned(transaction: Transaction, node_ids: Sequence[str]) -> list[Pinned]:
    members = list(_member_pins(transaction, node_ids))
    held = {member.der for member in members}
    return [*members, *(pin for pin in _retired_pins(transaction, node_ids) if pin.der not in held)]


def _member_pins(transaction: Transaction, node_ids: Sequence[str]) -> Iterator[Pinned]:
    for row in transaction.rows(_CERTIFICATES, {"ids": list(node_ids)}):
        state = _state_of(row)
        yield Pinned(bytes(row.certificate), row.node_id, state)
        if row.next_certificate is not None:
            yield Pinned(bytes(row.next_certificate), row.node_id, state, is_next=True)


def _retired_pins(transaction: Transaction, node_ids: Sequence[str]) -> Iterator[Pinned]:
    for row in transaction.rows(_RETIRED_OF, {"ids": list(node_ids)}):
        try:
            der = object_store.get(transaction, f"{CERTIFICATES}/{row.certificate_sha256.removeprefix('sha256:')}")
        except Refused:
            continue  # retired before its bytes were kept: TLS refuses it, which says less
        yield Pinned(der, row.node_id, PinState(row.code))

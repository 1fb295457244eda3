"""Until when members' certificates are good. Each is parsed once: of a fleet of thousands that is most of the work."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy import select

from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from wire.certificate import BadCertificateError, Certificate

_CHUNK = 500  # names in one statement


@dataclass(frozen=True)
class MemberEnd:
    """Of the certificate that lasts longest: during a renewal there are two. Times are Unix seconds."""

    node_id: str
    begins: float
    ends: float


@dataclass
class MemberEnds:
    _known: dict[str, tuple[float, float]] = field(default_factory=dict)
    _reading: Lock = field(default_factory=Lock)

    def read(self, database: Database) -> list[MemberEnd]:
        """Of those that are not revoked, in byte order of the ids."""
        with self._reading:
            return self._read(database)

    def _read(self, database: Database) -> list[MemberEnd]:
        table = schema.nodes
        columns = select(table.c.node_id, table.c.certificate_sha256, table.c.next_certificate_sha256)
        with database.read() as transaction:
            rows = transaction.rows(columns.where(table.c.revoked_at.is_(None)))
            shown_by = {row.node_id: (row.certificate_sha256, row.next_certificate_sha256) for row in rows}
            wanted = {node_id: [pin for pin in pins if pin is not None] for node_id, pins in shown_by.items()}
            shown = {pin for ends in wanted.values() for pin in ends}
            known = {pin: times for pin, times in self._known.items() if pin in shown}
            new = sorted(node_id for node_id, ends in wanted.items() if not known.keys() >= set(ends))
            self._known = known | _times(transaction, new)
        return [MemberEnd(node_id, *self._longest(wanted[node_id])) for node_id in sorted(wanted)]

    def _longest(self, pins: Sequence[str]) -> tuple[float, float]:
        return max((self._known[pin] for pin in pins), key=lambda times: times[1])


def _times(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Begin and end by fingerprint, of all certificates of these nodes."""
    table, found = schema.nodes, {}
    for start in range(0, len(node_ids), _CHUNK):
        chosen = select(table).where(table.c.node_id.in_(node_ids[start : start + _CHUNK]))
        for row in transaction.rows(chosen):
            found[row.certificate_sha256] = _read(row.certificate)
            if row.next_certificate is not None:
                found[row.next_certificate_sha256] = _read(row.next_certificate)
    return found


def _read(der: bytes) -> tuple[float, float]:
    """A join has read it (certificates.py); one that cannot be read now is good for nothing."""
    try:
        certificate = Certificate.read(bytes(der))
    except BadCertificateError:
        return 0.0, 0.0
    return certificate.not_before, certificate.not_after

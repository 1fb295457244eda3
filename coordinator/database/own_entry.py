"""Whether the coordinator that works here is one of those that the manifest names (rules H0, H7, H24).

It must stand there by its id, with the certificate of its own identity. One that does not is refused with the next
thing that it would change, in the same transaction, and within a look at the database it serves and signs nothing.

A coordinator whose entry has no identity yet, as one from before there were any, is known by its id alone:
`holdfastctl coordinators pin` ends that.

Rejected: to ask the table of coordinators. Whoever can write to the database can write a row there; the manifest is
named by a link that the history key has signed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import schema
from coordinator.database.database import Transaction
from snapshot import canonical

PIN = "holdfastctl coordinators pin"
_TABLE = schema.coordinators
_UNPINNED = select(_TABLE.c.certificate_sha256).where(_TABLE.c.identity_sha256 == "")


@dataclass
class OwnEntry:
    """`pin`: the hash of its identity's certificate, or nothing where it has none."""

    coordinator_id: str
    pin: str
    _accepted: str = field(default="", init=False)  # the manifest that it was found in last

    def is_settled(self, manifest: str) -> bool:
        """Whether the manifest of this hash is known to name it."""
        return bool(manifest) and manifest == self._accepted

    def check(self, transaction: Transaction, manifest: str, content: bytes) -> None:
        """`not_in_manifest`. `manifest` is the hash of `content`."""
        entry, name = _entries(content).get(self.coordinator_id), self.coordinator_id
        if not isinstance(entry, Mapping):
            detail = f"the manifest of the cluster names no coordinator {name}: it was taken away, or never added"
            raise Refused(Code.NOT_IN_MANIFEST, detail, remedy="stop it; a further one begins with coordinators add")
        said = entry.get("certificate_sha256")
        if said != self.pin and said != _shown_certificate(transaction, name):
            has = f"its identity is {self.pin}" if self.pin else "it has no identity here"
            detail = f"the manifest names {name} with the certificate {said}, and {has}"
            remedy = f"put its own identity.pem back beside its config keys, and restart; or, stopped: {PIN} --anew"
            raise Refused(Code.NOT_IN_MANIFEST, detail, remedy=remedy)
        self._accepted = manifest


def _entries(content: bytes) -> Mapping[str, object]:
    value = canonical.loads(content)
    entries = value.get("coordinators") if isinstance(value, dict) else None
    return entries if isinstance(entries, Mapping) else {}


def _shown_certificate(transaction: Transaction, coordinator_id: str) -> str | None:
    """What the manifest says of a coordinator without an identity: the certificate that it shows to nodes."""
    row = transaction.row(_UNPINNED.where(_TABLE.c.coordinator_id == coordinator_id))
    return None if row is None else str(row.certificate_sha256)

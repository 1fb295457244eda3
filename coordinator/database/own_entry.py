"""Whether the coordinator that works here is one of those that the manifest names (rules H0, H7, H24).

It must stand there by its id, with the certificate of its own identity. One that does not is refused with the next
thing that it would change, in the same transaction, and within a look at the database it serves and signs nothing.

A coordinator whose entry has no identity yet, as one from before there were any, is known by its id alone:
`holdfastctl coordinators pin` ends that.

Recovery mode (rules H15, H34): there is a history, and what the coordinators of its manifest hold is not here.

    without the seed        nothing of the history can be believed, and no link be made: AwaitedHistory
    without the mesh key    the history is good, and the key of its newest manifest is held elsewhere: `check_mesh_key`

Either way one that can ask others (`keys`) signs, admits and changes nothing, and says `recovery_mode`; who has read
something may read on. It ends by what another one hands over (runtime/recovering.py), by its own files, or by a set
that is made here.

Rejected: to ask the table of coordinators. Whoever can write to the database can write a row there; the manifest is
named by a link that the history key has signed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import schema
from coordinator.database.database import OpenLink, Transaction
from snapshot import canonical

ASKED = "another coordinator that is ready is asked every 15 seconds: look there, if it lasts"
NO_SEED = "the seed that continues the cluster's history is not here yet"
PIN = "holdfastctl coordinators pin"
_TABLE = schema.coordinators
_UNPINNED = select(_TABLE.c.certificate_sha256).where(_TABLE.c.identity_sha256 == "")


@dataclass
class OwnEntry:
    """`pin`: the hash of its identity's certificate, or nothing where it has none."""

    coordinator_id: str
    pin: str
    keys: Callable[[], Collection[str]] | None = None  # the ids of the config keys at hand; None: it can ask nobody
    _accepted: str = field(default="", init=False)  # the manifest that it was found in last
    _mesh_key: str = field(default="", init=False)  # of that manifest

    def is_settled(self, manifest: str) -> bool:
        """Whether the manifest of this hash is known to name it."""
        return bool(manifest) and manifest == self._accepted

    def check(self, transaction: Transaction, manifest: str, content: bytes) -> None:
        """`not_in_manifest`. `manifest` is the hash of `content`."""
        entry, name = _entries(content).get(self.coordinator_id), self.coordinator_id
        if not isinstance(entry, Mapping):
            detail = f"the manifest of the cluster names no coordinator {name}: it was taken away, or never added"
            raise Refused(Code.NOT_IN_MANIFEST, detail, remedy="stop it; another one begins with coordinators prepare")
        said = entry.get("certificate_sha256")
        if said != self.pin and said != _shown_certificate(transaction, name):
            has = f"its identity is {self.pin}" if self.pin else "it has no identity here"
            detail = f"the manifest names {name} with the certificate {said}, and {has}"
            remedy = f"put its own identity.pem back beside its config keys, and restart; or, stopped: {PIN} --anew"
            raise Refused(Code.NOT_IN_MANIFEST, detail, remedy=remedy)
        self._accepted, self._mesh_key = manifest, mesh_key_of(content)

    @property
    def is_without_mesh_key(self) -> bool:
        """Of the manifest that it was found in."""
        return self.lacks(self._mesh_key)

    def check_mesh_key(self) -> None:
        """`recovery_mode` without it."""
        if self.is_without_mesh_key:
            refuse_in_recovery(f"{self.coordinator_id} lacks the mesh key of the newest manifest, {self._mesh_key}")

    def lacks(self, mesh_key: str) -> bool:
        return self.keys is not None and bool(mesh_key) and mesh_key not in self.keys()


@dataclass(frozen=True)
class AwaitedHistory:
    """Of a coordinator that has no seed yet, and can ask for it."""

    known_state: None = None

    def begin(self, _transaction: Transaction, _digests: Mapping[str, bytes]) -> OpenLink:
        refuse_in_recovery(NO_SEED)


def refuse_in_recovery(detail: str) -> NoReturn:
    raise Refused(Code.RECOVERY_MODE, detail, remedy=ASKED)


def mesh_key_of(content: bytes) -> str:
    value = canonical.loads(content)
    return str(value.get("mesh_key", "")) if isinstance(value, dict) else ""


def _entries(content: bytes) -> Mapping[str, object]:
    value = canonical.loads(content)
    entries = value.get("coordinators") if isinstance(value, dict) else None
    return entries if isinstance(entries, Mapping) else {}


def _shown_certificate(transaction: Transaction, coordinator_id: str) -> str | None:
    """What the manifest says of a coordinator without an identity: the certificate that it shows to nodes."""
    row = transaction.row(_UNPINNED.where(_TABLE.c.coordinator_id == coordinator_id))
    return None if row is None else str(row.certificate_sha256)

"""The identity of a node, ended by its operator while the agent is stopped (rules L13, A9, X8). Synchronous.

    look     what the identity is, and what goes with it
    reset    scopes let go, the event written down, the key destroyed, in this order

Nothing is believed more easily afterwards: pinned roots, trust bundle, floors, marks and used nonces stay, so the node
joins the same cluster again, under the same id, and accepts nothing that is older than what it had. The key goes last:
until then the node is what it was, and after a crash in between the same command goes on.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from agent.enrolment.identity import FILE, NEXT, read_certificate
from agent.state import origins
from agent.state.health_rows import REVOKED_ROW
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.identifiers import HEAD
from store.base.disk import Disk
from store.base.journal import MOST_EVENTS
from store.base.tables import Name
from store.store import Store

EVENT = "identity_reset"
_FILES = NEXT, FILE  # a successor that stayed behind would be joined with


@dataclass(frozen=True)
class IdentityOnDisk:
    """`node_id` is empty where nothing on this disk says it. `not_after`: Unix seconds, None without a certificate.

    `given_key`: the private key is a credential of the service, and is not on this disk. `scopes` are those that are
    active, the head and the trust bundle not among them; `undelivered` events are not with the coordinator yet.
    """

    node_id: str
    fingerprint: str
    not_after: float | None
    given_key: bool
    is_enrolled: bool
    revoked: bool
    scopes: tuple[str, ...]
    undelivered: int

    @property
    def exists(self) -> bool:
        """Whether a reset would end anything."""
        return bool(self.fingerprint or self.scopes or self.revoked)


def look(store: Store) -> IdentityOnDisk:
    """StoreError store_corrupt where the enrolment is damaged: what it pinned must not be forgotten for that."""
    enrolled = store.enrolment
    shown = read_certificate(store.paths.identity)
    certificate = shown.certificate if shown else None
    return IdentityOnDisk(
        node_id=enrolled.node_id if enrolled else certificate.names[0] if certificate and certificate.names else "",
        fingerprint=certificate.fingerprint if certificate else _unreadable(store.paths.identity),
        not_after=certificate.not_after if certificate else None,
        given_key=shown is not None and shown.key_is_elsewhere,
        is_enrolled=enrolled is not None,
        revoked=store.table(Name.HEALTH).get(REVOKED_ROW) is not None,
        scopes=tuple(sorted(scope for scope in _active(store) if scope != HEAD)),
        undelivered=len(store.journal.events(most=MOST_EVENTS)),
    )


def reset(store: Store, disk: Disk, former: IdentityOnDisk, *, now: float) -> None:
    """Durable when it returns. StoreError, OSError; then the same call again does what is left."""
    waiting = {held.scope for held in store.pending()}
    store.withdraw(*sorted((_active(store) | waiting) - {TRUST_BUNDLE}), now=now)
    store.journal.record(EVENT, now, "", former.fingerprint)
    for name in _FILES:
        _destroy(store.paths.identity / name, store.paths.temporary / "identity.gone", disk)
    for row in (REVOKED_ROW, origins.ROW):
        store.table(Name.HEALTH).delete(row)
    store.garbage.run()


def _active(store: Store) -> set[str]:
    return {scope for scope in store.standing().active if scope != TRUST_BUNDLE}


def _unreadable(folder: Path) -> str:
    return "unreadable" if any((folder / name).exists() for name in _FILES) else ""


def _destroy(file: Path, gone: Path, disk: Disk) -> None:
    """It is no identity once it is renamed. Written over as far as the disk does that, then removed."""
    if not file.exists():
        return
    disk.rename(file, gone)
    disk.sync_directory(file.parent)
    with gone.open("r+b", buffering=0) as opened:
        opened.write(bytes(gone.stat().st_size))
        os.fsync(opened.fileno())
    disk.remove(gone)
    disk.sync_directory(gone.parent)

"""`holdfastctl coordinators pin`: the coordinator of this machine gets an identity, and the manifest pins it (rules H0,
H24).

    1  a key and a certificate of its own, `identity.pem` beside the config keys; a note names it until all is done
    2  one transaction, a link of the history: its entry, and so the manifest, name that certificate

All of it or nothing. Who runs it has the seed of the cluster, and is believed for that: it is how a cluster from before
there were identities is carried over, on the machine of each coordinator.

`anew`: another identity in the place of one that is lost, or in wrong hands. Whoever shows the former one is refused.
A file that lies here is never replaced: it is moved away by whoever wants another one.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.database import history
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import atomic_files, identity
from coordinator.keys.acting import as_owner_of
from coordinator.keys.atomic_files import Files, plain_file
from coordinator.membership import replicas
from coordinator.setup import lost_database
from coordinator.setup.configuration import Configuration
from coordinator.setup.opening import open_database

NOTE = "pin.incomplete"


@dataclass(frozen=True)
class PinnedIdentity:
    """`certificate_sha256`: what the manifest names now; `manifest` is its hash, and link `number` has it. `is_new`: it
    was made just now.
    """

    coordinator_id: str
    certificate_sha256: str
    identity: Path
    is_new: bool
    manifest: str
    number: int


def pin(at: Configuration, *, anew: bool, actor: str, now: float) -> PinnedIdentity:
    """Refused `already_initialised`, `conflict`, `in_use`, `no_state`, `not_found`; then nothing has changed."""
    lost_database.check(at)
    database = open_database(at)
    try:
        with _as_owner(database):
            database.claim()
            lost_database.check_tables(database, at)
            database.migrate()
        if not isinstance(database.history, LinkedHistory):
            remedy = f"first, on the first of the coordinators: {history.BEGIN}"
            raise Refused(Code.NO_STATE, "there is no manifest without a signed history and its seed", remedy=remedy)
        return _pin(database, at, anew=anew, actor=actor, now=now)
    finally:
        database.close()


def pin_if_none(at: Configuration, *, actor: str, now: float) -> PinnedIdentity | None:
    """The same, of a cluster from before there were identities; None where this coordinator has one."""
    database = open_database(at)
    try:
        is_pinned = bool(replicas.identity_of(database, at.coordinator_id))
    finally:
        database.close()
    return None if is_pinned else pin(at, anew=False, actor=actor, now=now)


def _pin(database: Database, at: Configuration, *, anew: bool, actor: str, now: float) -> PinnedIdentity:
    keys, name = at.keys_directory.absolute(), at.coordinator_id
    is_done = partial(_is_pinned, database, keys, name)
    note = atomic_files.note_in(keys.parent, None, NOTE)
    atomic_files.clear_up(note, is_done)
    found = identity.load(keys, os.environ)
    own = found or identity.generate(name, now)
    _check(replicas.identity_of(database, name), identity.pin_of(found), anew=anew)
    path = keys / identity.FILE
    files: Files = [(path, plain_file(identity.to_bytes(own)))] if found is None else []
    with atomic_files.together(note, files, is_done), _as_owner(database):
        replicas.pin(database, name, identity.pin_of(own), actor=actor, now=now)
    number, manifest = history.newest_manifest(database)
    return PinnedIdentity(name, identity.pin_of(own), path, found is None, manifest, number)


def _check(pinned: str, here: str, *, anew: bool) -> None:
    """`pinned`: by the manifest. `here`: what lies on this machine. Either may be nothing."""
    if pinned and pinned == here:
        remedy = f"nothing is to be done; for another one: move {identity.FILE} away, and --anew"
        raise Refused(Code.ALREADY_INITIALISED, f"the manifest names this identity, {here}", remedy=remedy)
    if pinned and not anew:
        has = f"here is {here}" if here else "none is here"
        remedy = f"put {identity.FILE} back from a backup of this machine; where it is lost: --anew"
        raise Refused(Code.CONFLICT, f"the manifest names the identity {pinned}, and {has}", remedy=remedy)


def _is_pinned(database: Database, keys: Path, coordinator_id: str) -> bool:
    pinned = replicas.identity_of(database, coordinator_id)
    return bool(pinned) and pinned == identity.pin_of(identity.load(keys, {}))


def _as_owner(database: Database) -> AbstractContextManager[None]:
    return as_owner_of(Path(str(database.url.database)).parent) if database.is_sqlite else nullcontext()

"""`holdfastctl coordinators begin-history`: a signed history for a cluster that has none, or another one (rules H12).

    1  seed and salt, in a file beside the config keys; a note names it until all is done
    2  one transaction: the first link, over the state as it stands and every audit row that there is

All of it or nothing. What came before the first link is believed as it stands: nothing can prove it any more.

`anew`: after a history that does not verify, once somebody knows why. The seed stays where there is one: it is the
database that was changed, not the key.
"""

import os
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import func, select

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, continuity, history, object_store, schema
from coordinator.database.database import Database
from coordinator.database.history import FirstLink
from coordinator.keys import atomic_files, private_file
from coordinator.keys import seed as seeds
from coordinator.keys.acting import as_owner_of
from coordinator.keys.atomic_files import plain_file
from coordinator.keys.seed import Seed
from coordinator.setup import lost_database
from coordinator.setup.configuration import Configuration

NOTE = "begin-history.incomplete"


@dataclass(frozen=True)
class BegunHistory:
    """`rows`: audit rows that the first link proves. `seed`: where it lies, and whether it is new."""

    cluster_id: str
    history_key: str
    rows: int
    seed: Path
    is_seed_new: bool


def begin(at: Configuration, *, anew: bool, actor: str, now: float) -> BegunHistory:
    """Refused `already_initialised`, `in_use`, `untrusted_history`; then nothing has changed."""
    lost_database.check(at)
    database = Database(at.database_url)
    keys = at.keys_directory.absolute()
    try:
        with as_owner_of(Path(str(database.url.database)).parent) if database.is_sqlite else nullcontext():
            database.claim()
            lost_database.check_tables(database, at)
            database.migrate()
        note = atomic_files.note_in(keys.parent, None, NOTE)
        is_done = partial(_is_done, database, keys)
        atomic_files.clear_up(note, is_done)
        seed = _seed(database, keys, anew=anew)
        found = private_file.find(seeds.FILE, keys, os.environ)  # one that is sealed stays so
        path = keys / seeds.FILE if found is None else found[0]
        files = [(path, plain_file(seed.to_bytes()))] if found is None else []
        with atomic_files.together(note, files, is_done):
            made = _link(database, seed, path, is_seed_new=found is None, anew=anew, actor=actor, now=now)
            continuity.forget(keys.with_name(continuity.FILE))  # the history that was seen is given up
            return made
    finally:
        database.close()


def _seed(database: Database, keys: Path, *, anew: bool) -> Seed:
    """The one that is here, or a new one."""
    found = seeds.load(keys, os.environ)
    if anew:
        return found or Seed.generate()
    if _is_begun(database):
        remedy = "holdfastctl audit verify; where it does not verify and you know why: --anew"
        raise Refused(Code.ALREADY_INITIALISED, "this cluster has a signed history", remedy=remedy)
    if found is not None:
        remedy = "restore a backup; or, if you know why, begin another one: --anew"
        raise Refused(Code.UNTRUSTED_HISTORY, "a seed is here, but the database has lost its history", remedy=remedy)
    return Seed.generate()


def _link(
    database: Database, seed: Seed, path: Path, *, is_seed_new: bool, anew: bool, actor: str, now: float
) -> BegunHistory:
    key = seed.history_key
    before = _before(database)
    database.history = FirstLink(key, anew)
    with as_owner_of(Path(str(database.url.database)).parent) if database.is_sqlite else nullcontext():
        with database.change(actor=actor, now=now) as transaction:
            cluster_id = cluster_state.standing(transaction).cluster_id
            transaction.audit("history.begin", cluster_id, before, {"history_key": key.key_id})
            rows = transaction.number(select(func.count()).select_from(schema.audit))
    return BegunHistory(cluster_id, key.key_id, rows, path, is_seed_new)


def _before(database: Database) -> dict[str, object] | None:
    """What the pointer of a history that is given up says, believed or not."""
    with database.read() as transaction:
        pointer = object_store.pointer(transaction, history.LATEST)
    return None if pointer is None else {"transition": pointer.value, "history_key": pointer.signer}


def _is_done(database: Database, keys: Path) -> bool:
    """Whether the history is the one of the seed that lies here."""
    with database.read() as transaction:
        pointer = object_store.pointer(transaction, history.LATEST)
    seed = seeds.load(keys, {})
    return pointer is not None and seed is not None and pointer.signer == seed.history_key.key_id


def _is_begun(database: Database) -> bool:
    with database.read() as transaction:
        return object_store.pointer(transaction, history.LATEST) is not None

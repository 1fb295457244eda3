"""The database of a coordinator, with the seed that continues its history where one is here.

Who works on it is known by an identity; a command that an operator runs beside it has none.
"""

import os
from pathlib import Path

from coordinator.database import continuity
from coordinator.database.continuity import Continuity
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import OwnEntry
from coordinator.keys import identity
from coordinator.keys import seed as seeds
from coordinator.keys.seed import Seed
from coordinator.setup.configuration import Configuration

EXPORTED = "exported.json"


def open_database(at: Configuration) -> Database:
    """Opens nothing yet. UnusableKeyError where the seed's file is none."""
    return with_history(Database(at.database_url), at.keys_directory)


def open_as_coordinator(at: Configuration) -> Database:
    """The same, for the coordinator itself: it changes nothing once the manifest names it no more."""
    database = open_database(at)
    seed = seeds.load(at.keys_directory, os.environ)
    if seed is not None:
        database.history = link_as_coordinator(at, database, seed)
    return database


def link_as_coordinator(at: Configuration, database: Database, seed: Seed) -> LinkedHistory:
    """Its history, under its own identity, with what was seen of it before this process began."""
    pin = identity.pin_of(identity.load(at.keys_directory, os.environ))
    file = at.keys_directory.absolute().with_name(continuity.FILE)
    seen = _read_exported(at) if database.is_sqlite else continuity.read_kept(file, database.servers)
    return LinkedHistory(seed.history_key, OwnEntry(at.coordinator_id, pin), seen)


def exported_file(at: Configuration) -> Path:
    """Where a coordinator keeps, beside its keys' directory, with which link of the history it was exported."""
    return at.keys_directory.absolute().with_name(EXPORTED)


def _read_exported(at: Configuration) -> Continuity:
    """Of SQLite nothing is kept over a restart, but that (continuity.py): a database of before the export lacks it."""
    return Continuity(seen=continuity.read_kept(exported_file(at)).seen)


def with_history(database: Database, keys: Path) -> Database:
    """`keys`: the directory where the seed lies, if it is not among the service's credentials."""
    found = seeds.load(keys, os.environ)
    if found is not None:
        database.history = LinkedHistory(found.history_key)
    return database

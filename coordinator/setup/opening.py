"""The database of a coordinator, with the seed that continues its history where one is here."""

import os
from pathlib import Path

from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import seed as seeds
from coordinator.setup.configuration import Configuration


def open_database(at: Configuration) -> Database:
    """Opens nothing yet. UnusableKeyError where the seed's file is none."""
    return with_history(Database(at.database_url), at.keys_directory)


def with_history(database: Database, keys: Path) -> Database:
    """`keys`: the directory where the seed lies, if it is not among the service's credentials."""
    found = seeds.load(keys, os.environ)
    if found is not None:
        database.history = LinkedHistory(found.history_key)
    return database

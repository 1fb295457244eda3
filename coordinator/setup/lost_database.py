"""A database that is gone, and no new one in its place (rules J34, K12).

Keys and certificates of a coordinator without its database are what is left of a cluster, not the beginning of one. A
coordinator that made an empty database there would only seem to be a way on: nothing in it is known of members, and
`init` beside it would lead to another cluster, which no node believes. So nothing is made at a start; and `init` says
the same where a cluster was begun already.
"""

from pathlib import Path
from typing import NoReturn

from sqlalchemy import inspect

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state
from coordinator.database.cluster_state import ClusterState
from coordinator.database.database import Database
from coordinator.keys import keystore
from coordinator.servers import database_url
from coordinator.setup.configuration import CREDENTIAL, Configuration
from snapshot.bundle import CONFIG

REMEDY = "holdfastctl restore FILE puts a backup back; operating.md, 'The database is gone', says what else there is"
BEGIN = "a cluster begins with `holdfastctl init`, which makes it; or name the right database"


def check(at: Configuration) -> None:
    """Before anything is opened or made: whether there is a database at all. Refused otherwise."""
    url = database_url.read(at.database_url)
    if url.get_backend_name() != "sqlite":
        return
    file = Path(str(url.database))
    try:
        is_there = file.stat().st_size > 0
    except FileNotFoundError:
        is_there = False
    if not is_there:
        _refuse(at, f"{file}: there is no database")


def check_tables(database: Database, at: Configuration) -> None:
    """The same of a server's database, and of a file that holds no table of ours."""
    if not inspect(database.engine).has_table("cluster"):
        _refuse(at, "the database holds no cluster")


def standing(database: Database, at: Configuration) -> ClusterState:
    """The cluster that the database holds. Refused as above."""
    try:
        with database.read() as transaction:
            return cluster_state.standing(transaction)
    except Refused as refused:
        if refused.code is Code.NO_STATE:
            _refuse(at, refused.detail)
        raise


def check_new(keys: Path, token: Path, certificate: Path) -> None:
    """What `init` finds where no cluster is in the database: Refused where one was begun on this machine."""
    if keystore.files(keys, CONFIG) and token.exists() and certificate.exists():
        detail = f"{keys} holds the keys of a cluster whose database is gone"
        raise Refused(Code.DATABASE_MISSING, detail, remedy=REMEDY)


def _refuse(at: Configuration, detail: str) -> NoReturn:
    if _was_founded(at):
        detail = f"{detail}, but {at.keys_directory} holds the keys of a cluster"
        raise Refused(Code.DATABASE_MISSING, f"{detail}; none is made", remedy=REMEDY)
    raise Refused(Code.NO_STATE, detail, remedy=BEGIN)


def _was_founded(at: Configuration) -> bool:
    is_given = at.token_key.startswith(CREDENTIAL)
    return bool(keystore.files(at.keys_directory, CONFIG)) or (not is_given and Path(at.token_key).exists())

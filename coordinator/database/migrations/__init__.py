"""The schema's history: one file a revision (`mNNNN_what.py`), run by Alembic at start and by `init`.

There is no env.py: the connection is handed in, so an upgrade is part of the transaction that asked for it. A schema
that is at the newest revision, as at nearly every start, is known by the files' names and one row.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from coordinator.base.refusal import Code, Refused

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext, RevisionStep

_HERE = Path(__file__).parent
_TABLE = "alembic_version"


def upgrade(connection: Connection) -> str:
    """Run what is missing; the revision that the schema is at. A revision that we do not know is refused."""
    current, newest = _revision(connection), max(path.name[:5] for path in _HERE.glob("m????_*.py"))
    if current != newest:
        _run_missing(connection, current, newest)
    return newest


def _revision(connection: Connection) -> str | None:
    """None of a database that has no schema yet."""
    if not inspect(connection).has_table(_TABLE):
        return None
    found: str | None = connection.execute(text(f"SELECT version_num FROM {_TABLE}")).scalar_one_or_none()  # noqa: S608
    return found


def _run_missing(connection: Connection, current: str | None, newest: str) -> None:
    """Alembic, which takes a while to load, is loaded for this alone."""
    from alembic.config import Config  # noqa: PLC0415
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.runtime.migration import MigrationStep  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    scripts = ScriptDirectory(str(_HERE), version_locations=[str(_HERE)])
    try:
        scripts.get_revision(current or "base")
    except CommandError as error:
        raise Refused(
            Code.SCHEMA_TOO_NEW,
            f"the database is at revision {current}, which this program does not know",
            remedy="run the newer holdfast-coordinator that wrote it",
        ) from error

    def missing(at: object, _context: "MigrationContext") -> "list[RevisionStep]":
        start = at[0] if isinstance(at, tuple) and at else "base"
        steps = reversed(list(scripts.iterate_revisions(newest, start)))
        return [MigrationStep.upgrade_from_script(scripts.revision_map, step) for step in steps]

    with EnvironmentContext(Config(), scripts, fn=missing, destination_rev=newest) as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()

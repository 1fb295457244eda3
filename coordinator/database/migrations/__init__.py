"""The schema's history: one file a revision (`mNNNN_what.py`), run by Alembic at start and by `init`.

There is no env.py: the connection is handed in, so an upgrade is part of the transaction that asked for it.
"""

from pathlib import Path

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from coordinator.base.refusal import Code, Refused

_HERE = Path(__file__).parent


def upgrade(connection: Connection) -> str:
    """Run what is missing; the revision that the schema is at. A revision that we do not know is refused."""
    scripts = ScriptDirectory(str(_HERE), version_locations=[str(_HERE)])
    newest = scripts.get_current_head() or ""
    current = MigrationContext.configure(connection).get_current_revision()
    if current == newest:
        return newest
    _refuse_unknown(scripts, current)

    def missing(at: object, _context: MigrationContext) -> list[RevisionStep]:
        start = at[0] if isinstance(at, tuple) and at else "base"
        steps = reversed(list(scripts.iterate_revisions(newest, start)))
        return [MigrationStep.upgrade_from_script(scripts.revision_map, step) for step in steps]

    with EnvironmentContext(Config(), scripts, fn=missing, destination_rev=newest) as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()
    return newest


def _refuse_unknown(scripts: ScriptDirectory, current: str | None) -> None:
    try:
        scripts.get_revision(current or "base")
    except CommandError as error:
        raise Refused(
            Code.SCHEMA_TOO_NEW,
            f"the database is at revision {current}, which this program does not know",
            remedy="run the newer holdfast-coordinator that wrote it",
        ) from error

"""SQLite files of the newest schema, copies of one that was migrated once: test_migrations has how that is done."""

import tempfile
from functools import cache
from pathlib import Path

from coordinator.database.database import Database


def at(file: Path) -> str:
    """A new file; its URL."""
    file.touch(0o600, exist_ok=False)
    file.write_bytes(_template())
    return f"sqlite:///{file}"


@cache
def _template() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.db"
        database = Database(f"sqlite:///{file}")
        database.migrate()
        database.close()
        return file.read_bytes()

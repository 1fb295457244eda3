"""A backup becomes a coordinator again: all of it or nothing, and over nothing that is there."""

import multiprocessing
import os
import shutil
import stat
from pathlib import Path

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database import database_copy
from coordinator.run import build
from coordinator.setup import backup, configuration, restore
from coordinator.setup.restore import NOTE
from tests.coordinator.founding import Founded
from tests.coordinator.test_backup import made, refusal, to
from tests.coordinator.test_initialise import tree

__all__ = ["to"]


@pytest.fixture
def kept(founded: Founded, to: Path) -> Path:
    """A backup of a coordinator whose machine is gone."""
    return made(founded, to).file


def lose(founded: Founded) -> Path:
    """All files but the backups; where the configuration is to be."""
    for each in founded.folder.iterdir():
        if each.name != "backups":
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    return founded.folder / "coordinator.toml"


def test_on_an_empty_machine_all_of_it_comes_back(founded: Founded, kept: Path):
    before = tree(founded.folder)
    path = lose(founded)
    done = restore.restore(kept, path)
    assert done.is_configuration_new
    after = tree(founded.folder)
    changes = {name for name in before if before[name] != after.get(name)}
    assert changes <= {"state.db", "state.db-shm", "state.db-wal"}
    assert not (founded.folder / NOTE).exists()
    for name, mode in (("token.pem", 0o600), ("server.key", 0o600), ("state.db", 0o600), ("server.crt", 0o644)):
        assert stat.S_IMODE((founded.folder / name).stat().st_mode) == mode
    build(configuration.load(path)).coordinator.database.close()


def test_a_configuration_that_is_there_says_where(founded: Founded, kept: Path, tmp_path: Path):
    lose(founded)
    path = tmp_path / "other.toml"
    text = founded.text().replace("/state.db", "/other.db").replace("/token.pem", "/other-token.pem")
    path.write_text(text)
    done = restore.restore(kept, path)
    assert not done.is_configuration_new
    assert (tmp_path / "other.db").exists() and not (tmp_path / "state.db").exists()
    assert path.read_text() == text
    build(configuration.load(path)).coordinator.database.close()


@pytest.mark.parametrize("name", ["state.db", "token.pem", "server.crt", "state.db-wal", "keys"])
def test_nothing_that_is_there_is_overwritten(founded: Founded, kept: Path, name: str):
    (key,) = (founded.folder / "keys").iterdir()
    path = lose(founded)
    there = founded.folder / name
    if name == "keys":
        there.mkdir(mode=0o700)
        there /= key.name
    there.write_bytes(b"somebody's")
    before = tree(founded.folder)
    refused = refusal(lambda: restore.restore(kept, path))
    assert (refused.code, "move it away" in refused.remedy) == (Code.ALREADY_INITIALISED, True)
    assert tree(founded.folder) == before
    there.unlink()
    restore.restore(kept, path)


def test_another_coordinators_or_a_damaged_one_changes_nothing(founded: Founded, kept: Path, tmp_path: Path):
    lose(founded)
    path = tmp_path / "other.toml"
    path.write_text(founded.text().replace('"coord-1"', '"coord-2"'))
    before = tree(founded.folder)
    assert refusal(lambda: restore.restore(kept, path)).code is Code.CONTRADICTION
    path.write_text(founded.text().replace(founded.url, "postgresql+psycopg://x@localhost/x"))
    assert refusal(lambda: restore.restore(kept, path)).code is Code.CONTRADICTION
    short = kept.with_name("short.tar")
    short.write_bytes(kept.read_bytes()[:-20_000])
    path.unlink()
    assert refusal(lambda: restore.restore(short, path)).code is Code.BACKUP_DAMAGED
    assert {name for name in tree(founded.folder) if not name.startswith("backups/")} == {
        name for name in before if name != "other.toml" and not name.startswith("backups/")
    }


def _stopped(kept: Path, path: Path) -> None:
    """The machine goes while the database is being written."""
    restore._copy = lambda source, target: os._exit(9)  # type: ignore[assignment]
    restore.restore(kept, path)


def test_stopped_in_the_middle_it_is_run_again(founded: Founded, kept: Path):
    path = lose(founded)
    process = multiprocessing.get_context("fork").Process(target=_stopped, args=(kept, path))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert (founded.folder / "token.pem").exists() and (founded.folder / NOTE).exists()
    path.unlink()  # an operator clears up a little
    restore.restore(kept, path)
    assert not (founded.folder / NOTE).exists()
    build(configuration.load(path)).coordinator.database.close()


def test_stopped_at_the_very_end_it_was_done(founded: Founded, kept: Path):
    """The note was left, the database is there: a second one takes nothing away"""
    path = lose(founded)
    restore.restore(kept, path)
    (founded.folder / NOTE).write_text(f"{founded.folder / 'state.db'}\nend")
    assert refusal(lambda: restore.restore(kept, path)).code is Code.ALREADY_INITIALISED
    assert (founded.folder / "state.db").exists()
    build(configuration.load(path)).coordinator.database.close()


def test_without_keys_it_does_not_start_and_says_so(founded: Founded, to: Path):
    file = made(founded, to, with_keys=False).file
    path = lose(founded)
    restore.restore(file, path)
    with pytest.raises((Refused, OSError)) as caught:
        build(configuration.load(path))
    assert "key" in str(caught.value)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_servers_database_comes_back_into_an_empty_one(tmp_path: Path, database_url: str, to: Path):
    if not shutil.which("pg_dump"):
        assert refusal(lambda: database_copy.copy(database_url, tmp_path / "x")).code is Code.BACKUP_FAILED
        return
    founded = Founded(tmp_path, database_url)
    file = made(founded, to).file
    with pytest.raises(Refused) as caught:
        restore.restore(file, lose(founded))
    assert caught.value.code is Code.ALREADY_INITIALISED
    database = database_copy.Database(database_url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    database.close()
    path = founded.folder / "coordinator.toml"
    restore.restore(file, path)
    build(configuration.load(path)).coordinator.database.close()
    assert backup.verify(file).cluster_id == "prod"

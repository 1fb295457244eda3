"""Where a cluster was begun, no empty database is made: the daemon says what is missing, and what can be done."""

from pathlib import Path

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database.database import Database
from coordinator.run import build
from coordinator.setup import configuration, initialise, lost_database
from coordinator.setup.configuration import Configuration
from tests.coordinator.founding import Founded
from tests.coordinator.test_initialise import run as found
from tests.coordinator.test_initialise import tree, wanted


def refused(at: Configuration) -> Refused:
    with pytest.raises(Refused) as caught:
        build(at)
    return caught.value


def test_a_start_without_its_database_makes_none_and_says_what_to_do(founded: Founded):
    file = founded.folder / "state.db"
    kept = file.read_bytes()
    file.unlink()
    before = tree(founded.folder)
    found_missing = refused(founded.configuration())
    assert found_missing.code is Code.DATABASE_MISSING
    assert str(file) in found_missing.detail
    assert "holdfastctl restore" in found_missing.remedy and "The database is gone" in found_missing.remedy
    assert tree(founded.folder) == before
    file.write_bytes(kept)
    build(founded.configuration()).coordinator.database.close()


@pytest.mark.parametrize("is_migrated", [False, True])
def test_a_database_without_a_cluster_is_no_better(founded: Founded, is_migrated: bool):
    file = founded.folder / "state.db"
    file.unlink()
    database = Database(founded.url)
    if is_migrated:
        database.migrate()
    else:
        with database.record():
            pass
    database.close()
    assert refused(founded.configuration()).code is Code.DATABASE_MISSING


def test_an_empty_file_is_a_database_that_is_gone(founded: Founded):
    (founded.folder / "state.db").write_bytes(b"")
    assert refused(founded.configuration()).code is Code.DATABASE_MISSING
    assert (founded.folder / "state.db").read_bytes() == b""


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_of_a_server_likewise(tmp_path: Path, database_url: str):
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")
    founded.url = database_url
    assert refused(founded.configuration()).code is Code.DATABASE_MISSING


def test_where_no_cluster_was_begun_the_way_is_init(founded: Founded, tmp_path: Path):
    text = founded.text().replace(f"{founded.folder}/keys", f"{tmp_path}/none")
    text = text.replace("/token.pem", "/none.pem").replace("/state.db", "/none.db")
    beginning = refused(configuration.parse(text))
    assert (beginning.code, "holdfastctl init" in beginning.remedy) == (Code.NO_STATE, True)
    assert not (tmp_path / "none.db").exists()


def test_init_beside_the_keys_of_a_cluster_says_the_same(tmp_path: Path):
    """rules J34: both remedies are one; it would have led to another cluster"""
    given = wanted(tmp_path)
    found(given)
    file = given.state / "coordinator.db"
    for each in given.state.glob("coordinator.db*"):
        each.unlink()
    before = tree(tmp_path)
    with pytest.raises(Refused) as caught:
        initialise.initialise(given, actor="uid:0", now=1.0)
    assert caught.value.code is Code.DATABASE_MISSING
    assert caught.value.remedy == lost_database.REMEDY
    assert tree(tmp_path) == before
    assert not file.exists()

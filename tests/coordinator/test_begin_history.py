"""`holdfastctl coordinators begin-history`: a cluster from before there was a history (rules H12, P7)."""

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import history, history_check, schema
from coordinator.database.database import Database
from coordinator.keys import sealing
from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import replace_file
from coordinator.setup import backup, begin_history, configuration, initialise, opening, restore
from coordinator.setup.backup import BackupRequest
from coordinator.setup.begin_history import BegunHistory
from coordinator.setup.configuration import Configuration
from tests.coordinator.founding import Founded
from tests.coordinator.test_own_secrets import seals


def begin(at: Configuration, *, anew: bool = False) -> BegunHistory:
    return begin_history.begin(at, anew=anew, actor="uid:0", now=1_800_000_000.0)


def refused(at: Configuration, *, anew: bool = False) -> Code:
    with pytest.raises(Refused) as caught:
        begin(at, anew=anew)
    return caught.value.code


def test_it_is_there_whole_and_goes_on(founded: Founded) -> None:
    at = founded.configuration()
    made = begin(at)
    assert (made.cluster_id, made.is_seed_new) == ("prod", True)
    assert (made.seed.stat().st_mode & 0o777, made.seed.parent) == (0o600, founded.folder / "keys")
    database = opening.open_database(at)
    part = history_check.verify(database)
    assert (part.newest, part.rows, part.faults) == (1, made.rows, [])
    with database.change(actor="root", now=founded.now) as transaction:
        transaction.audit("test", "x")
    assert history_check.verify(database).faults == []
    database.close()
    assert refused(at) is Code.ALREADY_INITIALISED


def test_a_coordinator_that_runs_is_to_be_stopped_first(founded: Founded) -> None:
    running = Database(founded.url)
    running.claim()
    assert refused(founded.configuration()) is Code.IN_USE
    running.close()
    assert not (founded.folder / "keys" / seeds.FILE).exists()


def test_a_history_that_is_gone_is_not_begun_as_if_there_had_been_none(founded: Founded) -> None:
    at = founded.configuration()
    begin(at)
    database = Database(founded.url)
    with database.engine.begin() as connection:
        connection.execute(delete(schema.pointers))
    assert refused(at) is Code.UNTRUSTED_HISTORY
    made = begin(at, anew=True)
    assert not made.is_seed_new
    with database.engine.begin() as connection:
        connection.execute(update(schema.pointers).values(signature="AAAA"))
    database.close()
    assert begin(at, anew=True).history_key == made.history_key


@seals
def test_a_seed_that_is_sealed_to_the_machine_stays_so(founded: Founded) -> None:
    """rules H4: another history of the same seed writes it nowhere in clear"""
    at = founded.configuration()
    made = begin(at)
    place = sealing.sealed_form(made.seed)
    replace_file(place, sealing.seal(seeds.FILE, made.seed.read_bytes()))
    made.seed.unlink()
    again = begin(at, anew=True)
    assert (again.history_key, again.is_seed_new, again.seed) == (made.history_key, False, place)
    assert not made.seed.exists()
    database = opening.open_database(at)
    assert history_check.verify(database).faults == []
    database.close()


def _dies(at: Configuration, number: int) -> None:
    """The process is gone at one of its steps that make something durable."""
    import os

    left = number
    real = os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            os._exit(9)
        real(descriptor)

    os.fsync = fsync
    begin(at)


def test_killed_anywhere_it_can_be_run_again(founded: Founded) -> None:
    """rules P7"""
    at = founded.configuration()
    for number in range(1, 20):
        process = multiprocessing.get_context("fork").Process(target=_dies, args=(at, number))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == 9
        database = Database(founded.url)
        with database.read() as transaction:
            is_begun = history.object_store.pointer(transaction, history.LATEST) is not None
        database.close()
        if is_begun:
            break
    else:
        raise AssertionError("it never ended")
    assert number > 2
    assert refused(at) is Code.ALREADY_INITIALISED


def test_the_seed_is_in_a_backup_with_keys_and_comes_back(founded: Founded, tmp_path: Path) -> None:
    at = founded.configuration()
    made = begin(at)
    file = founded.folder / "coordinator.toml"
    file.write_text(founded.text())
    wanted = BackupRequest(at, file, tmp_path / "whole.tar")
    whole = backup.make(wanted, actor="uid:0", now=founded.now)
    assert "keys/seed" in whole.manifest.members
    bare = backup.make(replace(wanted, to=tmp_path / "bare.tar", with_keys=False), actor="uid:0", now=founded.now)
    assert "keys/seed" in bare.manifest.left_out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    text = founded.text().replace(str(founded.folder), str(elsewhere))
    (elsewhere / "coordinator.toml").write_text(text)
    restore.restore(whole.file, elsewhere / "coordinator.toml")
    again = configuration.parse(text)
    assert (elsewhere / "keys" / seeds.FILE).read_bytes() == made.seed.read_bytes()
    database = opening.open_database(again)
    assert history.look(database) is not None
    assert history_check.verify(database).faults == []
    database.close()


def test_init_has_it_from_the_start(tmp_path: Path) -> None:
    from tests.coordinator.test_initialise import NOW, wanted

    given = wanted(tmp_path)
    initialise.initialise(given, actor="uid:0", now=NOW)
    database = opening.with_history(Database(given.database_url), given.state / "keys")
    part = history_check.verify(database)
    assert (part.oldest, part.newest, part.faults) == (1, 1, [])
    assert [history_check.compare(database, name) for name in history_check.COMPARED] == [""] * len(
        history_check.COMPARED
    )
    database.close()

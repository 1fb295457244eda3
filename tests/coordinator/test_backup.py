"""A backup: one file with all that a coordinator is, made while it works; whole, or not there."""

import io
import multiprocessing
import resource
import shutil
import sqlite3
import stat
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import database_copy, schema
from coordinator.database.database import Database
from coordinator.replicas import backup_record
from coordinator.run import build
from coordinator.servers import database_url
from coordinator.setup import backup
from coordinator.setup import restore as restores
from coordinator.setup.backup import BackupRequest
from coordinator.setup.backup_archive import MANIFEST
from tests.coordinator.founding import Founded
from tests.coordinator.publishing import STATE

DAY = 86_400


def wanted(founded: Founded, to: Path, **members: object) -> BackupRequest:
    path = founded.folder / "coordinator.toml"
    path.write_text(founded.text())
    return BackupRequest(founded.configuration(), path, to, **members)


def made(founded: Founded, to: Path, now: float | None = None, **members: object) -> backup.MadeBackup:
    return backup.make(wanted(founded, to, **members), actor="uid:0", now=now or founded.now)


def database_of(done: backup.MadeBackup, to: Path) -> Path:
    to.joinpath("database.sqlite3").unlink(missing_ok=True)
    with tarfile.open(done.file) as archive:
        to.joinpath("database.sqlite3").write_bytes(archive.extractfile("database.sqlite3").read())
    return to / "database.sqlite3"


def refusal(operation: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        operation()
    assert caught.value.remedy
    return caught.value


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def to(tmp_path: Path) -> Path:
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder


def test_everything_is_in_one_file_for_its_owner_alone(founded: Founded, to: Path):
    done = made(founded, to)
    assert names(to) == [done.file.name]
    assert stat.S_IMODE(done.file.stat().st_mode) == 0o600
    (key,) = (founded.folder / "keys").iterdir()
    expected = {"coordinator.toml", "database.sqlite3", f"keys/{key.name}", "keys/token.pem"}
    assert set(done.manifest.members) == expected | {"tls/ca.pem", "tls/certificate.pem", "tls/key.pem"}
    assert done.manifest.left_out == ()
    assert (done.manifest.cluster_id, done.manifest.coordinator_id) == ("prod", "coord-1")
    assert backup.verify(done.file) == done.manifest
    with tarfile.open(done.file) as archive:
        assert archive.getnames()[0] == MANIFEST
        assert {each.mode for each in archive} == {0o600}


def test_it_is_on_record_and_its_age_is_known(founded: Founded, to: Path):
    done = made(founded, to, now=founded.now + DAY)
    database = Database(founded.url)
    with database.read() as transaction:
        assert backup_record.newest(transaction, "coord-1") == backup_record.BackupRecord(
            done.file.name, founded.now + DAY
        )
        assert backup_record.newest(transaction, "coord-2") is None
    database.close()


def test_without_keys_it_says_what_is_left_out(founded: Founded, to: Path):
    done = made(founded, to, with_keys=False)
    left = {name for name in done.manifest.left_out if name.startswith(("keys/", "tls/key"))}
    assert len(left) == 3
    assert not any(b"PRIVATE KEY" in path.read_bytes() for path in to.iterdir())


def test_a_credential_of_the_service_manager_is_named(founded: Founded, to: Path):
    given = founded.text().replace(f"{founded.folder}/token.pem", "credential:token")
    (founded.folder / "coordinator.toml").write_text(given)
    from coordinator.setup import configuration

    asked = BackupRequest(configuration.parse(given), founded.folder / "coordinator.toml", to)
    done = backup.make(asked, actor="uid:0", now=founded.now)
    assert done.manifest.left_out == ("credential:token of the service manager",)


def test_while_others_write_it_is_one_moment(founded: Founded, to: Path):
    """Each change writes two rows that belong together; a copy has both or none."""
    ended = threading.Event()
    database = Database(founded.url)

    def write() -> None:
        while not ended.is_set():
            with database.change(actor="root", now=founded.now) as transaction:
                transaction.audit("one", "half")
                transaction.audit("other", "half")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = [made(founded, to / f"{number}.tar") for number in range(3)]
    finally:
        ended.set()
        writer.join()
        database.close()
    counts = []
    for each in done:
        with sqlite3.connect(database_of(each, to)) as copy:
            rows = dict(copy.execute("SELECT action, count(*) FROM audit GROUP BY action"))
        copy.close()
        counts.append(rows.get("one", 0))
        assert rows.get("one", 0) == rows.get("other", 0)
    assert counts == sorted(counts) and counts[-1] > 0


def test_only_so_many_are_kept_and_nobody_elses_go(founded: Founded, to: Path):
    for name in ("holdfast-prod-coord-2-20260101T000000Z.tar", "holdfast-prod-coord-1-notes.txt", "other.tar"):
        (to / name).write_bytes(b"another's")
    foreign = names(to)
    files = [made(founded, to, now=founded.now + day * DAY, keep=2).file.name for day in range(4)]
    assert names(to) == sorted([*foreign, *files[-2:]])


def test_a_name_that_is_taken_is_not_taken_again(founded: Founded, to: Path):
    (to / "mine.tar").write_bytes(b"something else")
    refused = refusal(lambda: made(founded, to / "mine.tar"))
    assert (refused.code, (to / "mine.tar").read_bytes()) == (Code.BACKUP_FAILED, b"something else")
    assert names(to) == ["mine.tar"]


def _full(founded: Founded, to: Path, outcome: "multiprocessing.Queue[tuple[str, str]]") -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))
    try:
        made(founded, to)
    except Refused as refused:
        outcome.put((refused.code.value, f"{refused.detail} ({refused.remedy})"))


def test_a_disk_that_is_full_leaves_no_half_file(founded: Founded, to: Path):
    """Here a limit for files, which fails in the same calls"""
    context = multiprocessing.get_context("fork")
    outcome: multiprocessing.Queue[tuple[str, str]] = context.Queue()
    process = context.Process(target=_full, args=(founded, to, outcome))
    process.start()
    code, said = outcome.get(timeout=60)
    process.join(60)
    assert code == "backup_failed"
    assert str(to) in said and "nothing was written" in said and "room" in said
    assert names(to) == []
    made(founded, to)  # and the next one goes well


def test_a_full_disk_has_a_code_of_its_own(to: Path):
    with pytest.raises(Refused) as found, backup._telling_of(to), Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")
    assert (found.value.code, str(to) in found.value.detail) == (Code.STORE_FULL, True)
    assert "No space left" in found.value.detail and "room" in found.value.remedy


def test_a_database_that_is_gone_is_not_backed_up_as_an_empty_one(founded: Founded, to: Path):
    (founded.folder / "state.db").unlink()
    assert refusal(lambda: made(founded, to)).code is Code.DATABASE_MISSING
    assert names(to) == []
    assert not (founded.folder / "state.db").exists()


# ---- files that are no backups


def changed(file: Path, name: str, data: bytes | None, *, again: bool = False) -> Path:
    """The archive with one member changed, dropped, or there twice."""
    target = file.with_name("changed.tar")
    with tarfile.open(file) as old, tarfile.open(target, "w") as new:
        for each in old:
            content = old.extractfile(each).read()
            if each.name == name and not again:
                if data is None:
                    continue
                content, each.size = data, len(data)
            new.addfile(each, io.BytesIO(content))
        if again:
            new.addfile(old.getmember(name), old.extractfile(name))
    return target


def test_damage_is_found_before_anything_is_believed(founded: Founded, to: Path):
    good = made(founded, to).file
    whole = good.read_bytes()
    flipped = to / "flipped.tar"
    middle = whole.index(b"SQLite format 3") + 5_000
    flipped.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    short = to / "short.tar"
    short.write_bytes(whole[: len(whole) // 2])
    text = to / "text.tar"
    text.write_text("no archive")
    for each, word in (
        (flipped, "not what the manifest says"),
        (short, "no whole tar"),
        (text, "no whole tar"),
        (changed(good, "tls/key.pem", b"another key"), "not what the manifest says"),
    ):
        refused = refusal(lambda each=each: backup.verify(each))
        assert (refused.code, word in refused.detail) == (Code.BACKUP_DAMAGED, True), refused.detail
    assert "missing" in refusal(lambda: backup.verify(changed(good, "keys/token.pem", None))).detail
    assert "twice" in refusal(lambda: backup.verify(changed(good, "tls/ca.pem", b"", again=True))).detail
    assert "newer program" in refusal(lambda: backup.verify(changed(good, MANIFEST, b"{}"))).detail
    assert backup.verify(good)


def _unpacked_without_room(call: Callable[[], object], outcome: "multiprocessing.Queue[tuple[str, str]]") -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))
    refused = refusal(call)
    outcome.put((refused.code.value, f"{refused.detail} ({refused.remedy})"))


def test_a_full_disk_beside_a_good_backup_is_no_damage(founded: Founded, to: Path, tmp_path: Path):
    """Neither to who looks at it nor to who restores it; nothing is there afterwards, and with room it goes well"""
    good = made(founded, to).file
    new = tmp_path / "other"
    new.mkdir()
    configuration = new / "coordinator.toml"
    context = multiprocessing.get_context("fork")
    for call in (lambda: backup.verify(good), lambda: restores.restore(good, configuration)):
        outcome: multiprocessing.Queue[tuple[str, str]] = context.Queue()
        process = context.Process(target=_unpacked_without_room, args=(call, outcome))
        process.start()
        code, said = outcome.get(timeout=60)
        process.join(60)
        assert (code, "nothing was changed" in said, "TMPDIR" in said) == ("store_full", True, True), said
        assert names(new) == []
    assert backup.verify(good)


def test_a_name_that_leads_out_is_refused(founded: Founded, to: Path, tmp_path: Path):
    good = made(founded, to).file
    evil = to / "evil.tar"
    with tarfile.open(good) as old, tarfile.open(evil, "w") as new:
        entry = old.getmember(MANIFEST)
        content = old.extractfile(entry).read().replace(b'"tls/ca.pem"', b'"../x/a.pem"')
        entry.size = len(content)
        new.addfile(entry, io.BytesIO(content))
        for each in old.getmembers()[1:]:
            data = old.extractfile(each)
            if each.name == "tls/ca.pem":
                each.name = "../x/a.pem"
            new.addfile(each, data)
    assert refusal(lambda: backup.verify(evil)).code is Code.BACKUP_DAMAGED
    link = to / "link.tar"
    with tarfile.open(link, "w") as new:
        entry = tarfile.TarInfo(MANIFEST)
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        new.addfile(entry)
    assert refusal(lambda: backup.verify(link)).code is Code.BACKUP_DAMAGED


# ---- PostgreSQL


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_of_postgresql_it_is_what_pg_dump_gives(tmp_path: Path, to: Path, database_url: str):
    if not shutil.which("pg_dump"):
        refused = refusal(lambda: database_copy.copy(database_url, tmp_path / "x"))
        assert (refused.code, "postgresql-client" in refused.remedy) == (Code.BACKUP_FAILED, True)
        return
    done = made(Founded(tmp_path, database_url), to)
    assert "database.pgdump" in done.manifest.members
    assert backup.verify(done.file) == done.manifest
    assert database_copy.is_there(database_url)
    again = refusal(lambda: database_copy.check_empty(database_url))
    assert again.code is Code.ALREADY_INITIALISED


def test_a_server_without_the_tool_is_told_how_to_get_it(founded: Founded, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    url = "postgresql+psycopg://holdfast:secret@db.example/holdfast"
    refused = refusal(lambda: database_copy.copy(url, tmp_path / "x"))
    assert (refused.code, "postgresql-client" in refused.remedy) == (Code.BACKUP_FAILED, True)
    assert "secret" not in str(refused)
    assert database_copy._place(database_url.read(url)) == (
        ["--dbname=postgresql://holdfast@db.example/holdfast"],
        {"PGPASSWORD": "secret"},
    )


def test_what_a_daemon_would_start_from_is_what_was_there(founded: Founded, to: Path, tmp_path: Path):
    """The copy is a database that the daemon takes, with what was declared"""
    daemon = build(founded.configuration())
    from coordinator.publishing import declarations

    declarations.apply(daemon.coordinator.database, {"state.yaml": STATE}, actor="root", now=founded.now)
    done = made(founded, to)
    daemon.coordinator.database.close()
    copy = Database(f"sqlite:///{database_of(done, tmp_path)}")
    with copy.read() as transaction:
        assert len(transaction.rows(select(schema.resources))) > 5
    copy.close()

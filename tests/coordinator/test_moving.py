"""A cluster that goes to another coordinator: what each of the two may do then, and what a wrong file is."""

import fcntl
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.database import catalog, cluster_state, history_check, history_manifest, readiness, schema
from coordinator.database.database import Database
from coordinator.keys.owner_key import OwnerKey
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.membership import (
    admission,
    leaving,
    membership,
    moving,
    peer_recovery,
    replica_reports,
    replicas,
    revocation,
    trimming,
)
from coordinator.run import build
from coordinator.setup import database_rows, export, import_cluster
from coordinator.setup.database_rows import BadRowsError
from coordinator.trust import restored_backup
from snapshot import canonical
from tests.coordinator.moves import NOW, URL, Place, admit, text, token_of
from tests.coordinator.test_initialise import tree
from tests.world import programs
from wire.operators.operator_answers import AllowlistEntry


@pytest.fixture
def a(tmp_path: Path) -> Place:
    place = Place(tmp_path / "a", "coord-a")
    place.init()
    return place


@pytest.fixture
def b(tmp_path: Path) -> Place:
    return Place(tmp_path / "b", "coord-b")


@pytest.fixture
def opened(a: Place) -> Iterator[Database]:
    database = a.opened()
    yield database
    database.close()


def refusal(operation: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        operation()
    assert caught.value.remedy
    return caught.value


def refusal_code(operation: Callable[[], object]) -> Code:
    with pytest.raises(Refused) as caught:
        operation()
    return caught.value.code


def sound(database: Database) -> cluster_state.ClusterState:
    with database.read() as transaction:
        return cluster_state.sound(transaction)


def audit_rows(database: Database) -> int:
    with database.read() as transaction:
        return transaction.number(select(func.count()).select_from(schema.audit))


def allow(database: Database, node_id: str) -> None:
    admission.allow(database, AllowlistEntry(node_id), actor="root", now=NOW)


# ---- where it goes to


def test_all_of_it_arrives_and_nothing_is_signed_before_the_epoch_is_raised(a: Place, b: Place, opened: Database):
    """rules K24: the members, the history, the keys; as from a backup, the state is stale until root keys say so."""
    admit(a, opened, "n1")
    rows = audit_rows(opened)
    made = a.export(b)
    came = b.import_(made.file, sha256=made.sha256)
    assert (came.came_from, came.cluster_id, came.link) == (("coord-a",), "prod", made.link)
    there = b.opened()
    assert [entry.node_id for entry in catalog.nodes(there)] == ["n1"]
    assert audit_rows(there) == rows + 2
    for name in history_check.COMPARED:
        assert history_check.compare(there, name) == ""
    assert "came from another coordinator" in history_check.verify(there).notes[0]
    stale = refusal(lambda: sound(there))
    assert (stale.code, stale.remedy) == (Code.STALE_STATE, "holdfastctl epoch raise")
    assert "coord-a" in restored_backup.reason(there, lambda _: "")
    there.close()
    build(b.at).coordinator.database.close()
    assert (b.state / "keys" / "seed").read_bytes() == (a.state / "keys" / "seed").read_bytes()
    assert (b.state / "keys" / "token.pem").read_bytes() != (a.state / "keys" / "token.pem").read_bytes()


def test_it_goes_from_a_file_to_a_server_and_the_history_goes_on_there(
    a: Place, tmp_path: Path, postgresql_url: str, opened: Database
):
    """rules K24, S1: another kind of database, whose own counting goes on behind what came."""
    admit(a, opened, "n1")
    b = Place(tmp_path / "b", "coord-b", postgresql_url)
    made = a.export(b)
    b.import_(made.file)
    there = b.opened()
    assert [entry.node_id for entry in catalog.nodes(there)] == ["n1"]
    allow(there, "n2")
    for name in history_check.COMPARED:
        assert history_check.compare(there, name) == ""
    assert history_check.verify(there).faults == []
    there.close()
    again = refusal(lambda: Place(tmp_path / "c", "coord-b", postgresql_url).import_(made.file))
    assert again.code is Code.WRONG_RECIPIENT


def test_it_goes_from_a_server_to_a_file(tmp_path: Path, postgresql_url: str, b: Place):
    """rules K24, S1: the other way, after which the first one's database is moved for each coordinator of it."""
    a = Place(tmp_path / "a-server", "coord-a", postgresql_url)
    a.init()
    database, beside = a.opened(), a.opened()
    admit(a, database, "n1")
    b.import_(a.export(b).file)
    there = b.opened()
    assert [entry.node_id for entry in catalog.nodes(there)] == ["n1"]
    for name in history_check.COMPARED:
        assert history_check.compare(there, name) == ""
    allow(there, "n2")
    assert history_check.verify(there).faults == []
    assert refusal(lambda: allow(beside, "n3")).code is Code.MOVED
    for opened in (database, beside, there):
        opened.close()


def test_it_believes_others_where_the_same_root_keys_lead_to_them(a: Place, b: Place, opened: Database):
    """rules H50, K24: the coordinator that was imported pins the root keys of the cluster, as a prepared one does."""
    with opened.read() as transaction:
        pins = admission.first_roots(transaction)
    made = b.import_(a.export(b).file)
    assert b.at.roots == PinnedRootKeys(pins.root_key_ids, pins.threshold)
    assert made.root_keys == pins.root_key_ids and len(made.root_keys) == 3


def test_a_configuration_that_was_there_is_not_touched_and_what_it_lacks_is_said(a: Place, b: Place, tmp_path: Path):
    """rules H50, K24: an operator's own file may pin nothing, or what is wrong"""
    made = a.export(b)
    b.path.write_text(text(b.name, b.state, b.database_url))
    named = ("--cluster", "prod", "--url", URL, "--state", b.state, "--configuration", b.path, "--despite-age")
    ran = programs.run("holdfastctl", "import", made.file, *named, folder=tmp_path)
    assert (ran.status, "root_key_ids = " in ran.err) == (0, True), ran
    assert b.at.roots == PinnedRootKeys()
    b.path.write_text(b.path.read_text() + "\n[trust]\n" + ran.err.strip().splitlines()[-1].strip() + "\n")
    with closing(b.opened()) as database, database.read() as transaction:
        assert set(b.at.roots.key_ids) == set(admission.first_roots(transaction).root_key_ids)


def _import_watched(b: Place, file: Path, found: Path) -> None:
    """In a process of its own, since none gets rid of its audit hook again. `found`: what was opened to be written."""
    written: list[str] = []

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and int(arguments[2]) & (os.O_WRONLY | os.O_RDWR):
            written.append(arguments[0])

    sys.addaudithook(note)
    b.import_(file)
    found.write_text(json.dumps(written))


def test_no_key_lies_anywhere_but_in_its_place(a: Place, b: Place, tmp_path: Path, monkeypatch):
    """rules H4, K24, threats D-61: also while it is imported; killed in the middle it leaves no key of the cluster."""
    shutil.copy(a.state / "tls/ca.pem", a.state / "tls/ca-key.pem")  # whatever lies there goes with it
    made = a.export(b)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    watched = (b, made.file, tmp_path / "written")
    process = multiprocessing.get_context("fork").Process(target=_import_watched, args=watched)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    elsewhere = [path for path in json.loads((tmp_path / "written").read_text()) if not path.startswith(str(b.folder))]
    assert any(path.startswith(str(scratch)) for path in elsewhere)
    names = ("seed", "config-", "ca-key.pem", "token")
    assert [path for path in elsewhere if Path(path).name.startswith(names)] == []
    assert (b.state / "keys/seed").read_bytes() == (a.state / "keys/seed").read_bytes()


def test_what_a_killed_import_has_unpacked_goes_with_the_next(a: Place, b: Place, tmp_path: Path, monkeypatch):
    """rules K24, J34: and that alone; what another one is at work in stays, and so does what is not ours."""
    made = a.export(b)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ends = (".holdfast-import.left", ".holdfast-import.busy", ".holdfast-other.left")
    left, busy, other = (tmp_path / end for end in ends)
    for folder in (left, busy, other):
        folder.mkdir()
        (folder / "database.sqlite3").write_text("members")
    (tmp_path / ".holdfast-import.link").symlink_to(other)
    (tmp_path / ".holdfast-import.file").write_text("a file")
    descriptor = os.open(busy, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        b.import_(made.file)
    finally:
        os.close(descriptor)
    assert [folder.exists() for folder in (left, busy, other)] == [False, True, True]
    assert (other / "database.sqlite3").read_text() == "members"
    assert {path.name for path in tmp_path.glob(".holdfast-import.*")} == {
        ".holdfast-import.busy", ".holdfast-import.link", ".holdfast-import.file"
    }  # fmt: skip


def test_a_database_that_cannot_be_written_leaves_no_part_of_it(tmp_path: Path):
    """rules K24: on a disk that is full, say: whole or not at all"""
    target = tmp_path / "coordinator.db"
    with Path("/proc/self/mem").open("rb") as unreadable, pytest.raises(OSError, match="Input/output"):
        import_cluster._copy(unreadable, target)
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_is_there_is_overwritten(a: Place, b: Place):
    made = a.export(b)
    for is_there in ("coordinator.db", "keys/seed", "tls/server.pem", "../coordinator.toml"):
        path = b.state / is_there
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(b"somebody's")
        before = tree(b.folder)
        assert refusal(lambda: b.import_(made.file)).code is Code.ALREADY_INITIALISED
        assert tree(b.folder) == before
        path.unlink()
    b.import_(made.file)
    assert refusal(lambda: b.import_(made.file)).code is Code.ALREADY_INITIALISED


def test_a_file_that_is_not_for_it_changes_nothing(a: Place, b: Place, tmp_path: Path):
    """rules K24, H-000-2: another one's, of another cluster, an old one, another address; each with its code."""
    made = a.export(b)
    c = Place(tmp_path / "c", "coord-c")
    assert refusal(lambda: c.import_(made.file)).code is Code.WRONG_RECIPIENT  # no identity at all
    c.identity()
    assert refusal(lambda: c.import_(made.file)).code is Code.WRONG_RECIPIENT
    before = tree(b.folder)
    assert refusal(lambda: b.import_(made.file, cluster_id="test")).code is Code.WRONG_CLUSTER
    assert refusal(lambda: b.import_(made.file, url="https://c.example:7443")).code is Code.CONTRADICTION
    assert refusal(lambda: b.import_(made.file, sha256="0" * 64)).code is Code.EXPORT_DAMAGED
    b.now = NOW + 8 * DAY
    assert refusal(lambda: b.import_(made.file)).code is Code.EXPORT_OUTDATED
    assert tree(b.folder) == before
    assert b.import_(made.file, despite_age=True).cluster_id == "prod"


def test_a_file_that_was_cut_off_or_changed_anywhere_changes_nothing(a: Place, b: Place):
    """rules K24, H-000-2: each part of it; and then the file as it was is taken."""
    made = a.export(b)
    data, before = made.file.read_bytes(), tree(b.folder)
    wrong = (Code.EXPORT_DAMAGED, Code.WRONG_RECIPIENT, Code.WRONG_CLUSTER, Code.CONTRADICTION)
    places = [5, 20, 21, 60, 200, len(data) // 2, len(data) - 1]
    for place in places:
        made.file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert refusal(lambda: b.import_(made.file)).code in wrong, place
    for length in (0, 10, 300, len(data) - 1):
        made.file.write_bytes(data[:length])
        assert refusal(lambda: b.import_(made.file)).code is Code.EXPORT_DAMAGED, length
    made.file.write_bytes(data + b"more")
    assert refusal(lambda: b.import_(made.file)).code is Code.EXPORT_DAMAGED
    assert tree(b.folder) == before
    made.file.write_bytes(data)
    b.import_(made.file)


@pytest.mark.parametrize("wrong", [1 << 63, float("nan"), "1", b"1", True, None, [1]], ids=repr)
def test_a_value_of_another_kind_than_its_column_is_no_row_of_ours(tmp_path: Path, wrong: object):
    """rules K24: whoever has the certificate of an identity can make a file for it, and SQLite keeps anything."""
    database = Database(f"sqlite:///{tmp_path}/state.db")
    table = schema.transitions
    values: list[object] = []
    for each in database_rows.tables():
        values.append({"table": each.name, "columns": [column.name for column in each.columns]})
        if each is table:
            kinds = {int: 1, float: 1.0, str: "x", bytes: b"x", bool: False}
            row = [kinds[column.type.python_type] for column in table.columns]
            row[list(table.columns.keys()).index("number")] = wrong
            values.append(row)
    with pytest.raises(BadRowsError):
        database_rows.unpack([*values, {"rows": 1}], database)
    values[values.index(row)] = [1 if value is wrong else value for value in row]
    assert database_rows.unpack([*values, {"rows": 1}], database) == 1
    database.close()


def test_a_history_that_does_not_verify_is_not_taken(a: Place, b: Place, opened: Database):
    """rules K24, H3, H37: a row that was changed in the database before the export, beside the history."""
    admit(a, opened, "n1")
    with opened.record() as transaction:
        transaction.connection.execute(update(schema.audit).where(schema.audit.c.action == "join").values(subject="n9"))
    made = a.export(b)
    before = tree(b.folder)
    refused = refusal(lambda: b.import_(made.file))
    assert refused.code is Code.EXPORT_DAMAGED and "audit row" in refused.detail
    assert tree(b.folder) == before


def test_the_file_shows_nothing_of_what_is_in_it(a: Place, b: Place, opened: Database):
    """rules H-000-4: neither secrets nor members; and it is ours alone."""
    admit(a, opened, "secret-node")
    made = a.export(b)
    data = made.file.read_bytes()
    seed = json.loads((a.state / "keys" / "seed").read_text())
    for word in (b"secret-node", seed["seed"].encode(), bytes.fromhex(seed["seed"]), b"PRIVATE KEY"):
        assert word not in data
    assert made.file.stat().st_mode & 0o777 == 0o600


def test_stopped_before_the_file_has_its_name_nothing_has_moved(a: Place, b: Place, monkeypatch, opened: Database):
    taken = a.folder / "cluster.hfx"
    taken.write_text("somebody's")
    assert refusal(lambda: a.export(b)).code is Code.EXPORT_FAILED
    taken.unlink()
    monkeypatch.setattr(export, "_write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert refusal(lambda: a.export(b)).code is Code.STORE_FULL
    assert not [path for path in a.folder.iterdir() if "hfx" in path.name or path.name.startswith(".holdfast")]
    allow(opened, "n1")
    monkeypatch.undo()
    a.export(b)
    assert refusal(lambda: allow(opened, "n2")).code is Code.MOVED


# ---- where it came from


def test_every_change_is_refused_and_says_where_to(a: Place, b: Place, opened: Database):
    """rules K24: whatever decides something, in each room; reports and what is out go on."""
    admit(a, opened, "n1")
    a.export(b)
    changes: list[Callable[[], object]] = [
        lambda: allow(opened, "n2"),
        lambda: revocation.revoke_node(opened, "n1", reason="gone", actor="root", now=NOW),
        lambda: leaving.drain(opened, "n1", actor="root", now=NOW),
        lambda: replicas.remove(opened, "coord-a", answering="x", actor="root", now=NOW),
        lambda: trimming.trim_these(opened, ["n1"], actor="root", now=NOW, settings=CoordinatorSettings()),
        lambda: replicas.pin(opened, "coord-a", "sha256:" + "1" * 64, actor="root", now=NOW),
        lambda: membership.join(opened, [], now=NOW),
    ]
    for change in changes:
        refused = refusal(change)
        assert refused.code is Code.MOVED and URL in refused.detail
    assert sound(opened).authority_epoch == 1
    readiness.note(opened, now=NOW)


def test_again_it_is_the_same_and_elsewhere_it_is_refused(a: Place, b: Place, tmp_path: Path):
    """The file was lost: another one of the same state. Not to a second coordinator."""
    first = a.export(b)
    first.file.unlink()
    second = a.export(b, "again.hfx")
    c = Place(tmp_path / "c", "coord-c")
    assert refusal(lambda: a.export(c, "other.hfx")).code is Code.CONFLICT
    assert b.import_(second.file).came_from == ("coord-a",)


def test_cancelled_it_goes_on_and_the_file_of_before_serves_for_nothing(a: Place, b: Place, opened: Database):
    """rules K24: an older export than the one of now is refused, whoever brings it."""
    older = a.export(b)
    assert export.cancel(a.at, actor="root", now=NOW).coordinator_id == "coord-b"
    allow(opened, "n1")
    assert refusal(lambda: export.cancel(a.at, actor="root", now=NOW)).code is Code.NOT_FOUND
    assert "--anew" in refusal(lambda: a.export(b, "newer.hfx")).remedy
    b.identity(anew=True)
    newer = a.export(b, "newer.hfx")
    assert refusal(lambda: b.import_(older.file)).code is Code.WRONG_RECIPIENT
    b.import_(newer.file)


def test_there_is_no_way_back_once_a_node_has_shown_that_the_other_one_publishes(a: Place, b: Place, opened: Database):
    """rules K24, K41"""
    a.export(b)
    moving.note_ahead(opened, now=NOW + 5)
    assert refusal(lambda: export.cancel(a.at, actor="root", now=NOW)).code is Code.MOVED
    assert moving.exported_to(opened).ahead_at == NOW + 5
    moving.note_ahead(opened, now=NOW + 9)
    assert moving.exported_to(opened).ahead_at == NOW + 5
    assert refusal(lambda: allow(opened, "n1")).code is Code.MOVED


def test_a_database_of_before_the_export_signs_nothing_also_after_a_restart(a: Place, b: Place, opened: Database):
    """rules K24, P30, H37: SQLite put back on the machine, which knows by a file that it was exported."""
    copy = a.folder / "copy.db"
    opened.close()
    shutil.copy(a.state / "coordinator.db", copy)
    a.export(b)
    for beside in a.state.glob("coordinator.db*"):
        beside.unlink()
    shutil.copy(copy, a.state / "coordinator.db")
    again = a.opened()
    refused = refusal(lambda: sound(again))
    assert refused.code is Code.STALE_STATE and "lacks link" in refused.detail
    again.close()


def test_who_has_taken_the_row_away_by_hand_is_found(a: Place, b: Place, opened: Database):
    """rules K24, H3: it is proven by the history, as members are."""
    a.export(b)
    assert history_check.compare(opened, "moves") == ""
    with opened.record() as transaction:
        transaction.connection.execute(schema.moves.delete())
    assert "taken away from outside" in history_check.compare(opened, "moves")


def test_nobody_is_trimmed_on_either_side_until_the_move_is_over(a: Place, b: Place, opened: Database):
    """rules K24, K23: however long it takes; `coordinators remove` of the first one ends it."""
    settings = CoordinatorSettings()
    admit(a, opened, "n1")
    made = a.export(b)
    b.import_(made.file)
    there = b.opened()
    late = NOW + 90 * DAY
    for database in (opened, there):
        readiness.note(database, now=NOW)
        with database.record() as transaction:
            transaction.run(update(schema.readiness).values(until=late))
        planned = trimming.plan(database, now=late, settings=settings)
        assert [member.node_id for member in planned.due] == ["n1"] and "coord-" in planned.held_back
        assert trimming.trim(database, now=late, settings=settings) == ()
    with there.record() as transaction:  # root keys have raised it
        transaction.connection.execute(update(schema.cluster).values(authority_epoch=2))
    there.history = None
    with there.record() as transaction:
        transaction.connection.execute(schema.pointers.delete())
    replicas.remove(there, "coord-a", answering="coord-b", actor="root", now=late)
    assert trimming.trim(there, now=late, settings=settings) == ("n1",)
    assert moving.read(there, within_s=DAY, now=late) is None
    there.is_tampered = True
    there.close()


def test_a_token_of_before_the_move_still_lets_a_node_in_there(a: Place, b: Place, opened: Database):
    """rules K24, J7: bound to the other one's certificate; until the first one is taken away."""
    token = token_of(a, opened)
    b.import_(a.export(b).file)
    there = b.opened()
    with there.record() as transaction:
        transaction.connection.execute(update(schema.cluster).values(put_back_epoch=None))
    there.history = None
    with there.record() as transaction:
        transaction.connection.execute(schema.pointers.delete())
    admit(b, there, "n1", token)
    replicas.remove(there, "coord-a", answering="coord-b", actor="root", now=NOW)
    assert refusal_code(lambda: admit(b, there, "n2", token)) is Code.BAD_TOKEN
    there.close()


def test_what_was_removed_before_stays_removed_there(a: Place, b: Place, opened: Database):
    """rules K43, K24: tombstones, revocations and spent tokens come along."""
    for node_id in ("n1", "n2"):
        admit(a, opened, node_id)
    leaving.drain(opened, "n1", actor="root", now=NOW)
    leaving.remove(opened, "n1", reason="gone", actor="root", now=NOW)
    revocation.revoke_node(opened, "n2", reason="stolen", actor="root", now=NOW)
    b.import_(a.export(b).file)
    there = b.opened()
    for name in ("tombstones", "retired_certificates", "revocations", "tokens", "token_uses"):
        with opened.read() as here, there.read() as other:
            table = schema.metadata.tables[name]
            assert here.rows(select(table)) == other.rows(select(table)), name
    refused = refusal(lambda: admission.allow(there, AllowlistEntry("n1"), actor="root", now=NOW))
    assert refused.code is Code.REMOVED
    there.close()


def test_the_owners_of_the_seed_are_the_same_there(tmp_path: Path, b: Place):
    """rules K24, H39: a move is no way to other owners, and the shares that they have open the seed that came."""
    a = Place(tmp_path / "a-owned", "coord-a")
    a.init(owners=(OwnerKey.generate().public("alice"), OwnerKey.generate().public("bob")))
    b.import_(a.export(b).file)
    manifests = []
    for place in (a, b):
        database = place.opened()
        manifests.append(peer_recovery.read_unverified(database, "").content)
        database.close()
    here, there = map(history_manifest.owners_of, manifests)
    assert here == there and set(here) == {"alice", "bob"}
    entries = canonical.loads(manifests[1])["coordinators"]
    assert set(entries) == {"coord-a", "coord-b"}


def test_who_asks_still_and_who_has_not_come_over_yet(a: Place, b: Place, opened: Database):
    """rules K24: the one is what ends the old coordinator, the other what the new one waits for."""
    for node_id in ("n1", "n2"):
        admit(a, opened, node_id)
    b.now = NOW + 60
    b.import_(a.export(b).file)
    there = b.opened()
    _ask(opened, "n1", NOW + 100)
    _ask(opened, "n2", NOW - 2 * DAY)
    _ask(there, "n2", NOW + 90)
    here = moving.read(opened, within_s=DAY, now=NOW + 120)
    assert (here.direction, here.members, [node.node_id for node in here.nodes]) == ("to", 2, ["n1"])
    missing = moving.read(there, within_s=DAY, now=NOW + 120)
    assert (missing.direction, missing.count, [node.node_id for node in missing.nodes]) == ("from", 1, ["n1"])
    assert moving.read(opened, within_s=DAY, now=NOW + 3 * DAY).count == 0
    states = [replica_reports.judge(each, NOW + 120).state for each in replica_reports.all_of(there)]
    assert states == ["moved", "unheard"]
    there.close()


def test_what_cannot_be_exported_says_why(a: Place, b: Place, tmp_path: Path, opened: Database):
    """rules H-000-2: no seed, no config key, a certificate of something else, an id that is taken, no URL."""
    authority = (a.state / "tls" / "ca.pem").read_bytes()
    for pem in (b"nothing", authority):
        wanted = export.ExportRequest(a.at, a.folder / "x.hfx", pem, URL)
        assert refusal(lambda wanted=wanted: export.make(wanted, actor="root", now=NOW)).code is Code.BAD_REQUEST
    assert refusal(lambda: a.export(b, url="b.example")).code is Code.BAD_REQUEST
    assert refusal(lambda: a.export(Place(tmp_path / "c", "coord-a"))).code is Code.CONFLICT
    for name in ("seed", next((a.state / "keys").glob("config-*")).name):
        file = a.state / "keys" / name
        data = file.read_bytes()
        file.unlink()
        assert refusal(lambda: a.export(b)).code is Code.EXPORT_FAILED
        file.touch(0o600)
        file.write_bytes(data)
    allow(opened, "n1")
    a.export(b)


def _ask(database: Database, node_id: str, at: float) -> None:
    with database.record() as transaction:
        transaction.put(schema.head_requests, [{"node_id": node_id, "last_seen": at}])

"""Projected files: one swap a generation, nothing half made seen by anybody, whatever step a crash comes at."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.access.access import Access, AccessRule, Readers
from agent.files import former_folders, generations
from agent.files.access_lists import list_of
from agent.files.file_access import FileAccess
from agent.files.generations import FilesError, Generations, Permissions
from agent.files.layout import ProjectedScope, folder_of
from agent.files.projection import Projection
from snapshot.manifest import SectionEntry
from tests.citations import ROOT
from tests.examples import examples
from tests.logs import capture_logs

NOW = 1_900_000_000
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")


def scope(name: str, sections: dict[str, bytes], version: int = 1, **changes: object) -> ProjectedScope:
    entries = {key: SectionEntry(hashlib.sha256(data).hexdigest(), len(data)) for key, data in sections.items()}
    content_hash = "sha256:" + hashlib.sha256(repr(entries).encode()).hexdigest()
    given = {"expires_at": NOW + 60, "grade": "fresh", "read": sections.__getitem__}
    return ProjectedScope(name, 1, version, content_hash, sections=entries, **(given | changes))


def projection(folder: Path, permissions: Permissions | None = None, grace_s: float = 60.0) -> Projection:
    made = begun(folder, permissions, grace_s)
    made.start()
    return made


def begun(folder: Path, permissions: Permissions | None = None, grace_s: float = 60.0) -> Projection:
    given = permissions or Permissions()
    return Projection(Generations(folder, "active", given, grace_s), FileAccess(given))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file that a reader finds, by its path."""
    active = folder / "active"
    return {str(path.relative_to(active)): path.read_bytes() for path in active.rglob("*") if path.is_file()}


def test_the_layout(tmp_path):
    """protocol.md 4, Files; rules S5."""
    scopes = [
        scope("route_policy", {"routes": b'{"a":1}', "routes.2": b"{}"}, 3),
        scope("qos_policy/amber,sable", {"policies": b"[]"}),
        scope("node_runtime", {}),
    ]
    assert projection(tmp_path).project(7, scopes, 0.0)
    found = tree(tmp_path)
    index = json.loads(found.pop("index.json"))
    assert found == {
        "route_policy/routes.json": b'{"a":1}',
        "route_policy/routes.2.json": b"{}",
        "qos_policy@amber,sable/policies.json": b"[]",
        "routes.json": b'{"a":1}',
    }
    assert (tmp_path / "active/node_runtime").is_dir()
    assert index["generation"] == 7
    assert index["scopes"]["route_policy"] == {
        "path": "route_policy",
        "authority_epoch": 1,
        "config_version": 3,
        "content_hash": scopes[0].content_hash,
        "expires_at": "2030-03-17T17:47:40Z",
        "grade": "fresh",
    }
    assert index["scopes"]["qos_policy/amber,sable"]["path"] == "qos_policy@amber,sable"


def test_long_ids_are_given_by_their_hash():
    ids = [f"{number:060}" for number in range(1, 4)]
    joined = ",".join(ids)
    assert len(joined) == 182
    digest = hashlib.sha256(joined.encode()).hexdigest()
    assert folder_of(f"route_policy/{joined}") == f"route_policy@sha256-{digest}"
    assert folder_of(f"route_policy/{ids[0]},{ids[1]}") == f"route_policy@{ids[0]},{ids[1]}"
    assert folder_of(f"route_policy/{ids[0]},{ids[1]},{'1' * 58}") == f"route_policy@{ids[0]},{ids[1]},{'1' * 58}"


def test_unchanged_files_are_linked_and_changed_ones_are_not(tmp_path):
    made = projection(tmp_path)
    reads: list[str] = []

    def counted(sections: dict[str, bytes]) -> ProjectedScope:
        return scope("route_policy", sections, read=lambda name: reads.append(name) or sections[name])

    made.project(1, [counted({"a": b"1", "b": b"2"})], 0.0)
    before = {name: (tmp_path / f"active/route_policy/{name}.json").stat().st_ino for name in "ab"}
    made.project(2, [counted({"a": b"1", "b": b"3"})], 0.0)
    assert reads == ["a", "b", "b"]
    assert (tmp_path / "active/route_policy/a.json").stat().st_ino == before["a"]
    assert (tmp_path / "active/route_policy/b.json").stat().st_ino != before["b"]
    assert tree(tmp_path)["route_policy/b.json"] == b"3"


def test_nothing_is_done_twice(tmp_path):
    made = projection(tmp_path)
    scopes = [scope("route_policy", {"a": b"1"})]
    assert made.project(1, scopes, 0.0)
    target = (tmp_path / "active").readlink()
    assert not made.project(1, scopes, 1.0)
    assert (tmp_path / "active").readlink() == target


def test_a_new_process_does_not_trust_what_it_finds(tmp_path):
    """Somebody may have written into them: what is not as it should be is written anew, the rest is linked."""
    scopes = [scope("route_policy", {"a": b"good", "b": b"good", "c": b"good", "d": b"good"})]
    projection(tmp_path).project(1, scopes, 0.0)
    place = tmp_path / "active/route_policy"
    before = (place / "d.json").stat().st_ino
    (place / "a.json").write_bytes(b"evil")
    (place / "b.json").chmod(0o666)
    (place / "c.json").unlink()
    (place / "c.json").symlink_to("a.json")
    (place / "more.json").write_bytes(b"evil")
    (place / "elsewhere").symlink_to("/etc")
    assert projection(tmp_path).project(1, scopes, 0.0)
    assert {name: data for name, data in tree(tmp_path).items() if name != "index.json"} == {
        "routes.json": b"{}",
        **{f"route_policy/{name}.json": b"good" for name in "abcd"},
    }
    assert not place.joinpath("c.json").is_symlink()
    assert stat.S_IMODE((place / "b.json").stat().st_mode) == 0o640
    assert (place / "d.json").stat().st_ino == before


def held(folder: Path) -> int:
    """Bytes on disk, of every generation; what is linked counts once."""
    found = [path.lstat() for path in (folder / ".active.generations").rglob("*") if path.is_file()]
    return sum({one.st_ino: one.st_size for one in found}.values())


def test_restarts_write_nothing_that_is_there(tmp_path):
    """Ten of them with the same content are one generation; with another grade they link what is there."""
    content = {f"routes.{number:02x}": bytes([number]) * 10_000 for number in range(16)}
    for number in range(10):
        made = projection(tmp_path)
        assert made.project(7, [scope("route_policy", content), scope("node_runtime", {})], float(number)) is not number
    assert len(made.generations.labels()) == 1
    for grade in ("stale", "fresh"):
        assert projection(tmp_path).project(7, [scope("route_policy", content, grade=grade)], 0.0)
    assert held(tmp_path) < 170_000
    assert not projection(tmp_path).project(7, [scope("route_policy", content)], 0.0)


@pytest.mark.parametrize("change", [Permissions(0o600, 0o750), Permissions(0o640, 0o700)])
def test_a_restart_with_other_permissions_takes_no_old_ones_over(tmp_path, change):
    scopes = [scope("route_policy", {"a": b"1"})]
    projection(tmp_path).project(1, scopes, 0.0)
    assert projection(tmp_path, change).project(1, scopes, 0.0)
    assert stat.S_IMODE((tmp_path / "active/route_policy/a.json").stat().st_mode) == change.file_mode
    assert stat.S_IMODE((tmp_path / "active/route_policy").stat().st_mode) == change.folder_mode
    assert stat.S_IMODE((tmp_path / "active/").stat().st_mode) == change.folder_mode


READERS = Access((AccessRule(uids=frozenset({4400}), scopes=("route_policy",)),))


@pytest.mark.parametrize("said", ["owner", "scope"])
def test_a_restart_for_other_readers_leaves_nothing_open_to_the_former_ones(tmp_path, said):
    """Also the folders of former generations, and the files that are linked from them."""
    scopes = [scope("route_policy", {"a": b"1"}), scope("qos_policy", {"p": b"2"})]
    made = projection(tmp_path)
    for generation in range(1, 4):
        made.project(generation, scopes, 0.0)
    whose = FileAccess.from_configuration(said, Permissions(), READERS)
    made = Projection(Generations(tmp_path, "active", whose.top), whose)
    assert made.project(3, scopes, 1.0)
    assert len(made.generations.labels()) == 1
    assert stat.S_IMODE((tmp_path / "active/qos_policy/p.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "active/qos_policy").stat().st_mode) == 0o700
    routes = 0o640 if said == "scope" else 0o600
    assert stat.S_IMODE((tmp_path / "active/route_policy/a.json").stat().st_mode) == routes
    assert not Projection(Generations(tmp_path, "active", whose.top), whose).project(3, scopes, 2.0)


def test_a_scope_that_expires_is_closed_and_opened_again_when_it_is_renewed(tmp_path):
    whose = FileAccess.from_configuration("scope", Permissions(), READERS)
    made = Projection(Generations(tmp_path, "active", whose.top), whose)
    modes = []
    for generation, grade in enumerate(("fresh", "expired", "fresh")):
        made.project(generation, [scope("route_policy", {"a": b"1"}, grade=grade)], 0.0)
        assert len(made.generations.labels()) == 1
        place = tmp_path / "active/route_policy"
        modes.append((stat.S_IMODE(place.stat().st_mode), stat.S_IMODE((place / "a.json").stat().st_mode)))
    assert modes == [(0o750, 0o640), (0o700, 0o600), (0o750, 0o640)]


NO_LISTS = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.agent.test_projection import READERS, FileAccess, FilesError, Generations, Permissions, Projection, scope

folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "ramfs", "-o", "mode=0755", "none", folder], check=True)
for said in ("scope", "owner"):
    whose = FileAccess.from_configuration(said, Permissions(), READERS)
    made = Projection(Generations(folder, "active", whose.top), whose)
    try:
        print(made.project(1, [scope("route_policy", {"a": b"1"})], 1.0))
    except FilesError as error:
        print(error)
"""


@AS_ROOT
@pytest.mark.skipif(shutil.which("unshare") is None, reason="NOT RUN: a file system is mounted by unshare(1)")
def test_a_file_system_without_access_lists(tmp_path):
    command = ["unshare", "--mount", sys.executable, "-c", NO_LISTS, tmp_path, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    refused, made = done.stdout.splitlines()
    assert refused.startswith("no_access_lists: ") and "another `projection_access`" in refused
    assert made == "True"


@pytest.mark.parametrize("place", [".", ".active.generations", ".active.generations/1.0"])
def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path, place):
    """Neither mode nor content of what it leads to is touched; the error names the path and the remedy."""
    foreign, root = tmp_path / "foreign", tmp_path / "run"
    for folder in (foreign, foreign / ".new-1"):
        folder.mkdir(mode=0o700)
        (folder / "theirs").write_text("theirs")
    scopes = [scope("route_policy", {"a": b"1"})]
    projection(root).project(1, scopes, 0.0)
    moved = (root / place).resolve()
    moved.rename(tmp_path / "moved")
    moved.symlink_to(foreign)
    made = begun(root, Permissions(0o644, 0o755))
    if place.endswith("1.0"):  # what is in a folder is ours to remove: the link goes, and not what it leads to
        assert made.project(2, scopes, 0.0)
        made.generations.collect(100.0, all_of_them=True)
    else:
        with pytest.raises(FilesError, match=f"unsafe_directory: {moved} is a link.*move it away"):
            made.project(2, scopes, 0.0)
        moved.unlink()
        assert made.project(2, scopes, 0.0)
    assert tree(root)["route_policy/a.json"] == b"1"
    assert stat.S_IMODE(foreign.stat().st_mode) == 0o700
    assert sorted(path.name for path in foreign.rglob("*")) == [".new-1", "theirs", "theirs"]


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_root_that_others_may_write_to(tmp_path, mode):
    """As of the socket's directory: whoever may write there may put a folder of theirs in the place of ours."""
    root = tmp_path / "run"
    root.mkdir()
    root.chmod(mode)
    made = begun(root)
    with pytest.raises(FilesError, match=f"unsafe_directory: {root} is not safe .*{mode:04o}.*writable by that alone"):
        made.project(1, [], 0.0)
    assert list(root.iterdir()) == []
    root.chmod(0o755)
    assert made.project(1, [], 0.0)


@AS_ROOT
@pytest.mark.parametrize("place", [".", ".active.generations"])
def test_a_folder_of_another_account(tmp_path, place):
    root = tmp_path / "run"
    (root / place).mkdir(parents=True, mode=0o755)
    os.chown(root / place, 4000, 4000)
    made = begun(root)
    with pytest.raises(FilesError, match=r"unsafe_directory: .*uid 4000"):
        made.project(1, [], 0.0)
    os.chown(root / place, 0, 0)
    assert made.project(1, [], 0.0)


def test_old_generations_go_before_the_bound_is_passed_and_the_present_one_never(tmp_path):
    made = projection(tmp_path, grace_s=1000.0)
    made.generations.most_bytes = 100_000
    for version in range(1, 8):
        made.project(version, [scope("route_policy", {"a": bytes([version]) * 30_000})], 1.0)
        assert held(tmp_path) < 100_000
    assert len(made.generations.labels()) == 2
    for _ in range(2):
        with pytest.raises(FilesError, match=r"files_full: .*100000 are allowed; .*raise `projection_bytes`"):
            made.project(8, [scope("route_policy", {"a": b"8" * 80_000})], 1.0)
        assert tree(tmp_path)["route_policy/a.json"] == bytes([7]) * 30_000
        assert made.generations.labels() == {"7.0"}
    assert made.project(9, [scope("route_policy", {"a": b"9" * 30_000})], 1.0)
    assert tree(tmp_path)["route_policy/a.json"] == b"9" * 30_000


def test_what_is_withdrawn_goes_also_where_there_is_no_room_to_say_so(tmp_path):
    """rules A9."""
    made = projection(tmp_path)
    made.project(1, [scope("route_policy", {"a": b"1"})], 0.0)
    made.generations.most_bytes = 1
    with pytest.raises(FilesError, match="files_full"):
        made.withdraw(2, 1.0)
    assert not os.path.lexists(tmp_path / "active")
    assert made.generations.labels() == set()
    made.generations.most_bytes = 100_000
    made.withdraw(2, 2.0)
    assert tree(tmp_path).keys() == {"index.json"}


FULL_DISK = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from agent.access.access import Access, AccessRule, Readers
from agent.files import former_folders
from agent.files.file_access import FileAccess
from agent.files.generations import FilesError
from tests.agent.test_projection import projection, scope, tree

folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=0755", "none", folder], check=True)
made = projection(folder, grace_s=1000.0)
for version in range(1, 9):  # the old ones go before it is full
    made.project(version, [scope("route_policy", {"a": bytes([version]) * 150_000})], 1.0)
    assert tree(folder)["route_policy/a.json"] == bytes([version]) * 150_000
for fresh in (made, projection(folder)):
    try:
        fresh.project(9, [scope("route_policy", {"a": b"9" * 400_000})], 1.0)
    except FilesError as error:
        print(error.fault, error)
    assert tree(folder)["route_policy/a.json"] == bytes([8]) * 150_000
assert made.project(10, [scope("route_policy", {"a": b"10"})], 1.0)
assert tree(folder)["route_policy/a.json"] == b"10"
"""


@AS_ROOT
@pytest.mark.skipif(shutil.which("unshare") is None, reason="NOT RUN: a small disk is mounted by unshare(1)")
def test_a_full_disk_costs_the_new_generation_and_never_the_present_one(tmp_path):
    """A real file system without room: a stable code with the remedy, no crash, and the next version goes through."""
    command = ["unshare", "--mount", sys.executable, "-c", FULL_DISK, tmp_path, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("files_full files_full: ")
        assert "No space left" in line and "free space there" in line


def test_an_expired_scope_stays_marked_and_a_withdrawn_one_goes(tmp_path):
    """rules S3, A9."""
    made = projection(tmp_path)
    made.project(1, [scope("route_policy", {"a": b"1"}), scope("qos_policy", {"p": b"2"})], 0.0)
    made.project(1, [scope("route_policy", {"a": b"1"}, grade="expired"), scope("qos_policy", {"p": b"2"})], 1.0)
    index = json.loads(tree(tmp_path)["index.json"])
    assert (index["generation"], index["scopes"]["route_policy"]["grade"]) == (1, "expired")
    assert tree(tmp_path)["route_policy/a.json"] == b"1"
    made.project(2, [scope("qos_policy", {"p": b"2"})], 2.0)
    assert not (tmp_path / "active/route_policy").exists()
    made.withdraw(3, 3.0)
    assert tree(tmp_path).keys() == {"index.json"}
    assert len(list((tmp_path / ".active.generations").iterdir())) == 1  # for nobody, at once


def test_a_reader_keeps_the_generation_that_it_began_with(tmp_path):
    """rules P3: through three swaps, and also after it has been collected for what it has opened."""
    made = projection(tmp_path, grace_s=10.0)
    made.project(1, [scope("route_policy", {"a": b"1", "b": b"1"})], 0.0)
    folder = os.open(tmp_path / "active", os.O_RDONLY | os.O_DIRECTORY)
    opened = os.open("route_policy/a.json", os.O_RDONLY, dir_fd=folder)
    for version in (2, 3, 4):
        made.project(version, [scope("route_policy", {"a": b"%d" % version, "b": b"%d" % version})], 1.0)
    late = os.open("route_policy/b.json", os.O_RDONLY, dir_fd=folder)
    assert (os.read(opened, 9), os.read(late, 9)) == (b"1", b"1")
    made.project(5, [scope("route_policy", {"a": b"5"})], 100.0)
    made.project(6, [scope("route_policy", {"a": b"6"})], 200.0)
    os.lseek(opened, 0, os.SEEK_SET)
    assert os.read(opened, 9) == b"1"
    with pytest.raises(FileNotFoundError):
        os.open("route_policy/b.json", os.O_RDONLY, dir_fd=folder)
    for descriptor in (folder, opened, late):
        os.close(descriptor)


def test_old_ones_are_kept_for_the_grace_time_and_never_too_many(tmp_path):
    made = projection(tmp_path, grace_s=1000.0)
    for version in range(1, 100):
        made.project(version, [scope("route_policy", {"a": b"%d" % version})], 1.0)
    folder = tmp_path / ".active.generations"
    assert len(list(folder.iterdir())) == 65
    made.project(200, [scope("route_policy", {"a": b"200"})], 2000.0)
    made.project(201, [scope("route_policy", {"a": b"201"})], 4000.0)
    assert len(list(folder.iterdir())) == 3


def test_modes_and_group(tmp_path):
    made = projection(tmp_path, Permissions(0o644, 0o755))
    os.umask(old := os.umask(0o077))
    try:
        os.umask(0o077)
        made.project(1, [scope("route_policy", {"a": b"1"})], 0.0)
    finally:
        os.umask(old)
    for path, mode in (("active/", 0o755), ("active/route_policy", 0o755), ("active/index.json", 0o644),
                       ("active/route_policy/a.json", 0o644), (".active.generations", 0o755)):  # fmt: skip
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == mode, path


@AS_ROOT
def test_the_group_reads_and_others_do_not(public_folder):
    """threats U11: another uid of the group reads the files, one outside of it does not."""
    made = projection(public_folder, Permissions(0o640, 0o750, gid=4321))
    made.project(1, [scope("route_policy", {"a": b"1"})], 0.0)
    path = public_folder / "active/route_policy/a.json"

    def reads(gid: int) -> bool:
        command = ["setpriv", "--reuid=4000", f"--regid={gid}", "--clear-groups", "cat", path]
        return subprocess.run(command, capture_output=True, check=False).stdout == b"1"

    assert reads(4321)
    assert not reads(4322)
    made.project(2, [scope("route_policy", {"a": b"1", "b": b"2"})], 0.0)
    assert path.stat().st_gid == 4321


def test_what_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "active").mkdir()
    (tmp_path / "active/file").write_text("somebody's")
    made = projection(tmp_path)
    with pytest.raises(FilesError, match="move it away"):
        made.project(1, [scope("route_policy", {"a": b"1"})], 0.0)
    assert (tmp_path / "active/file").read_text() == "somebody's"
    (tmp_path / "active/file").unlink()
    (tmp_path / "active").rmdir()
    assert made.project(1, [scope("route_policy", {"a": b"1"})], 0.0)
    assert tree(tmp_path)["route_policy/a.json"] == b"1"


def test_a_section_that_cannot_be_read_leaves_the_old_files(tmp_path):
    """rules J47: bytes that are not what they should be are never shown."""
    made = projection(tmp_path)
    made.project(1, [scope("route_policy", {"a": b"1"})], 0.0)

    def damaged(name: str) -> bytes:
        raise OSError(5, "damaged")

    with pytest.raises(FilesError, match=r"files_io: .*damaged"):
        made.project(2, [scope("route_policy", {"a": b"1", "b": b"2"}, read=damaged)], 0.0)
    assert json.loads(tree(tmp_path)["index.json"])["generation"] == 1
    assert [path.name for path in (tmp_path / ".active.generations").iterdir()] == ["1.0"]
    made.project(2, [scope("route_policy", {"a": b"1", "b": b"2"})], 0.0)
    assert tree(tmp_path)["route_policy/b.json"] == b"2"


# ---- many files

MANY = {f"routes.{number:03}": b"%d" % number for number in range(300)}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.removeprefix("route_policy/"): data for path, data in tree(folder).items() if "route_policy/" in path}


def expected(sections: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.json": data for name, data in sections.items()}


def test_of_many_files_a_folder_that_is_over_is_used_again(tmp_path):
    """rules P3, S5: brought up in what was changed since; who has opened that generation finds the scope gone."""
    made, versions = projection(tmp_path, grace_s=10.0), []
    for number in range(1, 7):
        changed = dict.fromkeys((f"routes.{number:03}", f"routes.{number + 100:03}"), b"%d" % (1000 * number))
        versions.append({**(versions[-1] if versions else MANY), **changed, f"new.{number}": b"new"})
        versions[-1].pop(f"new.{number - 2}", None)
        if number == 2:
            reader = os.open(tmp_path / "active", os.O_RDONLY | os.O_DIRECTORY)
            opened = os.open("route_policy/routes.000.json", os.O_RDONLY, dir_fd=reader)
            first = os.stat("route_policy", dir_fd=reader).st_ino
        made.project(number, [scope("route_policy", versions[-1])], 100.0 * number)
        assert files_of(tmp_path) == expected(versions[-1])
        if number == 3:  # two swaps on, and nothing was taken from the reader
            assert os.stat("route_policy/routes.001.json", dir_fd=reader).st_size == 4
        assert len(list((tmp_path / ".active.generations").iterdir())) <= 3
        assert made.generations._sizes.keys() == made.generations.labels(), "of what is gone nothing is remembered"
        if number == 4:
            assert (tmp_path / "active/route_policy").stat().st_ino == first
            with pytest.raises(FileNotFoundError):
                os.stat("route_policy", dir_fd=reader)
    assert os.read(opened, 9) == b"0"
    os.close(opened)
    os.close(reader)


def test_a_folder_that_is_used_again_is_for_the_readers_of_its_scope_alone(tmp_path):
    """rules S5: and for nobody before, once it has expired and was renewed."""
    whose = FileAccess.from_configuration("scope", Permissions(), READERS)
    made = Projection(Generations(tmp_path, "active", whose.top, 1.0), whose)
    places, rights = [], []
    for number, grade in enumerate([*["fresh"] * 5, "expired", *["fresh"] * 4], start=1):
        sections = {**MANY, "routes.000": b"%d" % number}
        made.project(number, [scope("route_policy", sections, grade=grade)], 100.0 * number)
        assert files_of(tmp_path) == expected(sections)
        place = tmp_path / "active/route_policy"
        files = {(stat.S_IMODE(path.stat().st_mode), list_at(path)) for path in place.iterdir()}
        assert len(files) == 1
        rights.append((*files.pop(), stat.S_IMODE(place.stat().st_mode), list_at(place)))
        places.append(place.stat().st_ino)
    assert places[3] == places[0]
    assert places[9] == places[6]  # not of the former readers' folders
    assert {rights.index(right) for right in rights} == {0, 5}
    assert (rights[0][0], rights[0][2]) == (0o640, 0o750)
    assert (rights[5][0], rights[5][2]) == (0o600, 0o700)


def list_at(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return list_of(descriptor)
    finally:
        os.close(descriptor)


def test_within_the_grace_time_no_folder_is_used_again(tmp_path):
    made = projection(tmp_path, grace_s=1000.0)
    made.project(1, [scope("route_policy", MANY)], 1.0)
    reader = os.open(tmp_path / "active", os.O_RDONLY | os.O_DIRECTORY)
    for number in range(2, 8):
        made.project(number, [scope("route_policy", {**MANY, "routes.000": b"%d" % number})], 1.0 * number)
    with os.fdopen(os.open("route_policy/routes.000.json", os.O_RDONLY, dir_fd=reader), "rb") as file:
        assert file.read() == b"0"
    os.close(reader)


def test_a_folder_that_goes_before_its_time_goes_and_is_not_used_again(tmp_path):
    """More of them within a minute than are kept: who has one open finds nothing there, and no newer file."""
    made = projection(tmp_path, grace_s=1000.0)
    made.project(1, [scope("route_policy", MANY)], 0.0)
    reader = os.open(tmp_path / "active/route_policy", os.O_RDONLY | os.O_DIRECTORY)
    for number in range(2, generations.MOST_KEPT + 3):
        made.project(number, [scope("route_policy", {**MANY, "routes.000": b"%d" % number})], 1.0 * number)
    with pytest.raises(FileNotFoundError):
        os.stat("routes.000.json", dir_fd=reader)
    os.close(reader)


def test_of_many_files_fewer_folders_stay(tmp_path, monkeypatch):
    """On a tmpfs each link is an inode of all programs of the machine; the last two stay all the same."""
    made, folders = projection(tmp_path, grace_s=1000.0), tmp_path / ".active.generations"
    monkeypatch.setattr(generations, "MOST_NAMES", 5 * len(MANY))
    for number in range(1, 9):
        made.project(number, [scope("route_policy", {**MANY, "routes.000": b"%d" % number})], 1.0 * number)
        assert files_of(tmp_path)["routes.000.json"] == b"%d" % number
        assert len(list(folders.iterdir())) == min(number, 4)  # a fifth has routes.json beside, and is too much
    monkeypatch.setattr(generations, "MOST_NAMES", 1)
    for number in range(9, 12):
        made.project(number, [scope("route_policy", {**MANY, "routes.000": b"%d" % number})], 1.0 * number)
        assert files_of(tmp_path)["routes.000.json"] == b"%d" % number
    assert len(list(folders.iterdir())) == 1 + generations.KEPT


@pytest.mark.parametrize("between", ["another", "expired", "withdrawn", "all"])
def test_what_is_not_known_of_the_steps_between_is_linked(tmp_path, monkeypatch, between):
    """Other readers, other names than are kept, or nothing of the scope at all: then no folder of before is taken."""
    monkeypatch.setattr(former_folders, "CHANGED_SHARE", 10)
    access = FileAccess.from_configuration(None, Permissions(), Access(()))
    made = Projection(Generations(tmp_path, "active", Permissions(), 1.0), access)
    made.start()
    steps = {
        "another": [scope("route_policy", dict.fromkeys(MANY, b"other"))],
        "expired": [scope("route_policy", MANY, grade="expired")],
        "withdrawn": [],
        "all": [scope("route_policy", {"only": b"1"})],
    }
    made.project(1, [scope("route_policy", MANY)], 100.0)
    made.project(2, steps[between], 200.0)
    for number in range(3, 7):
        sections = {**MANY, "routes.000": b"%d" % number}
        made.project(number, [scope("route_policy", sections)], 100.0 * number)
        assert files_of(tmp_path) == expected(sections)


@pytest.mark.parametrize("spoil", ["take", "add", "put", "open"])
def test_a_former_folder_that_somebody_has_changed_is_never_shown(tmp_path, spoil):
    """The round says so, the files stay as they were, and the next one makes all anew."""
    made = projection(tmp_path, grace_s=1.0)
    for number in range(1, 4):
        made.project(number, [scope("route_policy", {**MANY, "routes.000": b"%d" % number})], 100.0 * number)
    former = tmp_path / ".active.generations" / "1.0" / "route_policy"
    match spoil:
        case "take":
            (former / "routes.200.json").unlink()
        case "add":
            (former / "beside.json").write_text("more")
        case "put":
            (former / "routes.200.json").unlink()
            (former / "routes.200.json").write_text("another in its place")
        case "open":
            former.chmod(0o777)
    wanted = {**MANY, "routes.000": b"4"}
    with pytest.raises(FilesError, match=r"files_io: .*of a former generation"):
        made.project(4, [scope("route_policy", wanted)], 400.0)
    assert files_of(tmp_path)["routes.000.json"] == b"3"
    made.project(4, [scope("route_policy", wanted)], 401.0)
    assert files_of(tmp_path) == expected(wanted)
    assert stat.S_IMODE((tmp_path / "active/route_policy").stat().st_mode) == 0o750


@pytest.mark.parametrize("fails", ["section", "index"])
def test_a_round_that_fails_leaves_no_generation_without_a_scope(tmp_path, monkeypatch, fails):
    """rules S5: also after the folder of a former one was taken; each that is left is what it was, or gone."""
    made, folders, was = projection(tmp_path, grace_s=1.0), tmp_path / ".active.generations", {}
    for number in range(1, 4):
        made.project(number, [scope("route_policy", {**MANY, "routes.000": b"%d" % number})], 100.0 * number)
        was[f"{number}.0"] = files_in(folders / f"{number}.0")

    def damaged(name: str) -> bytes:
        raise OSError(5, "damaged")

    wanted = {**MANY, "routes.000": b"4"}
    with monkeypatch.context() as patch, pytest.raises(FilesError, match=r"files_io: .*damaged"):
        if fails == "index":
            patch.setattr(Projection, "_fill_indexes", lambda *_: damaged(""))
        made.project(4, [scope("route_policy", wanted, **({"read": damaged} if fails == "section" else {}))], 400.0)
    left = {place.name: files_in(place) for place in folders.iterdir() if not place.name.startswith(".")}
    assert left == {label: was[label] for label in left} and {"2.0", "3.0"} <= left.keys()
    for number in range(4, 8):
        wanted = {**MANY, "routes.000": b"%d" % number}
        made.project(number, [scope("route_policy", wanted)], 100.0 * number + 1)
        assert files_of(tmp_path) == expected(wanted)
    assert len(list(folders.iterdir())) == 3


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("stray", ["file", "link", "another's"])
def test_what_is_no_former_folder_of_ours_holds_up_nothing(tmp_path, stray):
    """Whatever lies among the folders goes when its time is over, as a folder does; also before a folder is sought"""
    made, number = projection(tmp_path, grace_s=1.0), 0
    folders = tmp_path / ".active.generations"
    for number in range(1, 9):
        made.project(number, [scope("route_policy", {**MANY, "routes.000": b"%d" % number})], 100.0 * number)
        assert files_of(tmp_path)["routes.000.json"] == b"%d" % number
        if number != 3:
            continue
        match stray:
            case "file":
                (folders / "0").write_text("more")
            case "link":
                (folders / "1.0").rename(tmp_path / "moved")
                (folders / "1.0").symlink_to(tmp_path / "moved")
            case "another's" if os.geteuid() == 0:
                os.chown(folders / "1.0", 4000, 4000)
    made.project(9, [scope("route_policy", {**MANY, "routes.000": b"9"})], 900.0 + generations.SPARE_S)
    assert {path.name for path in folders.iterdir()} == {"7.0", "8.0", "9.0"}


# ---- crashes

CRASH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from agent.files import former_folders
from tests.agent.dying import die_at_each_step
from tests.agent.test_projection import projection, scope

OLD = [scope("route_policy", {"a": b"old", "b": b"same"}), scope("qos_policy", {"p": b"old"})]
NEW = [scope("route_policy", {"a": b"new", "b": b"same", "c": b"new"})]
former_folders.LEAST_FILES = former_folders.CHANGED_SHARE = int(sys.argv[3])

def prepare(place):
    made = projection(place)
    for generation in range(1, 4):  # so that there is something to collect
        made.project(generation, [*OLD, scope("node_runtime", {"n": b"%d" % generation})], 0.0)
    made.generations.grace_s = 0.0
    return made

die_at_each_step(Path(sys.argv[1]), prepare, lambda made: made.project(9, NEW, 100.0))
"""


@pytest.mark.parametrize("least_files", [1000, 1])
def test_a_crash_at_any_step_leaves_the_old_or_the_new_whole(tmp_path, least_files):
    """rules P7: at every single change of the file system; and the next start goes on from whatever was left. Also
    while the folder of a former generation is brought up.
    """
    command = [sys.executable, "-c", CRASH, tmp_path, ROOT, str(least_files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr
    steps = [line.split() for line in done.stdout.splitlines()]
    assert len(steps) > 20
    assert steps[-1][1] == "0"
    seen = set()
    for step, _ in steps:
        place = tmp_path / step
        found = tree(place)
        generation = json.loads(found.pop("index.json"))["generation"]
        seen.add(generation)
        if generation == 3:
            old = {"route_policy/a.json": b"old", "route_policy/b.json": b"same", "qos_policy/p.json": b"old"}
            assert found == {**old, "node_runtime/n.json": b"3", "routes.json": b"{}"}
        else:
            assert generation == 9
            new = {f"route_policy/{name}.json": data for name, data in NEW_FILES.items()}
            assert found == {**new, "routes.json": b"{}"}
        again = projection(place)
        again.project(10, [scope("route_policy", {"a": b"after"})], 0.0)
        assert tree(place)["route_policy/a.json"] == b"after"
        begun = (".new-", ".link-", ".over-")
        assert not [path for path in place.rglob("*") if any(word in path.name for word in begun)]
    assert seen == {3, 9}


NEW_FILES = {"a": b"new", "b": b"same", "c": b"new"}


# ---- against a model

names = st.sampled_from(["route_policy", "route_policy/a", "route_policy/a,b", "qos_policy", "node_runtime"])
contents = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.binary(max_size=3), max_size=3)


class ProjectionModel(RuleBasedStateMachine):
    """What readers see is always exactly the last set that was projected, and what was opened stays readable."""

    @initialize()
    def start(self):
        self.folder = Path(self.base) / str(len(list(Path(self.base).iterdir())))
        self.folder.mkdir()
        self.made = projection(self.folder, grace_s=5.0)
        self.model: dict[str, tuple[dict[str, bytes], str]] | None = None
        self.generation = 0
        self.clock = 0.0
        self.readers: list[tuple[int, dict[str, bytes]]] = []

    def project(self):
        self.generation += 1
        scopes = [scope(name, sections, grade=grade) for name, (sections, grade) in (self.model or {}).items()]
        self.made.project(self.generation, scopes, self.clock)

    @rule(name=names, sections=contents, grade=st.sampled_from(["fresh", "stale", "expired"]))
    def activate(self, name, sections, grade):
        self.model = {**(self.model or {}), name: (sections, grade)}
        self.project()

    @rule(name=names)
    def withdraw(self, name):
        self.model = {key: value for key, value in (self.model or {}).items() if key != name}
        self.project()

    @rule()
    def revoke(self):
        self.model = {}
        self.generation += 1
        self.made.withdraw(self.generation, self.clock)

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds):
        self.clock += seconds

    @rule()
    def restart(self):
        self.made = projection(self.folder, grace_s=5.0)
        if self.model is not None:
            self.project()

    @rule()
    def read(self):
        if self.model:
            for path, data in tree(self.folder).items():
                self.readers.append((os.open(self.folder / "active" / path, os.O_RDONLY), data))

    @invariant()
    def readers_see_the_model(self):
        if getattr(self, "model", None) is None:
            return
        found = tree(self.folder)
        index = json.loads(found.pop("index.json"))
        assert index["generation"] == self.generation
        assert {name: entry["grade"] for name, entry in index["scopes"].items()} == {
            name: grade for name, (_, grade) in self.model.items()
        }
        assert found.pop("routes.json", None) == (b"{}" if "route_policy" in self.model else None)
        assert found == {
            f"{folder_of(name)}/{section}.json": data
            for name, (sections, _) in self.model.items()
            for section, data in sections.items()
        }

    def teardown(self):
        for descriptor, data in getattr(self, "readers", []):
            assert os.pread(descriptor, 1 << 20, 0) == data
            os.close(descriptor)


@pytest.mark.parametrize("least_files", [1000, 1])
def test_against_a_model(tmp_path, monkeypatch, least_files):
    monkeypatch.setattr(former_folders, "LEAST_FILES", least_files)
    monkeypatch.setattr(former_folders, "CHANGED_SHARE", 1)
    machine = type("Machine", (ProjectionModel,), {"base": str(tmp_path)})
    case = machine.TestCase
    case.settings = examples(60, stateful_step_count=25, suppress_health_check=list(HealthCheck))
    case().runTest()


def test_what_was_taken_away_is_made_anew(tmp_path):
    """The link, the folders, all of it; also with nothing new to show, and with the permissions of the first."""
    root = tmp_path / "run"
    made = projection(root, Permissions(0o644, 0o755))
    scopes = [scope("route_policy", {"routes": b"1"}), scope("qos_policy/amber", {"policies": b"2"})]
    assert made.project(3, scopes, 0.0)
    whole = tree(root)
    for take in (
        (root / "active").unlink,
        lambda: shutil.rmtree(root / ".active.generations"),
        lambda: (shutil.rmtree(root / ".active.generations"), (root / "active").unlink()),
        lambda: shutil.rmtree(root),
        (root / "active/index.json").unlink,
    ):
        take()
        with capture_logs() as logs:
            assert made.project(3, scopes, 1.0)
            assert not made.project(3, scopes, 2.0)
        assert [one["log_level"] for one in logs] == ["warning"]
        assert tree(root) == whole
        assert stat.S_IMODE((root / "active").stat().st_mode) == 0o755
        assert stat.S_IMODE((root / "active/index.json").stat().st_mode) == 0o644


def test_a_file_that_was_taken_away_does_not_hold_up_the_next_version(tmp_path):
    """It cannot be linked; the round after that writes all of them."""
    made = projection(tmp_path)
    made.project(1, [scope("route_policy", {"a": b"1", "b": b"1"})], 0.0)
    (tmp_path / "active/route_policy/a.json").unlink()
    after = [scope("route_policy", {"a": b"1", "b": b"2"}, 2)]
    with pytest.raises(FilesError, match=r"files_io: .*No such file"):
        made.project(2, after, 1.0)
    assert made.project(2, after, 2.0)
    assert (tmp_path / "active/route_policy/a.json").read_bytes() == b"1"


def test_what_is_not_ours_is_left_and_nothing_piles_up(tmp_path):
    made = projection(tmp_path)
    made.project(1, [scope("route_policy", {"a": b"1"})], 0.0)
    (tmp_path / "active").unlink()
    (tmp_path / "active").mkdir()
    before = len(made.generations.labels())
    for _ in range(3):
        with pytest.raises(FilesError):
            made.project(1, [scope("route_policy", {"a": b"1"})], 1.0)
    assert len(made.generations.labels()) == before


def test_a_start_leaves_the_rights_of_the_files_that_are_read_as_they_are(tmp_path):
    """While the agent is down its files are what services go by: not for a moment are they shut to one of them."""
    given = Permissions(0o640, 0o750, readers=Readers(uids=frozenset({4001})))
    projection(tmp_path, given).project(7, [scope("route_policy", {"routes": b"{}"})], 0.0)
    before = (tmp_path / ".active.generations").stat().st_ctime_ns
    begun(tmp_path, given).start()
    assert (tmp_path / ".active.generations").stat().st_ctime_ns == before
    (tmp_path / ".active.generations").chmod(0o700)
    begun(tmp_path, given).start()
    assert stat.S_IMODE((tmp_path / ".active.generations").stat().st_mode) == 0o750

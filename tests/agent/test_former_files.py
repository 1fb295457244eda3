"""The file of all routes, patched in that of a former generation: what it says, and that who has one open keeps it."""

import json
import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.files import former_files, former_folders, routes_file, scope_files
from agent.files.file_access import FileAccess
from agent.files.generations import FilesError, Generations, Permissions
from agent.files.projection import Projection
from tests.agent.test_entry_files import of_table
from tests.citations import ROOT
from tests.examples import examples

PARTS = {f"routes.{number:03}": {f"r{number}": {"ttl_s": 60}} for number in range(8)}
FILE = "routes.json"


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(former_folders, "LEAST_FILES", 1)
    monkeypatch.setattr(former_folders, "CHANGED_SHARE", 1)


def begun(folder: Path) -> Projection:
    given = Permissions()
    return Projection(Generations(folder, "active", given, grace_s=1.0), FileAccess(given))


def with_ttl(number: int, ttl_s: int) -> dict[str, object]:
    return {f"routes.{number:03}": {f"r{number}": {"ttl_s": ttl_s}}}


def routes_of(state: dict[str, object]) -> dict[str, object]:
    return {name: entry for part in state.values() for name, entry in part.items()}


def show(made: Projection, generation: int, state: dict[str, object], reads: list[str] | None = None) -> int:
    """The inode of the file, which says what it is to say."""
    made.project(generation, [of_table(state, reads)], 100.0 * generation)
    file = made.generations.link / FILE
    assert json.loads(file.read_bytes()) == routes_of(state)
    return file.stat().st_ino


def test_what_has_changed_is_written_into_a_file_of_before(tmp_path):
    """rules P3: one that is over, by all that was changed since; nothing else is read."""
    made, state, inodes = begun(tmp_path), dict(PARTS), []
    for generation in range(1, 9):
        state |= with_ttl(generation % 8, 10 + generation)
        inodes.append(show(made, generation, state, reads := []))
        behind = {f"routes.{number % 8:03}" for number in range(generation - 2, generation + 1)}
        assert generation < 4 or set(reads) <= behind
    assert inodes[3:] == inodes[:5]
    assert len(set(inodes)) == 3


@pytest.mark.parametrize(
    "changes",
    [with_ttl(3, 1000), with_ttl(0, 1), {"routes.004": {}}, {"routes.0035": {"between": {}}}, {"routes.000": None}],
    ids=["longer", "shorter", "empty", "more", "fewer"],
)
def test_where_a_part_lies_elsewhere_the_file_is_copied(tmp_path, changes):
    """And those after it are patched again, once what is over has that form."""
    made, state, inodes = begun(tmp_path), dict(PARTS), []
    for generation in range(1, 11):
        state |= with_ttl(7, 10 + generation)
        if generation == 4:
            state |= changes
            state = {name: value for name, value in sorted(state.items()) if value is not None}
        inodes.append(show(made, generation, state))
    assert not {*inodes[:3]} & {*inodes[3:6]}
    assert inodes[6:9] == inodes[3:6]


def test_what_was_there_already_takes_no_room(tmp_path):
    """What all of them come to at most is said without a look at the disk, and is never less than they are."""
    made, state, said = begun(tmp_path), {"routes": {"long": "x" * 100_000}, **PARTS}, []
    for generation in range(1, 12):
        state |= with_ttl(generation % 8, 10 + generation)
        show(made, generation, state)
        said.append(made.generations._at_most)
        assert said[-1] is not None
        assert said[-1] >= made.generations._bytes()
    assert said[-1] - said[-2] < 100_000 < said[1] - said[0]


def three(folder: Path) -> tuple[Projection, dict[str, object], list[int], Path]:
    """Generations, and the file of the first, which the next would be made of."""
    made, state, inodes = begun(folder), dict(PARTS), []
    for generation in range(1, 4):
        state |= with_ttl(generation, 10 + generation)
        inodes.append(show(made, generation, state))
    return made, state, inodes, folder / ".active.generations/1.0" / FILE


def test_who_has_opened_it_keeps_what_it_has(tmp_path):
    """rules S5: for as long as it likes."""
    made, state, inodes, former = three(tmp_path)
    with former.open("rb") as reader:
        assert show(made, 4, state | with_ttl(4, 14)) not in inodes
        assert json.loads(reader.read()) == routes_of(PARTS | with_ttl(1, 11))


def test_who_has_mapped_it_keeps_what_it_has(tmp_path):
    """Also without a descriptor of it."""
    made, state, inodes, former = three(tmp_path)
    with former.open("rb") as opened:
        reader = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
    assert show(made, 4, state | with_ttl(4, 14)) not in inodes
    assert json.loads(reader[:]) == routes_of(PARTS | with_ttl(1, 11))
    reader.close()


def test_who_has_given_it_another_name_keeps_what_it_has(tmp_path):
    made, state, inodes, former = three(tmp_path)
    os.link(former, tmp_path / "kept")
    assert show(made, 4, state | with_ttl(4, 14)) not in inodes
    assert json.loads((tmp_path / "kept").read_bytes()) == routes_of(PARTS | with_ttl(1, 11))


def test_who_opens_it_meanwhile_waits_until_it_is_whole(tmp_path, monkeypatch):
    """rules S5: by what is no open file, as a bind mount of it or a descriptor that only says where it is."""
    made, state, inodes, former = three(tmp_path)
    place, refused = os.open(former, os.O_PATH), []

    def write(descriptor, pieces):
        with pytest.raises(BlockingIOError) as caught:
            os.close(os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK))
        refused.append(caught.value)
        former_files.write_pieces(descriptor, pieces)

    monkeypatch.setattr(scope_files, "write_pieces", write)
    assert show(made, 4, state := state | with_ttl(4, 14)) == inodes[0]
    assert len(refused) == 1
    assert json.loads(Path(f"/proc/self/fd/{place}").read_bytes()) == routes_of(state)
    os.close(place)


def test_what_is_more_than_is_held_in_memory_is_copied(tmp_path, monkeypatch):
    """A part at a time, as a file that is made anew; what is less is written into that of before."""
    monkeypatch.setattr(routes_file, "MOST_PATCHED_BYTES", 3 * len(b'{"r0":{"ttl_s":60}}'))
    made, state, inodes, _ = three(tmp_path)
    assert show(made, 4, state := state | with_ttl(4, 14) | with_ttl(5, 14)) not in inodes
    assert show(made, 5, state | with_ttl(4, 15)) == inodes[1]


def put_link(former: Path) -> None:
    former.rename(former.parents[2] / "elsewhere")
    former.symlink_to(former.parents[2] / "elsewhere")


TOUCHED = {
    "written": lambda former: former.write_bytes(former.read_bytes().replace(b"60", b"99")),
    "mode": lambda former: former.chmod(0o666),
    "gone": lambda former: former.unlink(),
    "link": put_link,
}


@pytest.mark.parametrize("how", TOUCHED)
def test_one_that_is_not_as_it_was_made_is_never_shown(tmp_path, how):
    made, state, inodes, former = three(tmp_path)
    TOUCHED[how](former)
    assert show(made, 4, state | with_ttl(4, 14)) not in inodes
    assert (tmp_path / "active" / FILE).stat().st_mode & 0o777 == 0o640
    if how == "link":
        assert json.loads((tmp_path / "elsewhere").read_bytes()) == routes_of(PARTS | with_ttl(1, 11))
    for generation in range(5, 9):
        show(made, generation, state | with_ttl(5, 10 + generation))


def test_a_folder_in_its_place_costs_a_round(tmp_path):
    made, state, _, former = three(tmp_path)
    former.unlink()
    former.mkdir()
    with pytest.raises(FilesError, match="files_io"):
        show(made, 4, state | with_ttl(4, 14))
    for generation in range(5, 9):
        show(made, generation, state | with_ttl(5, 10 + generation))


def test_a_section_that_cannot_be_read_leaves_the_files_as_they_are(tmp_path):
    """rules J47: also half way through a file of before, which nobody sees."""
    made, state = begun(tmp_path), dict(PARTS)
    for generation in range(1, 4):
        show(made, generation, state := state | with_ttl(generation, 10 + generation))
    before = made.generations.link.readlink()

    class Damaged(list):
        def append(self, section: str) -> None:
            raise OSError(5, "damaged")

    with pytest.raises(FilesError, match=r"files_io: .*damaged"):
        made.project(4, [of_table(state | with_ttl(4, 14), Damaged())], 400.0)
    assert made.generations.link.readlink() == before
    assert json.loads((tmp_path / "active" / FILE).read_bytes()) == routes_of(state)
    for generation in range(5, 10):
        show(made, generation, state := state | with_ttl(4, 10 + generation))


NAMES = st.sampled_from([*PARTS, "routes", "routes.0035", "other"])
VALUES = st.sampled_from([None, {}, {"a": 1}, {"a": 2}, {"b": {"ttl_s": 60}}, {"b": {"ttl_s": 61}}, [1, 2], [3, 4]])


@given(st.lists(st.tuples(st.dictionaries(NAMES, VALUES), st.booleans()), min_size=4, max_size=14))
@examples(80)
def test_whatever_changes_it_says_what_is_active_and_readers_keep_theirs(steps):
    """Also where some are opened and kept, so that the next is made of another one"""
    kept = []
    few = {"LEAST_FILES": 1, "CHANGED_SHARE": 1}
    with tempfile.TemporaryDirectory() as folder, patch.multiple(former_folders, **few):
        made, state = begun(Path(folder)), {"routes.ff": {"z": 26}}
        for generation, (changes, is_kept) in enumerate(steps, 1):
            state = {name: value for name, value in (state | changes).items() if value is not None}
            made.project(generation, [of_table(state)], 100.0 * generation)
            parts = [state[name] for name in sorted(state) if name == "routes" or name.startswith("routes.")]
            members = [json.dumps(part, separators=(",", ":"))[1:-1] for part in parts if isinstance(part, dict)]
            wanted = f"{{{','.join(filter(None, members))}}}".encode()
            assert (Path(folder) / "active" / FILE).read_bytes() == wanted
            if is_kept:
                kept.append((os.open(Path(folder) / "active" / FILE, os.O_RDONLY), wanted))
        for descriptor, wanted in kept:
            assert os.pread(descriptor, 1 << 16, 0) == wanted
            os.close(descriptor)


CRASH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from agent.files import former_folders
from tests.agent.dying import die_at_each_step
from tests.agent.test_former_files import PARTS, begun, with_ttl, of_table

former_folders.LEAST_FILES = former_folders.CHANGED_SHARE = 1

def prepare(place):
    made = begun(place)
    for generation in range(1, 4):
        made.project(generation, [of_table(PARTS | with_ttl(0, 10 + generation))], 100.0 * generation)
    return made, (place / ".active.generations/1.0/routes.json").stat().st_ino

def work(prepared):
    made, first = prepared
    made.project(9, [of_table(PARTS | with_ttl(0, 19) | with_ttl(5, 19))], 900.0)
    assert (made.generations.link / "routes.json").stat().st_ino == first

die_at_each_step(Path(sys.argv[1]), prepare, work)
"""


def test_a_crash_at_any_step_leaves_the_old_or_the_new_whole(tmp_path):
    """rules P7: also between what is written into a file of before and the swap."""
    command = [sys.executable, "-c", CRASH, tmp_path, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr
    seen = set()
    for line in done.stdout.splitlines():
        place = tmp_path / line.split()[0]
        generation = json.loads((place / "active/index.json").read_bytes())["generation"]
        seen.add(generation)
        wanted = PARTS | (with_ttl(0, 13) if generation == 3 else with_ttl(0, 19) | with_ttl(5, 19))
        assert json.loads((place / "active" / FILE).read_bytes()) == routes_of(wanted)
        again = begun(place)
        again.start()
        show(again, 10, PARTS | with_ttl(1, 77))
        assert not [one for one in place.rglob("*") if any(word in one.name for word in (".new-", ".link-", ".over-"))]
    assert seen == {3, 9}

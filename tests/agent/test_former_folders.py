"""Folders that are over and stay for the next burst: how many, for how long, and that nothing else waits for them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.files import former_folders, generations
from agent.files.generations import KEPT, MOST_SPARES, SPARE_S, on_disk
from agent.files.layout import ProjectedScope
from agent.files.projection import Projection
from tests.agent.test_projection import AS_ROOT, MANY, begun, expected, files_of, scope
from tests.citations import ROOT

MINUTE = 60.0


def burst(made: Projection, first: int, count: int, now: float) -> list[int]:
    """The inodes of the scope's folders, of updates that follow each other at once."""
    root, found = made.generations.root, []
    for number in range(first, first + count):
        sections = {**MANY, f"routes.{number % 300:03}": b"%d" % (1000 + number)}
        made.project(number, [scope("route_policy", sections)], now)
        assert files_of(root) == expected(sections)
        found.append((root / "active/route_policy").stat().st_ino)
    return found


def folders(folder: Path) -> int:
    return len(list((folder / ".active.generations").iterdir()))


def look(made: Projection, now: float) -> None:
    """As every few seconds, without anything new."""
    made.generations.collect(now, spared=made._former.useful())


def test_each_update_of_a_burst_finds_a_folder_that_is_over(tmp_path):
    """rules P3: none is made anew, and none removed, but for what is beyond those that stay."""
    made, cheap = begun(tmp_path), KEPT + MOST_SPARES
    first = burst(made, 1, 9, 0.0)
    assert len(set(first)) == 9, "within the minute each is another one"
    for number in range(1, 4):
        look(made, now := number * 1000.0)
        assert folders(tmp_path) == 1 + cheap
        again = burst(made, 100 * number, cheap + 1, now)
        assert {*again[:-1]} <= {*first}
        assert again[-1] not in first, "their minute has only begun"
        first += again


def test_what_stays_goes_after_an_hour(tmp_path):
    made = begun(tmp_path)
    burst(made, 1, 9, 0.0)
    look(made, MINUTE - 1)
    assert folders(tmp_path) == 9
    for now in (MINUTE, MINUTE + SPARE_S - 1):
        look(made, now)
        assert folders(tmp_path) == 1 + KEPT + MOST_SPARES
    look(made, MINUTE + SPARE_S)
    assert folders(tmp_path) == 1 + KEPT


@pytest.mark.parametrize(
    "scarce", ["MOST_SPARE_NAMES", "SPARE_SHARE", "FREE_INODES", "MOST_STEPS", "LEAST_FILES", "none"]
)
def test_where_room_is_scarce_none_stays(tmp_path, monkeypatch, scarce):
    """Inodes and bytes are for what is shown; and a folder that the next one would not be made of is in the way."""
    made = begun(tmp_path)
    if scarce in ("MOST_SPARE_NAMES", "SPARE_SHARE", "FREE_INODES"):
        enough = {"MOST_SPARE_NAMES": len(MANY), "SPARE_SHARE": 1 << 30, "FREE_INODES": 1.1}
        monkeypatch.setattr(generations, scarce, enough[scarce])
    elif scarce != "none":
        monkeypatch.setattr(former_folders, scarce, {"MOST_STEPS": 1, "LEAST_FILES": 1000}[scarce])
    burst(made, 1, 9, 0.0)
    look(made, 1000.0)
    assert folders(tmp_path) == 1 + KEPT + (MOST_SPARES if scarce == "none" else 0)


@pytest.mark.parametrize("how", ["all", "readers", "withdrawn", "revoked", "restart"])
def test_what_they_are_not_good_for_any_more_they_do_not_outlive(tmp_path, how):
    """rules A9, S5: of what is taken away, and of what is for others now, nothing stays beyond its time."""
    made = begun(tmp_path)
    burst(made, 1, 9, 0.0)
    look(made, 1000.0)
    assert folders(tmp_path) == 1 + KEPT + MOST_SPARES
    match how:
        case "all":
            made.project(50, [scope("route_policy", dict.fromkeys(MANY, b"other"))], 1000.0)
        case "readers":
            made.project(50, [scope("route_policy", MANY), scope("qos_policy", {"p": b"1"})], 1000.0)
            made._given["route_policy"] = None
            made.project(51, [scope("route_policy", MANY)], 1000.0)
        case "withdrawn":
            made.project(50, [], 1000.0)
        case "revoked":
            made.withdraw(50, 1000.0)
        case "restart":
            made = begun(tmp_path)
            burst(made, 50, 1, 1000.0)
    look(made, 1000.0 + 2 * MINUTE)
    assert folders(tmp_path) == {"readers": 1, "revoked": 1, "restart": 1}.get(how, 1 + KEPT)


def test_a_scope_that_goes_does_not_stay_with_another_that_does_not(tmp_path):
    """rules A9, S5: a former folder has all scopes of its generation, also those that this node is not to show."""
    made, folders_of = begun(tmp_path), tmp_path / ".active.generations"

    def show(number: int, *others: ProjectedScope, now: float) -> None:
        sections = {**MANY, "routes.000": b"%d" % (1000 + number)}
        made.project(number, [scope("route_policy", sections), *others], now)

    for number in range(101, 109):
        show(number, scope("service_assignment/web", {"services": b"{}"}), now=0.0)
    look(made, 1000.0)
    assert folders(tmp_path) == 1 + KEPT + MOST_SPARES
    for number in range(109, 109 + KEPT + 1):
        show(number, now=1000.0)
    look(made, 1000.0 + 2 * MINUTE)
    assert not list(folders_of.glob("*/service_assignment@web"))
    again = burst(made, 200, 9, 2000.0)
    look(made, 3000.0)
    assert {*burst(made, 300, KEPT + MOST_SPARES, 3000.0)} <= {*again}, "those after it stay as ever"


def test_what_stays_goes_before_one_whose_minute_is_not_over(tmp_path):
    """Where `projection_bytes` leaves no room."""
    made = begun(tmp_path)
    burst(made, 1, 9, 0.0)
    look(made, 1000.0)
    assert folders(tmp_path) == 1 + KEPT + MOST_SPARES
    made.generations.most_bytes = made.generations._bytes() + 2 * on_disk(1) - 1
    made.project(10, [scope("route_policy", MANY), scope("qos_policy", {"p": b"1"})], 1000.0)
    assert made.generations.labels() == {"8.0", "9.0", "10.0"}


SMALL_DISK = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.agent.test_former_folders import begun, burst, folders, look

folder = Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={sys.argv[3]},nr_inodes=0,mode=0755", "none", folder], check=True)
made = begun(folder)
burst(made, 1, 9, 0.0)
look(made, 1000.0)
print(folders(folder))
(folder / "another's").write_bytes(bytes(int(sys.argv[4])))
look(made, 1000.0)
print(folders(folder))
"""


@AS_ROOT
@pytest.mark.skipif(shutil.which("unshare") is None, reason="NOT RUN: a small disk is mounted by unshare(1)")
@pytest.mark.parametrize(("size", "others", "stay"), [("4m", 2_700_000, [4, 0]), ("1g", 2_700_000, [4, 4])])
def test_where_the_disk_is_small_none_stays(tmp_path, size, others, stay):
    """Other programs have /run as well, and it may be smaller than `projection_bytes` allows."""
    command = ["unshare", "--mount", sys.executable, "-c", SMALL_DISK, ROOT, tmp_path, size, str(others)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [int(line) - 1 - KEPT for line in done.stdout.split()] == stay


def test_for_one_that_stays_few_names_are_remembered(tmp_path):
    """Each step since would be remembered for as long as it stays: one that has many of them is let go of."""
    made, sections = begun(tmp_path), dict(MANY)
    burst(made, 1, 9, 0.0)
    for number in range(50):
        changed = dict.fromkeys(list(MANY)[number : number + 40], b"%d" % (5000 + number))
        made.project(50 + number, [scope("route_policy", sections := {**sections, **changed})], 1000.0 + 100 * number)
        steps = made._former._steps["route_policy"]
        assert sum(len(step.changed or ()) for step in steps.values()) < len(MANY)
        assert folders(tmp_path) <= (1 + KEPT if number else 1 + KEPT + MOST_SPARES)

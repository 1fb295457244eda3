"""The README's tours, pasted as it stands there: block by block into one shell, each block in one go.

Nobody waits between two commands but the commands themselves. Each succeeds, and prints what the page shows.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.citations import ROOT
from tests.documented_blocks import Block, blocks
from tests.world import programs
from tests.world.ports import free_ports

HEX = re.compile(r"[0-9a-f]{8,}(\.\.\.)?")
LASTS = re.compile(r"\d+ (d|h|min|s)( \d+ (h|min|s))?")
BROUGHT = re.compile(r"^((?:node_bootstrap|trust_bundle) .* )(?:coordinator|the join)$")
COUNTED = re.compile(r"(generation|head) \d+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[0-9:]+Z")

INSTALLED = "$ git clone"


@dataclass(frozen=True)
class Tour:
    """`begins`: its first command. `at`: where the page has it. `files`: the blocks that are files, in their order.
    `programs`: the folder of them; of ten nodes and all that is typed for them the forked ones do.
    """

    begins: str
    at: str
    files: tuple[str, ...]
    programs: Callable[[], Path] = lambda: Path(sys.executable).parent

    def blocks(self) -> list[Block]:
        """From its first command to the last before the next tour."""
        found = blocks("README.md")
        typed = [number for number, each in enumerate(found) if each.name.startswith("$ ")]
        firsts = [number for number in typed if any(found[number].name.startswith(tour.begins) for tour in TOURS)]
        begin = next(number for number in firsts if found[number].name.startswith(self.begins))
        following = min((number for number in firsts if number > begin), default=len(found))
        return found[begin : max(number for number in typed if number < following) + 1]


TOURS = (
    Tour(INSTALLED, "/tmp/tour", ("fabric.yaml", "agent.toml")),
    Tour("$ mkdir -p /tmp/ten/fleet", "/tmp/ten", ("fleet/app.yaml", "fleet/rollout.yaml"), programs.folder),
)


class Shell:
    """A login of an ordinary user's: one interactive bash, a home of its own."""

    def __init__(self, folder: Path, programs: Path) -> None:
        path = f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"
        self.process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.paste("set -m; trap 'echo \"#failed $BASH_COMMAND\"' ERR")

    def paste(self, text: str) -> list[str]:
        """What was printed until all of it had been carried out; a command that failed is among it."""
        self.process.stdin.write(f"{text}\necho; echo '#end'\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "#end\n":
                return lines
            lines.append(line.rstrip())
        raise AssertionError(lines)

    def end(self) -> None:
        self.paste("kill $(jobs -p); wait")
        self.process.communicate()


@pytest.fixture
def folder():
    """An empty directory with a short name, since sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shell(folder, tour):
    shell = Shell(folder, tour.programs())
    yield shell
    shell.end()


def installing(block: Block) -> str:
    """As it stands there, but for the packages: this environment has all that the extra asks for, and so the other one
    needs no pip, whose own making would be half of the tour's work.
    """
    lines = block.typed()
    (pip,) = (line for line in lines if line.startswith("pip install"))
    assert pip.endswith("-e './holdfast[coordinator]'")
    asked = [Requirement(each) for each in requires("holdfast") or ()]
    needed = [each for each in asked if each.marker is None or each.marker.evaluate({"extra": "coordinator"})]
    assert [each.name for each in needed if not each.specifier.contains(version(each.name), prereleases=True)] == []
    lines.remove(pip)
    if not (ROOT / ".git").exists():  # from an archive
        lines[0] = "mkdir holdfast"
    typed = "\n".join(lines).replace("REPOSITORY", str(ROOT))
    assert "python3 -m venv " in typed
    return typed.replace("python3 -m venv ", "python3 -m venv --without-pip ")


def alike(line: str, folder: Path, shown_at: str) -> str:
    """Without what is another in every cluster: ids, hashes, times, the folder; and by whom a node has what its join
    brings and its coordinator offers: whoever was first.
    """
    line = line.replace(f"{folder}/", "").replace(f"{shown_at}/", "")
    line = LASTS.sub("T", MOMENT.sub("T", COUNTED.sub(r"\1 N", HEX.sub("H", line))))
    return BROUGHT.sub(r"\1", " ".join(line.split()))


@pytest.mark.skipif(shutil.which("curl", path="/usr/bin:/bin") is None, reason="NO CURL: apt-get install curl")
@pytest.mark.parametrize("tour", TOURS, ids=lambda tour: Path(tour.at).name)
def test_each_block_is_pasted_whole_and_does_what_the_page_shows(shell, folder, tour):
    """rules S5, S71, K28, A15: as somebody who sees it for the first time, and is fast. On ports of its own: two runs
    side by side would share those of the page, and the one for probes that it does not name.
    """
    fleet, join, probes = map(str, free_ports(3))
    place = folder / Path(tour.at).name

    def here(text):
        text = text.replace("7443", fleet).replace("7444", join)
        text = text.replace("holdfastctl init ", f"holdfastctl init --listen-probes 127.0.0.1:{probes} ")
        return text.replace(tour.at, str(place))

    files = iter(tour.files)
    for block in tour.blocks():
        if block.kind:
            (place / next(files)).write_text(here(block.text))
            continue
        text = installing(block) if block.name.startswith(INSTALLED) else "\n".join(block.typed())
        printed = shell.paste(here(text))
        known = {alike(line, place, tour.at) for line in printed}
        missing = [line for line in block.shown() if alike(line, place, tour.at) not in known]
        failed = [line for line in printed if line.startswith("#failed")]
        assert (failed, missing) == ([], []), "\n".join([*printed, *logs(place)])
    assert list(files) == []


def logs(folder: Path) -> list[str]:
    return [path.read_text()[-1500:] for path in folder.rglob("*.log")]

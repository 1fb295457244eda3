"""The README's tour, typed as it stands there: every command succeeds, and prints what the page shows."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from examples.demo.processes import free_ports
from tests.citations import ROOT

WITHIN_S = 120.0
HEX = re.compile(r"[0-9a-f]{8,}(\.\.\.)?")
LASTS = re.compile(r"\d+ (d|h|min|s)( \d+ (h|min|s))?")
COUNTED = re.compile(r"(generation|head) \d+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[0-9:]+Z")

FILES = {"yaml": "fabric.yaml", "toml": "agent.toml"}


@dataclass
class Typed:
    """A command, and the lines that the page shows below it."""

    command: str
    shown: list[str] = field(default_factory=list)


def page():
    return (ROOT / "README.md").read_text().partition("## A tour")[2].partition("\n## ")[0]


def typed():
    found: list[Typed] = []
    for line in re.findall(r"^    (.*)$", re.sub(r"```.*?```", "", page(), flags=re.DOTALL), re.MULTILINE):
        if line.startswith("$ "):
            found.append(Typed(line[2:]))
        elif found[-1].command.endswith("\\"):
            found[-1].command = found[-1].command[:-1] + line.strip()
        elif line not in ("", "..."):
            found[-1].shown.append(line)
    return found


def shown_files():
    """Name and text of each file that the page has somebody write."""
    return [(FILES[kind], text) for kind, text in re.findall(r"```(\w+)\n(.*?)```", page(), re.DOTALL)]


class Shell:
    """A login of an ordinary user's: one bash, a home of its own."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        self.process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.run("set -m")

    def run(self, command: str) -> tuple[int, list[str]]:
        """Its exit status, and what it printed."""
        separator = "\n" if command.endswith("&") else "; "
        self.process.stdin.write(f"{command}{separator}echo; echo '#end '$?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith("#end "):
                return int(line[5:]), lines
            lines.append(line.rstrip())
        raise AssertionError(lines)

    def end(self) -> None:
        self.run("kill $(jobs -p); wait")
        self.process.communicate()


@pytest.fixture
def folder():
    """An empty directory with a short name, since sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shell(folder):
    shell = Shell(folder)
    yield shell
    shell.end()


def alike(line: str, folder: Path) -> str:
    """Without what is another in every cluster: ids, hashes, times, the folder."""
    line = line.replace(f"{folder}/", "").replace("/tmp/tour/", "")
    line = LASTS.sub("T", MOMENT.sub("T", COUNTED.sub(r"\1 N", HEX.sub("H", line))))
    return " ".join(line.split())


@pytest.mark.skipif(shutil.which("curl", path="/usr/bin:/bin") is None, reason="NO CURL: apt-get install curl")
def test_every_command_does_what_the_page_shows(shell, folder):
    """rules S5, S71, K28, A15: as somebody who sees it for the first time"""
    fleet, join, probes = map(str, free_ports(3))

    def here(text):
        return text.replace("7443", fleet).replace("7444", join).replace("/tmp/tour", str(folder))

    assert [name for name, _ in shown_files()] == ["fabric.yaml", "agent.toml"]
    for name, text in shown_files():
        (folder / name).write_text(here(text))
    commands = typed()
    assert len(commands) > 10
    for one in commands:
        command = here(one.command)
        if command.startswith("holdfastctl init"):  # a machine may run several tests at a time
            command += f" --listen-probes 127.0.0.1:{probes}"
        succeeds(shell, command, {alike(line, folder) for line in one.shown}, folder)


def succeeds(shell: Shell, command: str, shown: set[str], folder: Path) -> None:
    """Daemons take a moment to answer, as they do to whoever types: some is typed again."""
    end = time.monotonic() + WITHIN_S
    while True:
        status, printed = shell.run(command)
        missing = shown - {alike(line, folder) for line in printed}
        if status == 0 and not missing:
            return
        again = command.startswith(("holdfast ", "holdfastctl apply", "curl", "cat"))
        assert again and time.monotonic() < end, (command, status, missing, printed, logs(folder))


def logs(folder: Path) -> list[str]:
    return [path.read_text()[-1500:] for path in folder.glob("*.log")]

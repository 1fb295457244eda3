"""`make demo`, as a user runs it: the main job from end to end, what it leaves running, and what it leaves behind."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from examples.demo import story
from tests.citations import ROOT
from tests.world import programs

CURL = shutil.which("curl", path="/usr/bin:/bin")
LIMIT_S = 900  # it takes a minute on a quiet machine; tests assert no times


@pytest.fixture
def place():
    """Where the demonstration makes its folder: a short path, since sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    yield folder
    for stop in folder.glob("*/stop"):
        subprocess.run(["sh", stop], check=False)
    shutil.rmtree(folder)


def start(place, *options, python=None):
    """By `python`, else by one whose programs are forked: interpreters that start are half of its work."""
    command = [python or programs.interpreter(), "-m", "examples.demo", *options]
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(place), "HOME": str(place), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def of_ours(place):
    """Processes that name the folder, the daemons and the gateway: pid -> command."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if f"{place}/holdfast-demo-" in command:
                found[int(path.parent.name)] = command
    return found


def ending(place):
    """For each of them a descriptor that can be read from once it has ended."""
    found = []
    for pid in of_ours(place):
        with contextlib.suppress(ProcessLookupError):
            found.append(os.pidfd_open(pid))
    return found


def test_every_step_holds_and_what_is_kept_can_be_looked_at(place):
    """rules S5, S36, S55, S55f, S57, S71, S72, A6, A15, K28: on real daemons, by the commands that a user has."""
    with start(place, "--keep") as demo:
        printed, _ = demo.communicate(timeout=LIMIT_S)
    assert demo.returncode == 0, printed
    assert "NOT PROVED" not in printed
    [steps, claimed] = re.search(r"All (\d+) steps held: (\d+) claims proved, none failed", printed).groups()
    told, _, summary = printed.partition("What was proved")
    proved = re.findall(r"^  proved  (.*)$", told, re.MULTILINE)
    assert len(proved) == int(claimed)
    assert re.findall(r"^  proved  (.*)$", summary, re.MULTILINE) == proved
    assert re.findall(r"^(\d+)  ", summary, re.MULTILINE) == [str(number) for number in range(1, int(steps) + 1)]
    assert not re.search(r"^.{111,}\S$", "\n".join(lines_of_ours(printed)), re.MULTILINE)
    assert "NODE STATE SCOPE VERSION AGE EXPIRES GRADE REFUSED" in re.sub(" +", " ", told)
    for node in ("fra-gw-aurora-1", "fra-svc-aurora-1", "fra-core-1"):
        assert re.search(rf"^{node} +active +head +\d+ +\d+ s +fresh", told, re.MULTILINE)
    assert re.search(r"^ +route_policy +1\.1 +\d+ s +7\.0 d +fresh", told, re.MULTILINE)
    claims = (
        "40 nodes at 3 sites",
        "unknown_key",
        "bad_signature",
        "serves from its store",
        "events from the outage reached",
    )
    for claim in claims:
        assert claim in printed, printed

    for command, answered in pasted(printed).items():
        assert answered.returncode == 0, (command, answered)
        if "curl -H" in command:
            assert answered.stdout.strip() == "the intranet, on fra-svc-aurora-1"

    running = ending(place)
    [stop] = place.glob("*/stop")
    subprocess.run(["sh", stop], check=True)
    for process in running:
        assert select.select([process], [], [], 60)[0], of_ours(place)
        os.close(process)
    assert of_ours(place) == {}
    assert list(place.iterdir()) == []


def test_a_step_that_does_not_hold_is_the_end(place):
    """The coordinator is killed too early: the demonstration says what is wrong, and fails."""
    with start(place) as demo:
        read_until(demo, "Three nodes join")
        [coordinator] = [pid for pid, command in of_ours(place).items() if "holdfast-coordinator" in command]
        os.kill(coordinator, signal.SIGKILL)
        rest = demo.stdout.read()
    assert demo.returncode == 1, rest
    assert "NOT PROVED, in step 4  Three nodes join: " in rest
    assert f"3 of {len(story.STEPS)} steps held before it" in rest
    assert "Traceback" not in rest
    assert of_ours(place) == {}
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_every_step_holds_without_nginx(place):
    with start(place, "--without-nginx", python=sys.executable) as demo:
        printed, _ = demo.communicate(timeout=LIMIT_S)
    assert demo.returncode == 0, printed
    assert "the example's Python service takes its place" in printed
    assert "steps held" in printed
    assert of_ours(place) == {}
    assert list(place.iterdir()) == []


def pasted(printed):
    """What it says that one may try, each as it stands: command -> how it ended."""
    kept = printed[printed.index("It is left running") :]
    [settings] = re.findall(r"^  (export .*)$", kept, re.MULTILINE)
    commands = [line.strip() for line in kept.splitlines() if re.match(r"  (/|'/|curl )", line)]
    assert len(commands) == 8
    if CURL is None:
        assert "There is no curl here" in kept
        commands = [command for command in commands if not command.startswith("curl")]
    commands = [command.removesuffix(" --watch") for command in commands]  # that one never ends
    return {command: typed(settings, command) for command in commands}


def typed(settings, command):
    """A head is good for seconds here: whoever asks while the next one is late is told no, and asks again. So is who
    asks for the fleet while a node still rests after the outage, and is late with its report.
    """
    end = time.monotonic() + LIMIT_S
    while True:
        done = subprocess.run(
            ["sh", "-c", f"{settings}; {command}"], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        is_not_yet = (" may " in command or command.endswith("fleet")) and done.returncode == 1
        if not is_not_yet or time.monotonic() > end:
            return done


def lines_of_ours(printed):
    """Without what commands printed, which is shown as it is."""
    return (line for line in printed.splitlines() if line.startswith(("  proved", "NODE", "fra-")))


def read_until(demo, words):
    for line in demo.stdout:
        if words in line:
            return
    raise AssertionError(f"it ended before it said: {words}")

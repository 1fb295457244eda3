"""SIGKILL while files are projected, and a reader beside it: what it reads is of one generation (rules P7, S5)."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.citations import ROOT

KILLS, READS = 8, 30

WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.agent.test_entry_files import projected, projection, service
from tests.agent.test_layout_configs import shown
from tests.fakes.config_document import FileContent

def scopes(number):
    data = b"%d" % number
    files = {f"{place}/{name}": FileContent(data) for place in ("a", "b/c") for name in range(20)}
    files["same"] = FileContent(b"same")
    yield replace(shown(files), content_hash="sha256:" + "%064x" % number)
    yield service({"settings": number})
    yield projected("route_policy", {"routes.00": {"n": number}, "routes.01": {"more": number}})

made = projection(Path(sys.argv[1]))
for number, _ in enumerate(sys.stdin, start=int(sys.argv[2])):
    made.project(number, scopes(number), float(number))
    print(number, flush=True)
"""


def start(folder: Path, number: int) -> "subprocess.Popen[str]":
    """It makes one for each line that it is sent, and says so; it has made one."""
    words = [sys.executable, "-c", WRITER, str(folder), str(number)]
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}
    )
    assert process.stdout is not None
    demand(process)
    assert process.stdout.readline()
    return process


def demand(process: "subprocess.Popen[str]") -> None:
    """One more; nobody waits for it."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def read(folder: Path) -> tuple[int, set[object]]:
    """How many files there are of the generation that is opened, and which numbers they say."""
    active = os.open(folder / "active", os.O_RDONLY | os.O_DIRECTORY)
    found = []
    try:
        for place, _, names, at in os.fwalk(".", dir_fd=active):
            for name in names:
                with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=at), "rb") as file:
                    found.append((os.path.normpath(f"{place}/{name}"), file.read()))
    finally:
        os.close(active)
    said = {json.loads(data)["generation"] for path, data in found if path == "index.json"}
    said |= {int(data) for path, data in found if path.startswith(("config/web/a", "config/web/b", "services/"))}
    said |= {number for path, data in found if path == "routes.json" for number in json.loads(data).values()}
    assert dict(found)["config/web/same"] == b"same"
    return len(found), said


def test_a_reader_never_meets_two_generations(tmp_path):
    chance, last, seen = random.Random(11), 0, set()
    for _ in range(KILLS):
        process = start(tmp_path, last + 1)
        for _ in range(chance.randrange(READS)):
            demand(process)
            count, said = read(tmp_path)
            assert (count, len(said)) == (47, 1)
            (number,) = said
            assert number >= last
            last = number
            seen.add(number)
        demand(process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        count, said = read(tmp_path)
        assert (count, len(said)) == (47, 1)
        (last,) = said
    assert len(seen) > KILLS

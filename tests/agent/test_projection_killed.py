"""SIGKILL while files are projected, and a reader beside it: what it reads is of one generation (rules P7, S5)."""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.citations import ROOT

KILLS, READS = 8, 30

WRITERS = """
import os, sys
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

def write(folder, number):
    made = projection(folder)
    while True:
        made.project(number, scopes(number), float(number))
        print(os.getpid(), flush=True)
        number += 1
        if os.read(0, 1) != b"+":
            os._exit(1)

while word := os.read(0, 1):
    if word == b"#":  # what the one before has left is not asked for any more
        number = int(os.read(0, 6))
        child = os.fork()
        if child == 0:
            write(Path(sys.argv[1]), number)
        os.waitpid(child, 0)
        print(0, flush=True)
"""


class Writers:
    """One after the other, each forked from one process that has imported what they need."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITERS, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": "."},
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._said = self._process.stdin, self._process.stdout

    def start(self, number: int) -> None:
        """It has made the generation of that number."""
        self._send(b"#%06d" % number)
        self._pid = int(self._said.readline())

    def demand(self) -> None:
        """One more; nobody waits for it."""
        self._send(b"+")

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        while int(self._said.readline()):
            pass  # it has made one more meanwhile

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def _send(self, word: bytes) -> None:
        self._to.write(word)
        self._to.flush()


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
    with closing(Writers(tmp_path)) as writers:
        for _ in range(KILLS):
            writers.start(last + 1)
            for _ in range(chance.randrange(READS)):
                writers.demand()
                number = generation(tmp_path)
                assert number >= last
                last = number
                seen.add(number)
            writers.demand()
            writers.kill()
            last = generation(tmp_path)
    assert len(seen) > KILLS


def generation(folder: Path) -> int:
    """The one that all files there are of."""
    count, said = read(folder)
    assert (count, len(said)) == (47, 1)
    (number,) = said
    return number

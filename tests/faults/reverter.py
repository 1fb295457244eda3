"""A node that takes each version on probation and mostly goes back from it: the victim of the tests of the way back.

    python -m tests.faults.reverter ROOT KEYS [safe|unsafe]

Prints `try N` and `done N` around the activation of both scopes, then `back N` and `was N` around their revert, or
`pass N` and `passed N` around the end of their probation. `judge` knows from these what may be there after a death.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from store.base import environment
from store.base.disk import Disk
from store.base.errors import StoreError
from store.base.records import ProbationTerms, name_of
from store.fsck.check import check
from tests.faults.worker import SCOPES, UnsyncedDisk, load_keys, sections, whole
from tests.store.cluster import BOOT, CLUSTER, NOW, Cluster, Node

TERMS = dict.fromkeys(SCOPES, ProbationTerms(60.0))
PASSES = 4  # each fourth version is good
MAP_BYTES = 32 << 20


def bring(node, version, probations=TERMS):
    verdicts = [node.verified(node.cluster.snapshot(version, sections(version), scope=scope)) for scope in SCOPES]
    node.store.activate(*verdicts, now=NOW, boot=BOOT, probations=probations)


def go_back(node):
    return node.store.revert(*SCOPES, check="web", detail="exit 1", now=NOW)


def found(root, cluster):
    """A store with version 1, which is good, and 2 on probation."""
    with Node(root, cluster, map_bytes=MAP_BYTES) as node:
        node.apply(cluster.bundle(1))
        bring(node, 1, {})
        bring(node, 2)


def work(root, cluster, say, disk=None):
    """Without end."""
    node = Node(root, cluster, disk=disk or Disk(), map_bytes=MAP_BYTES)
    node.open()
    say("start")
    version = node.store.standing().marks[SCOPES[0]].config_version
    while True:
        version += 1
        say(f"try {version}")
        bring(node, version)
        say(f"done {version}")
        if version % PASSES:
            say(f"back {version}")
            go_back(node)
            say(f"was {version}")
        else:
            say(f"pass {version}")
            node.store.pass_probation(*SCOPES, now=NOW)
            say(f"passed {version}")
        if version % 5 == 0:
            node.store.garbage.step()


@dataclass
class Said:
    """The highest number of each word; `passed` and `done` begin with what was there before."""

    tried: int
    done: int
    back: int = 0
    was: int = 0
    tried_to_pass: int = 0
    passed: int = 0

    def hear(self, text):
        words = {"tried": "try", "done": "done", "back": "back", "was": "was", "tried_to_pass": "pass"}
        for name, word in (words | {"passed": "passed"}).items():
            numbers = [int(number) for number in re.findall(rf"^{word} (\d+)$", text, re.MULTILINE)]
            setattr(self, name, max([getattr(self, name), *numbers]))
        return self


def judge(root, cluster, said):
    """What must hold after any death; then the way back, and the next version. Where it stands then, and what was."""
    with Node(root, cluster, map_bytes=MAP_BYTES) as node:
        assert {str(finding.happened) for finding in node.store.findings} <= {"rolled_forward", "floor_repaired"}
        outcome = _judge_what_serves(node, said)
        mark = node.store.standing().marks[SCOPES[0]].config_version
        good = _good_version(node)
        if outcome == "on probation":
            assert set(map(str, go_back(node).values())) == {"reverted"}
            assert _served(node) == good
        for version in (mark + 1, mark + 2):
            bring(node, version, {})
        assert _served(node) == mark + 2
    assert list(check(root, CLUSTER)) == []
    return Said(mark + 2, mark + 2, passed=mark + 2), outcome


def _judge_what_serves(node, said):
    standing, served, good = node.store.standing(), _served(node), _good_version(node)
    marks = {standing.marks[scope].config_version for scope in SCOPES}
    assert len(marks) == 1, f"a mix: {marks}"
    (mark,) = marks
    assert said.done <= mark <= said.tried, f"mark {mark}, {said}"
    assert said.passed <= good <= max(said.passed, said.tried_to_pass), f"good {good}, {said}"
    assert all(node.store.floors.scopes[scope].order == (1, mark) for scope in SCOPES)
    on, quarantine = set(standing.probations), standing.quarantine
    is_out = [content_hash(node.cluster, mark) in quarantine.get(scope, ()) for scope in SCOPES]
    if served == mark:
        assert said.was < mark, f"{mark} serves again, {said}"
        assert not any(is_out)
        assert on == (set() if good == mark else set(SCOPES))
        return "good" if good == mark else "on probation"
    assert served == good < mark == said.back, f"{served} serves, {good} is good, {mark} is the mark, {said}"
    assert all(is_out)
    assert (on, standing.reverted) == (set(), set(SCOPES))
    return "back"


def _served(node):
    """The version that both scopes are at, each byte of it."""
    held = [node.store.active(scope) for scope in SCOPES]
    versions = {document.envelope.config_version for document in held}
    assert len(versions) == 1, f"a mix: {versions}"
    (version,) = versions
    for document in held:
        assert {name: document.read(name) for name in document.sections} == whole(version)
    return version


def _good_version(node):
    with node.store.read() as reading:
        newest = {name_of(reading.good(scope)[0].document) for scope in SCOPES}
        versions = {reading.document(reading.good(scope)[0].document).envelope.config_version for scope in SCOPES}
    assert len(newest) == len(SCOPES)
    assert len(versions) == 1, f"a mix: {versions}"
    return versions.pop()


def content_hash(cluster: Cluster, version):
    return cluster.snapshot(version, sections(version)).envelope.content_hash


def main():
    root, keys, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    disk = Disk()
    if mode == "unsafe":
        environment.FLAGS["sync"] = False
        disk = UnsyncedDisk()
    try:
        work(root, load_keys(keys), lambda text: print(text, flush=True), disk)
    except (StoreError, OSError) as error:
        print(f"ended {error}", flush=True)


if __name__ == "__main__":
    main()

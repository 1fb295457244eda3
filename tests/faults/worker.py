"""A node that activates without end and says what it has acknowledged: the victim of the long fault tests.

    python -m tests.faults.worker ROOT KEYS [safe|unsafe]

Prints `start`, then `try N` before and `done N` after version N of both scopes is active. Its content follows from
the number, so that a judge can tell a whole version from a mix. `unsafe` leaves every sync out: it shows that a test
of lost power can fail.
"""

import os
import sys
from pathlib import Path

from coordinator.keys import signing_key
from coordinator.keys.signer import section_bytes
from store.base import environment
from store.base.disk import Disk
from store.base.errors import StoreError
from tests.store.cluster import BOOT, NOW, Cluster, Node

SCOPES = ("qos_policy", "route_policy")
FILLER = ["constant" * 100] * 40


def sections(version):
    """Several pages; `b` stays the same, `a` and `c` change."""
    return {"a": {"v": version}, "b": FILLER, "c": [version, "x" * 5000]}


def whole(version):
    return {name: section_bytes(value) for name, value in sections(version).items()}


def save_keys(cluster, directory):
    directory.mkdir(exist_ok=True)
    for name in ("root", "config"):
        (directory / name).write_bytes(getattr(cluster, name).to_pem())


def load_keys(directory):
    keys = {name: signing_key.from_pem((directory / name).read_bytes()) for name in ("root", "config")}
    return Cluster(**keys, counter=os.getpid() * 1_000_000)


class UnsyncedDisk(Disk):
    """Everything is written and nothing synced."""

    def replace_file(self, target, data, temporary):
        temporary.write_bytes(data)
        temporary.chmod(0o600)
        temporary.rename(target)


def activate(node, version):
    """Even versions are full snapshots, odd ones increments, both scopes in one transaction."""
    verdicts = []
    for scope in SCOPES:
        held = node.store.active(scope)
        if version % 2 and held is not None and held.envelope.config_version == version - 1:
            verdicts.append(node.verified(step(node, scope, version, held)))
        else:
            verdicts.append(node.verified(node.cluster.snapshot(version, sections(version), scope=scope)))
    node.store.activate(*verdicts, now=NOW, boot=BOOT)


def step(node, scope, version, held):
    from coordinator.keys import signer
    from snapshot.manifest import SectionChange

    base = type("Base", (), {"envelope": held.envelope, "state": held.sections})
    brought = {name: whole(version)[name] for name in ("a", "c")}
    entries = {name: signer.entry_of(data) for name, data in brought.items()}
    changes = {name: SectionChange("set", entry, entry) for name, entry in entries.items()}
    return node.cluster.increment(version, base, changes, brought, scope_ids=())


def work(root, cluster, say, disk=None, stop_at=10**9):
    node = Node(root, cluster, disk=disk or Disk(), map_bytes=32 << 20)
    node.open()
    if node.store.active("trust_bundle") is None:
        mark = node.store.standing().marks.get("trust_bundle")
        node.apply(cluster.bundle(mark.config_version + 1 if mark else 1))
    say("start")
    version = max(
        [mark.config_version for scope, mark in node.store.standing().marks.items() if scope in SCOPES] or [0]
    )
    while version < stop_at:
        version += 1
        say(f"try {version}")
        activate(node, version)
        say(f"done {version}")
        if version % 5 == 0:
            node.store.garbage.step()
    node.close()


def judge(root, cluster, tried, done):
    """What must hold after any death; then the next activation."""
    node = Node(root, cluster, map_bytes=32 << 20)
    with node:
        with node.store.read() as reading:
            held = [reading.active(scope) for scope in SCOPES]
            versions = {document.envelope.config_version if document else 0 for document in held}
            assert len(versions) == 1, f"a mix: {versions}"
            (version,) = versions
            assert done <= version <= tried, f"active {version}, acknowledged {done}, tried {tried}"
            for document in filter(None, held):
                assert {name: document.read(name) for name in document.sections} == whole(version)
        for scope in SCOPES if version else ():
            assert node.store.floors.scopes[scope].order >= (1, max(version, done))
        allowed = {"rolled_forward", "floor_repaired"}
        found = {str(finding.happened) for finding in node.store.findings}
        assert found <= allowed, found
        activate(node, max(mark_of(node), tried) + 1)
    return version, "rolled_forward" in found


def mark_of(node):
    marks = node.store.standing().marks
    return max([marks[scope].config_version for scope in SCOPES if scope in marks] or [0])


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

"""Decode and verify a document, against the floor of the same run.

The floor: SHA-256 of the bytes, one Ed25519 verification, one `json.loads` of every section. Goal: at most 2.0 times
the floor from 1 MiB up; peak growth of anonymous memory at most 16 MiB for 100 MiB in sections of 1 MiB; an increment
of one 1 KiB section in 10,000 at most 1/20 of the full document.

    python -m benchmarks.verify [--quick]
"""

import argparse
import gc
import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.documents import KIB, MIB, NOW, Cluster, base64_text, pieces, prose, routes, sections, verified_anew
from benchmarks.figures import note
from coordinator.keys import signer
from holdfast.node import context
from snapshot.container import ChunkParts
from snapshot.envelope import INCREMENT
from snapshot.manifest import SectionChange
from snapshot.signature import load_public_key, pae
from snapshot.verify import verify

SIZES = [(1 * KIB, 1 * KIB), (100 * KIB, 100 * KIB), (1 * MIB, 10 * KIB), (10 * MIB, 100 * KIB), (100 * MIB, MIB - 64)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 10 MiB, fewer rounds")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        _grow(Path(arguments.memory))
        return
    cluster = Cluster()
    print(f"{'content':<14}{'size':>10}{'sections':>10}{'floor ms':>10}{'verify ms':>11}{'ratio':>8}")
    for make in (routes, prose, base64_text):
        for total, each in SIZES[:4] if arguments.quick else SIZES:
            _row(cluster, make, total, each)
    _increment(cluster, 10 * MIB if arguments.quick else 100 * MIB)
    if not arguments.quick:
        _memory()


def _row(cluster, make, total, each):
    document = cluster.snapshot(sections(total, each, make))
    rounds = max(3, min(300, 60 * MIB // total))
    container = pieces(document)
    floors, all_ours = _taken(rounds, lambda: _floor(cluster, document), lambda: cluster.verified(container))
    spent, least = ([seconds * 1e3 for seconds in each] for each in (all_ours, floors))
    note(f"verify/{make.__name__}, {_size(total)}", "ms", spent, floor=least)
    floor, ours = statistics.median(floors), statistics.median(all_ours)
    print(
        f"{make.__name__:<14}{_size(total):>10}{len(document.sections):>10}{floor * 1e3:>10.2f}{ours * 1e3:>11.2f}"
        f"{ours / floor:>8.2f}"
    )


def _floor(cluster, document):
    hashlib.sha256(document.manifest_bytes).digest()
    key_id, signature = document.signatures[0]
    key = cluster.holder.bundle.keys[key_id]
    verifies = load_public_key(key.algorithm, key.public_key)
    assert verifies(pae("snapshot", document.envelope_bytes), signature)
    for data in document.sections:
        hashlib.sha256(data).digest()
        json.loads(data)


def _interleaved(rounds, *works):
    """The median seconds of each."""
    return [statistics.median(taken) for taken in _taken(rounds, *works)]


def _taken(rounds, *works):
    """The seconds of each, taken in turns so that a busy machine disturbs both alike."""
    times = [[] for _ in works]
    for _ in range(rounds):
        for taken, work in zip(times, works, strict=True):
            gc.collect()
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
    return times


class _Held:
    def __init__(self, document, verified):
        self.envelope, self.content_hash = document.envelope, verified.content_hash
        self.sections, self._bytes = verified.state, dict(zip(sorted(verified.state), document.sections, strict=True))

    def read(self, name):
        return self._bytes[name]


def _increment(cluster, total):
    """One section of 1 KiB replaced in a scope of 10,000 sections."""
    full = cluster.snapshot({f"routes.{n:05}": routes(n, total // 10_000) for n in range(10_000)})
    container, verified = pieces(full), cluster.verified(pieces(full))
    data = routes(77_777, KIB)
    entry = signer.entry_of(data)
    base = signer.Base(1, verified.state)
    claims = cluster.claims("route_policy", 2, organization_ids=("amber", "sable"), roles=("core_mesh",))
    changes = {"routes.00500": SectionChange("set", entry, entry)}
    increment = signer.increment(claims, base, changes, {"routes.00500": data}, [cluster.key])
    held = _Held(full, verified)
    holder = replace(cluster.holder, marks={"route_policy": verified.mark}, active={"route_policy": held})

    change = pieces(increment)

    def apply():
        verified_anew(ChunkParts(change), holder, kind=INCREMENT, now=NOW)

    whole, one = _interleaved(3, lambda: cluster.verified(container), apply)
    print(
        f"\nincrement of one 1 KiB section in {_size(total)} of 10,000 sections: {one * 1e3:.1f} ms, "
        f"1/{whole / one:.0f} of the full document ({whole * 1e3:.0f} ms)"
    )


def _memory():
    """In a process of its own, which reads the document from a file, as the agent would."""
    cluster = Cluster()
    folder = Path("build/benchmark")
    (folder / "contexts").mkdir(parents=True, exist_ok=True)
    try:
        (folder / "bundle.hfs").write_bytes(cluster.bundle_document.to_bytes())
        (folder / "document.hfs").write_bytes(cluster.snapshot(sections(100 * MIB, MIB - 64, routes)).to_bytes())
        (folder / "contexts" / "node.json").write_text(json.dumps(cluster.context("bundle.hfs")))
        command = [sys.executable, "-m", "benchmarks.verify", "--memory", str(folder)]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")
    finally:
        shutil.rmtree(folder)


def _grow(folder):
    holder, kind = context.load(folder / "contexts" / "node.json")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _resident("VmRSS")
    verify(ChunkParts(context.chunks(folder / "document.hfs")), holder, kind=kind, now=NOW)
    growth = _resident("VmHWM") - before
    print(f"peak growth of memory over 100 MiB in sections of 1 MiB: {growth / KIB:.1f} MiB")


def _resident(name):
    """KiB, from the process's own status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def _size(length):
    return f"{length // MIB} MiB" if length >= MIB else f"{length // KIB} KiB"


if __name__ == "__main__":
    main()

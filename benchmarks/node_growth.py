"""What a node pays for a document as it grows: received, verified, durably active; and for one changed section of it.

    python -m benchmarks.node_growth [--sections 10 100 1000] [--kib 1 100 1024] [--scopes 1 10 50]

sections   so many of 256 bytes each
content    so many KiB in sections of at most 960 KiB
scopes     so many scopes of one section, each taken in turn: what the next one pays

Processor time. The floor is the same bytes hashed and parsed, one signature checked, one file written and synced. The
increment changes one section of what is held.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from benchmarks.documents import routes
from benchmarks.figures import note
from coordinator.keys import signer
from snapshot.manifest import SectionChange
from snapshot.signature import load_public_key, pae
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified
from tests.store.cluster import BOOT, NOW, Cluster, Node

ROUNDS = 5
EACH, LARGE = 256, 960 << 10
FIRST = "routes.00000"
ORGANIZATIONS = ("amber", "sable")


def used(work: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1e3


def sections(count: int, size: int, mark: int) -> dict[str, bytes]:
    """`count` of them, of about `size` bytes, no one of which was there at another mark."""
    return {f"routes.{number:05d}": routes(mark * 100_000 + number, size) for number in range(count)}


class Member(Node):
    """A node of the organizations that the routes are of."""

    def holder(self) -> VerifierState:
        return replace(super().holder(), organization_ids=frozenset(ORGANIZATIONS))


class Floor:
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.place, self.key = folder / "floor", cluster.config

    def __call__(self, document: signer.SignedDocument) -> None:
        signed = document.signatures[0][1]
        verifies = load_public_key(self.key.algorithm, self.key.public_key)
        assert verifies(pae("snapshot", document.envelope_bytes), signed)
        with self.place.with_suffix(".new").open("wb") as file:
            for data in document.sections:
                sha256(data).digest()
                json.loads(data)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.place.with_suffix(".new").replace(self.place)


class Measured:
    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster()
        self.node = Member(folder / "node", self.cluster, map_bytes=4 << 30)
        self.node.open()
        self.node.apply(self.cluster.bundle())
        self.floor = Floor(folder, self.cluster)
        self.version = 0

    def whole(self, count: int, size: int) -> tuple[list[float], list[float]]:
        """Of each round: all of it, and its floor."""
        ours, least = [], []
        for _ in range(ROUNDS):
            self.version += 1
            document = self.snapshot(count, size)
            ours.append(used(partial(self.node.apply, document)))
            least.append(used(partial(self.floor, document)))
            self.node.store.garbage.run()
        return ours, least

    def snapshot(self, count: int, size: int) -> signer.SignedDocument:
        made = sections(count, size, self.version)
        return self.cluster.snapshot(self.version, made, organization_ids=ORGANIZATIONS)

    def one(self, count: int, size: int) -> list[float]:
        """Of each round: an increment of one section into what is held."""
        self.version += 1
        base = self.node.apply(self.snapshot(count, size))
        found = []
        for number in range(ROUNDS):
            self.version += 1
            document = changed(self.cluster, self.version, base, routes(99_000_000 + number, size))
            begun = time.process_time()
            base = self.node.verified(document)
            self.node.store.activate(base, now=NOW, boot=BOOT)
            found.append((time.process_time() - begun) * 1e3)
            self.node.store.garbage.run()
        return found

    def close(self) -> None:
        self.node.close()


def changed(cluster: Cluster, version: int, base: Verified, data: bytes) -> signer.SignedDocument:
    """An increment that sets the first section."""
    entry = signer.entry_of(data)
    changes = {FIRST: SectionChange("set", entry, entry)}
    return cluster.increment(version, base, changes, {FIRST: data}, organization_ids=ORGANIZATIONS)


def measure(name: str, sizes: Mapping[int, tuple[int, int]]) -> None:
    """`sizes`: of each place on the curve how many sections of how many bytes."""
    for size, (count, each) in sizes.items():
        with tempfile.TemporaryDirectory() as folder:
            measured = Measured(Path(folder))
            ours, least = measured.whole(count, each)
            one = measured.one(count, each)
            measured.close()
        note(f"node/{name}: whole", "ms", ours, floor=least, size=size)
        note(f"node/{name}: floor", "ms", least, size=size)
        note(f"node/{name}: one section changed", "ms", one, size=size)
        middle = [sorted(each)[ROUNDS // 2] for each in (ours, least, one)]
        print(f"{name} {size}: whole {middle[0]:.1f} ms, floor {middle[1]:.1f}, one section changed {middle[2]:.1f}")


def scopes(counts: list[int]) -> None:
    """One more scope beside so many."""
    with tempfile.TemporaryDirectory() as folder:
        measured, held = Measured(Path(folder)), 0
        cluster, node = measured.cluster, measured.node

        def take(number: int, version: int) -> None:
            named = {"scope_ids": (f"c{number}",), "organization_ids": ORGANIZATIONS}
            node.apply(cluster.snapshot(version, sections(1, EACH, version), **named))

        for count in counts:
            while held < count - 1:
                take(held, 1)
                held += 1
            found = [
                used(lambda version=version: take(1_000, version)) for version in range(count * 10, count * 10 + ROUNDS)
            ]
            note("node/scopes: one of them", "ms", found, size=count)
            print(f"scopes {count}: one of them {sorted(found)[ROUNDS // 2]:.1f} ms")
        measured.close()


def pieces(kib: int) -> tuple[int, int]:
    """How many sections, and of how many bytes each."""
    count = max(1, -(-kib * 1024 // LARGE))
    return count, max(1, kib * 1024 // count - 40)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sections", type=int, nargs="*", default=[10, 100, 1_000, 10_000, 20_000])
    options.add_argument("--kib", type=int, nargs="*", default=[1, 100, 1_024, 10_240, 102_400])
    options.add_argument("--scopes", type=int, nargs="*", default=[1, 10, 50, 200])
    chosen = options.parse_args()
    measure("sections", {count: (count, EACH) for count in chosen.sections})
    measure("KiB", {kib: pieces(kib) for kib in chosen.kib})
    scopes(chosen.scopes)


if __name__ == "__main__":
    main()

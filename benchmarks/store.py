"""Activation and reading against floors of the same run; prints ratios (goals in brackets).

    python -m benchmarks.store [--runs N] [DIRECTORY]

"All of it" is what a node pays from the first byte in the pending slot to active; "activate" is the swap alone, when
the document is pending. Two floors:

floor       of all of it: the least that is as durable (rules L28, L32). The bytes are hashed, and committed and synced
            as the pending slot; a floor file is written, synced and renamed, and its directory synced; then a second
            commit swaps the pointers, and is synced. Without the hash nothing is addressed by its content; with one
            commit in the place of two there is nothing that a start could roll forward after a crash in between
bare floor  of the swap: one synced commit of the same bytes and two fsyncs, and nothing hashed. It can lose what it was
            given, or have it active above no floor, so what is near it would not do what a node needs

Side by side: the same bytes as a plain file (write, fsync, rename, fsync of the directory), and in SQLite with WAL and
synchronous=FULL.
"""

import argparse
import hashlib
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lmdb

from benchmarks.figures import note
from coordinator.keys import signer
from snapshot.container import ManifestRead, Opening, SectionRead
from tests.store.cluster import BOOT, NOW, SCOPE, Cluster, Node

KIB, MIB = 1 << 10, 1 << 20
Work = Callable[[int, list[bytes]], None]
SIZES = {"1 KiB": KIB, "100 KiB": 100 * KIB, "1 MiB": MIB, "10 MiB": 10 * MIB}


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def sections(size: int, number: int, each: int = MIB - 64 * KIB) -> dict[str, bytes]:
    """`size` bytes of sections that no earlier run has stored."""
    found, rest, index = {}, size, 0
    while rest > 0:
        length = min(each, rest)
        seed = hashlib.sha256(f"{size} {number} {index}".encode()).hexdigest()
        strings = [seed + "x" * 936 for _ in range(max(0, length - 80) // 1003)]
        found[f"s{index:05d}"] = signer.section_bytes([seed, strings, "y" * ((length - 80) % 1003)])
        rest, index = rest - length, index + 1
    return found


def take(node: Node, document: signer.SignedDocument) -> None:
    """The document into its slot, part by part, and sealed."""
    slot = node.store.receive(SCOPE, now=NOW)
    slot.receive(Opening(document.envelope_bytes, document.signatures))
    slot.receive(ManifestRead(document.manifest_bytes))
    for data in document.sections:
        slot.receive(SectionRead(data))
    slot.seal(NOW)


class BareFloor:
    """One commit of the bytes, and two fsyncs."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.environment = lmdb.open(str(directory), map_size=4 << 30)

    def __call__(self, number: int, parts: list[bytes]) -> None:
        with self.environment.begin(write=True) as transaction:
            for index, part in enumerate(parts):
                transaction.put(b"%d %d" % (number % 3, index), part)
        for name in ("one", "two"):
            with (self.directory / name).open("wb", buffering=0) as file:
                file.write(bytes(600))
                os.fsync(file.fileno())


class Floor:
    """The bytes with their hashes, the floor file, the swap, each synced: the least that rules L28 and L32 allow."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.environment = lmdb.open(str(directory), map_size=4 << 30)

    def __call__(self, number: int, parts: list[bytes]) -> None:
        digests = [hashlib.sha256(part).digest() for part in parts]
        with self.environment.begin(write=True) as transaction:
            for index, (digest, part) in enumerate(zip(digests, parts, strict=True)):
                transaction.put(b"%d %d" % (number % 3, index), part)
                transaction.put(b"digest %d %d" % (number % 3, index), digest)
        with (self.directory / "floor.new").open("wb", buffering=0) as file:
            file.write(bytes(600))
            os.fsync(file.fileno())
        (self.directory / "floor.new").rename(self.directory / "floor")
        sync_directory(self.directory)
        with self.environment.begin(write=True) as transaction:
            transaction.put(b"active", b"%d" % number)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class PlainFile:
    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory

    def __call__(self, number: int, parts: list[bytes]) -> None:
        with (self.directory / "new").open("wb", buffering=0) as file:
            for part in parts:
                file.write(part)
            os.fsync(file.fileno())
        (self.directory / "new").rename(self.directory / f"{number % 3}")
        sync_directory(self.directory)


class Sqlite:
    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.connection = sqlite3.connect(directory / "db", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("CREATE TABLE sections (name TEXT PRIMARY KEY, data BLOB)")

    def __call__(self, number: int, parts: list[bytes]) -> None:
        self.connection.execute("BEGIN")
        for index, part in enumerate(parts):
            row = (f"{number % 3} {index}", part)
            self.connection.execute("INSERT OR REPLACE INTO sections VALUES (?, ?)", row)
        self.connection.execute("COMMIT")


def measure(node: Node, others: list[Work], size: int, number: int) -> tuple[float, ...]:
    """Seconds: the swap, all of it, and each of the others; garbage is collected outside of the clock."""
    document = node.cluster.snapshot(number + 1, sections(size, number))
    verdict = node.verified_alone(document)
    taken = timed(lambda: take(node, document))
    swapped = timed(lambda: node.store.activate(verdict, now=NOW, boot=BOOT))
    parts = list(document.sections)
    rest = [timed(partial(other, number, parts)) for other in others]
    node.store.garbage.run()
    return swapped, taken + swapped, *rest


def activation(top: Path, runs: int) -> None:
    columns = ("activate", "all of it", "floor", "bare floor", "plain", "SQLite")
    print(f"{'activation, ms':16}" + "".join(f" {column:>10}" for column in columns))
    cluster = Cluster()
    for label, size in SIZES.items():
        others = [kind(top / f"{kind.__name__}-{size}") for kind in (Floor, BareFloor, PlainFile, Sqlite)]
        node = Node(top / f"node-{size}", cluster, map_bytes=4 << 30)
        with node:
            node.apply(cluster.bundle())
            measured = [measure(node, others, size, number) for number in range(runs + 2)]
        millis = [[seconds * 1000 for seconds in each] for each in zip(*measured[2:], strict=True)]
        swaps, wholes, floors, bare_floors = millis[:4]
        note(f"store/{label}, activate", "ms", swaps, floor=bare_floors)
        note(f"store/{label}, all of it", "ms", wholes, floor=floors)
        swap, whole, floor, bare, plain, sqlite = map(statistics.median, millis)
        print(f"{label:16}" + "".join(f" {each:10.2f}" for each in (swap, whole, floor, bare, plain, sqlite)))
        print(
            f"{'':16} activate / bare floor {swap / bare:.2f}, all of it / floor {whole / floor:.2f} [<= 1.5],"
            f" / bare floor {whole / bare:.2f}, / plain {whole / plain:.2f}, / SQLite {whole / sqlite:.2f}"
        )


def reading(top: Path) -> None:
    cluster = Cluster()
    with Node(top / "reading", cluster) as node:
        node.apply(cluster.bundle())
        small = signer.section_bytes("x" * 198)
        large = sections(MIB - 1000, 0, each=MIB)["s00000"]
        node.apply(cluster.snapshot(1, {"small": small, "large": large}))
        held = node.store.active(SCOPE)
        micros = best(lambda: held.read("small"), 2000) * 1e6
        print(f"\nreading {len(small)} bytes with their hash: {micros:.1f} us [<= 10]")
        read, hashed = best(lambda: held.read("large"), 20), best(lambda: hashlib.sha256(large).digest(), 20)
        print(f"reading {len(large)} bytes: {read * 1e6:.0f} us, SHA-256 of them {hashed * 1e6:.0f} us: ", end="")
        print(f"{read / hashed:.2f} [<= 2]")


def best(work: Callable[[], object], times: int) -> float:
    """The best of nine rounds, a call: what other work on the machine adds is not ours."""

    def round_of() -> float:
        start = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - start) / times

    return min(round_of() for _ in range(9))


def increments(top: Path, runs: int) -> None:
    print("\nactivating one changed section of 1 KiB, ms")
    cluster, found = Cluster(), {}
    for held in (1, 10, 100):
        with Node(top / f"held-{held}", cluster, map_bytes=1 << 30) as node:
            node.apply(cluster.bundle())
            base = node.apply(cluster.snapshot(1, sections(held * MIB, 0, each=64 * KIB)))
            times = []
            for number in range(runs + 2):
                value = sections(KIB, number)["s00000"]
                document = cluster.setting(number + 2, base, "s00000", value)
                base = node.verified_alone(document)
                taken = timed(partial(take, node, document))
                times.append(taken + timed(partial(node.store.activate, base, now=NOW, boot=BOOT)))
            found[held] = statistics.median(times[2:]) * 1000
            print(f"{held:5} MiB held, {len(base.state)} sections: {found[held]:.2f}")
    print(f"100 MiB / 1 MiB: {found[100] / found[1]:.2f} [<= 3]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("directory", nargs="?", type=Path, help="on the disk to measure; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        activation(Path(name), arguments.runs)
        reading(Path(name))
        increments(Path(name), arguments.runs)


if __name__ == "__main__":
    main()

"""Every fault of a store on the disk, not the first: read-only, on a stopped or a running agent's root.

What maps the file does so in a child process, so a damaged store kills nothing here.
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import lmdb

from store.base import enrolment
from store.base.disk import Disk
from store.base.environment import Environment
from store.base.errors import StoreError
from store.base.floors import FloorRecord, read_records
from store.base.layout import ClusterPaths, Root, permission_trouble, walk
from store.fsck import child
from store.fsck.examine import ExamineFault, examine
from store.fsck.metapage import inspect
from store.fsck.probe import DEADLINE_S, deadline_for
from store.fsck.quarantine import MOST_COPIES

MAPS_BADLY = ("store_corrupt",)  # faults after which no process of value should open the environment


def check(root: Path, cluster_id: str, deadline_s: float = DEADLINE_S) -> Iterator[ExamineFault]:
    """Every fault of one cluster's store. Nothing is changed; StoreError only if the root cannot be entered."""
    paths = Root.look(root).paths(cluster_id)
    yield from _permissions(root, paths)
    yield from _files(paths)
    records, faults = read_records(paths.floors, cluster_id)
    yield from (ExamineFault("floor_unreadable", "floors", fault) for fault in faults)
    if len(records) + len(faults) < 2:
        yield ExamineFault("floor_missing", "floors", f"{2 - len(records) - len(faults)} of 2 files are not there")
    inspection = inspect(paths.store / "data.mdb")
    if not inspection.opens:
        yield ExamineFault("store_corrupt", "store/data.mdb", inspection.state.value)
        return
    yield from _environment(paths, deadline_for(paths.store, deadline_s))


def _permissions(root: Path, paths: ClusterPaths) -> Iterator[ExamineFault]:
    for path in itertools.chain([root], walk(root / "agent"), walk(paths.home)):
        trouble = permission_trouble(path)
        # A running agent replaces files in tmp/ and floors/ while we look.
        if trouble and not trouble.endswith("does not exist"):
            yield ExamineFault("bad_permissions", str(path), trouble)


def _files(paths: ClusterPaths) -> Iterator[ExamineFault]:
    try:
        enrolment.read(paths.identity)
    except StoreError as error:
        yield ExamineFault("enrolment_unreadable", "identity", error.detail)
    if paths.quarantine.is_dir() and len(list(paths.quarantine.iterdir())) > MOST_COPIES:
        yield ExamineFault("quarantine_bound", "quarantine", f"more than {MOST_COPIES} copies")


def _environment(paths: ClusterPaths, deadline_s: float) -> Iterator[ExamineFault]:
    arguments = [str(paths.store), str(paths.floors), paths.cluster_id]
    try:
        found = child.call("store.fsck.check", "run", arguments, deadline_s)
    except child.ChildDiedError as error:
        yield ExamineFault("store_corrupt", "store/data.mdb", str(error))
        return
    if isinstance(found, list):
        yield from (ExamineFault(**fault) for fault in found)


def run(path: str, floors: str, cluster_id: str) -> list[dict[str, str]]:
    """The child's whole life."""
    try:
        environment = Environment(Path(path), Disk(), readonly=True)
        with environment.read() as transaction:
            # After the transaction has begun: floors go first, so what it sees is never above what we read now.
            raised = merged_floors(Path(floors), cluster_id)
            return [asdict(fault) for fault in examine(transaction, cluster_id, raised)]
    except (StoreError, lmdb.Error) as error:
        return [asdict(ExamineFault("store_corrupt", "store/data.mdb", str(error)[:256]))]


def merged_floors(directory: Path, cluster_id: str) -> FloorRecord:
    """The effective floor of the files that can be read."""
    floors = FloorRecord(cluster_id)
    for record in read_records(directory, cluster_id)[0].values():
        floors = floors.merge(record)
    return floors

"""A child process opens the environment first and reads all of it (rules L30; threats D-25, fact 2).

A damaged file kills the process that maps it. Here that is a child with a deadline: it walks every database, hashes
every blob, tries a write and takes it back, and says what it found. Its death is the finding.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import lmdb

from store import blobs, child, meta
from store.environment import DATABASES, MAP_BYTES, MAX_DATABASES, Databases, Raw, Transaction
from store.errors import StoreError
from store.examine import BLOB_DAMAGED, examine
from store.metapage import inspect
from store.migration import FORMAT
from store.pages import PageFaultError, require_sound

DEADLINE_S = 30.0
BYTES_PER_SECOND = 20 << 20  # a slow disk is no damage: the deadline grows with the file
MOST_FAULTS = 10_000
MOST_NAMED = 100


@dataclass(frozen=True)
class Findings:
    """What the child read. `fault` is empty, or why the environment cannot be used as it is."""

    fault: str = ""
    format: int = 0
    cluster_id: str = ""  # empty for another format
    blobs: int = 0
    damaged: Sequence[str] = ()  # digests (hex) of blobs whose bytes are not theirs
    faults: Sequence[str] = ()  # everything else that is wrong and can be mended


def probe(store: Path, deadline_s: float = DEADLINE_S) -> Findings:
    """What a child process finds in an environment that nobody has open."""
    try:
        found = child.call("store.probe", "run", [str(store)], deadline_for(store, deadline_s))
    except child.ChildDiedError as error:
        return Findings(fault=str(error))
    return Findings(**found) if isinstance(found, dict) else Findings(fault="the probe gave no answer")


def deadline_for(store: Path, deadline_s: float) -> float:
    return deadline_s + (store / "data.mdb").stat().st_size / BYTES_PER_SECOND


def run(path: str) -> dict[str, object]:
    """The child's whole life."""
    try:
        data_file = Path(path) / "data.mdb"
        require_sound(data_file, inspect(data_file).page_size)
        return asdict(_examine(path))
    except (PageFaultError, lmdb.Error, StoreError) as error:
        return asdict(Findings(fault=str(error)[:256]))


def _examine(path: str) -> Findings:
    # No lock file: nobody else is here, and a dead child must leave no trace.
    environment = lmdb.open(path, map_size=MAP_BYTES, max_dbs=MAX_DATABASES, lock=False, create=False)
    with environment.begin() as transaction:
        names = {bytes(key).decode("ascii", "replace") for key, _ in transaction.cursor()}
    if set(DATABASES) - names:
        return Findings(fault="a database is missing")
    databases = {name: environment.open_db(name.encode(), create=False) for name in DATABASES}
    with environment.begin() as reading:
        found = _read_everything(Transaction(reading, databases))
    _try_a_write(environment, databases)
    return found


def _read_everything(transaction: Transaction) -> Findings:
    """Walk every database to its end, hash every blob, follow every pointer."""
    found = meta.read_format(transaction)
    if found != FORMAT:  # its records are another version's: migrated, or refused
        return Findings(format=found)
    own = meta.read(transaction)
    faults = list(islice(examine(transaction, own.cluster_id), MOST_FAULTS + 1))
    if any(fault.code == "store_corrupt" for fault in faults):
        return Findings(fault=str(faults[0]))
    damaged = [fault.where for fault in faults if fault.code == BLOB_DAMAGED]
    others = [str(fault)[:256] for fault in faults if fault.code != BLOB_DAMAGED]
    count = sum(1 for _ in blobs.digests(transaction))
    return Findings("", found, own.cluster_id, count, damaged, others[:MOST_NAMED])


def _try_a_write(environment: Raw, databases: Databases) -> None:
    """What a damaged free list does to a writer, it does here; nothing is committed."""
    transaction = environment.begin(write=True)
    try:
        transaction.put(b"probe", bytes(64 << 10), db=databases["updates"])
    finally:
        transaction.abort()

"""What an environment holds, found out before it is opened (rules L30; threats D-25, fact 2).

A damaged file kills the process that maps it. Here that is a child with a deadline (`store.fsck.walk`), and its death
is the finding. What the child came to the end of, this process may map: then it reads the records.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import lmdb

from snapshot.frozen import frozen
from store.base import meta
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError
from store.base.migration import FORMAT
from store.fsck import child
from store.fsck.examine import examine_records
from store.fsck.walk import databases_of, open_aside

DEADLINE_S = 30.0
BYTES_PER_SECOND = 20 << 20  # a slow disk is no damage: the deadline grows with the file
MOST_FAULTS = 10_000
MOST_NAMED = 100


@frozen
class Findings:
    """`fault` is empty, or why the environment cannot be used as it is."""

    fault: str = ""
    format: int = 0
    cluster_id: str = ""  # empty for another format
    blobs: int = 0
    damaged: Sequence[str] = ()  # digests (hex) of blobs whose bytes are not theirs
    faults: Sequence[str] = ()  # everything else that is wrong and can be mended


def probe(store: Path, deadline_s: float = DEADLINE_S) -> Findings:
    """What is in an environment that nobody has open."""
    try:
        walked = child.call("store.fsck.walk", "run", [str(store)], deadline_for(store, deadline_s))
    except child.ChildDiedError as error:
        return Findings(fault=str(error))
    if not isinstance(walked, dict):
        return Findings(fault="the probe gave no answer")
    if "fault" in walked:
        return Findings(fault=str(walked["fault"]))
    try:
        return _records(store, **walked)
    except (lmdb.Error, StoreError) as error:
        return Findings(fault=str(error)[:256])


def deadline_for(store: Path, deadline_s: float) -> float:
    return deadline_s + (store / "data.mdb").stat().st_size / BYTES_PER_SECOND


def _records(store: Path, blobs: int, damaged: Sequence[str]) -> Findings:
    environment = open_aside(str(store), readonly=True)
    try:
        databases = databases_of(environment)
        with environment.begin() as reading:
            return _read(LmdbTransaction(reading, databases), blobs, damaged)
    finally:
        environment.close()


def _read(transaction: LmdbTransaction, blobs: int, damaged: Sequence[str]) -> Findings:
    found = meta.read_format(transaction)
    if found != FORMAT:  # its records are another version's: migrated, or refused
        return Findings(format=found)
    own = meta.read(transaction)
    faults = [str(fault)[:256] for fault in islice(examine_records(transaction, own.cluster_id), MOST_FAULTS)]
    return Findings("", found, own.cluster_id, blobs, damaged, faults[:MOST_NAMED])

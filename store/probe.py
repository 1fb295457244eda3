"""A child process opens the environment first and reads all of it (rules L30; threats D-25, fact 2).

A damaged file kills the process that maps it. Here that is a child with a deadline: it walks every database, hashes
every blob, tries a write and takes it back, and says what it found. Its death is the finding.

    python -c ... PATH          prints one JSON object, `Findings`; any other end is damage
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import lmdb

from store import blobs, meta
from store.environment import DATABASES, MAP_BYTES, MAX_DATABASES, Databases, Raw, Transaction
from store.errors import StoreError

DEADLINE_S = 30.0
BYTES_PER_SECOND = 20 << 20  # a slow disk is no damage: the deadline grows with the file
MOST_DAMAGED = 10_000

_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from store.probe import run
run(sys.argv[1])
"""


@dataclass(frozen=True)
class Findings:
    """What the child read. `fault` is empty, or why the environment cannot be used as it is."""

    fault: str = ""
    format: int = 0
    cluster_id: str = ""
    blobs: int = 0
    damaged: Sequence[str] = ()  # digests (hex) of blobs whose bytes are not theirs


def probe(store: Path, deadline_s: float = DEADLINE_S) -> Findings:
    """What a child process finds in the environment. It is not open here while this runs."""
    size = (store / "data.mdb").stat().st_size
    # The child sees our path and nothing of its own: -I -S as the launchers have it (platform.md 3).
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(store), *sys.path]
    try:
        child = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            command,
            capture_output=True,
            timeout=deadline_s + size / BYTES_PER_SECOND,
            check=False,
            env={},
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Findings(fault="reading it did not come to an end")
    if child.returncode != 0:
        return Findings(fault=_end_in_words(child.returncode, child.stderr))
    return _understood(child.stdout)


def run(path: str) -> None:
    """The child's whole life."""
    sys.stdout.write(json.JSONEncoder().encode(asdict(examine(Path(path)))))


def examine(path: Path) -> Findings:
    """Open, read everything, try a write. Only ever in a child process."""
    try:
        # No lock file: nobody else is here, and a dead child must leave no trace.
        environment = lmdb.open(
            str(path), map_size=MAP_BYTES, max_dbs=MAX_DATABASES, lock=False, create=False, mode=0o600
        )
        with environment.begin() as transaction:
            names = [key.decode("ascii", "replace") for key, _ in transaction.cursor()]
        if not names:
            return Findings(fault="it holds no databases")
        if set(DATABASES) - set(names):
            return Findings(fault="a database is missing")
        databases = {name: environment.open_db(name.encode(), create=False) for name in DATABASES}
        with environment.begin() as reading:
            found = read_everything(Transaction(reading, databases))
        _try_a_write(environment, databases)
    except (lmdb.Error, StoreError, UnicodeError) as error:
        return Findings(fault=str(error)[:256])
    return found


def read_everything(transaction: Transaction) -> Findings:
    """Walk every database to its end and hash every blob."""
    for name in DATABASES:
        most = transaction.count(name)
        for seen, (_, value) in enumerate(transaction.items(name)):
            if seen >= most:
                return Findings(fault=f"database {name} has more entries than it counts")
            len(value)
    damaged, count = [], 0
    for digest in blobs.digests(transaction):
        count += 1
        try:
            blobs.get(transaction, digest)
        except StoreError:
            damaged.append(digest.hex())
    if len(damaged) > MOST_DAMAGED:
        return Findings(fault=f"{len(damaged)} damaged blobs")
    own = meta.read(transaction)
    return Findings("", meta.read_format(transaction), own.cluster_id, count, damaged)


def _try_a_write(environment: Raw, databases: Databases) -> None:
    """What a damaged free list does to a writer, it does here; nothing is committed."""
    with environment.begin(write=True) as transaction:
        transaction.put(b"probe", bytes(64 << 10), db=databases["updates"])
        transaction.abort()


def _end_in_words(status: int, errors: bytes) -> str:
    if status < 0:
        return f"reading it ends with signal {-status}"
    return f"reading it fails: {errors.decode('utf-8', 'replace').strip()[-200:]}"


def _understood(output: bytes) -> Findings:
    try:
        found = json.loads(output)
        return Findings(**{**found, "damaged": tuple(found["damaged"])})
    except (ValueError, TypeError, KeyError) as error:
        return Findings(fault=f"the probe's answer cannot be read: {error}")

"""Damaged stores, moved aside whole and never written again; the oldest go first (rules L33)."""

from collections.abc import Iterator
from pathlib import Path

from snapshot.identifiers import format_time
from store.base.disk import Disk
from store.base.layout import ClusterPaths

MOST_COPIES = 3
MOST_BYTES = 8 << 30


def set_aside(paths: ClusterPaths, disk: Disk, now: float) -> Path:
    """Move `store/` to `quarantine/<time>/` by rename, and bring the quarantine within its bounds."""
    stamp = format_time(now).replace(":", "").lower()
    target = next(path for path in _names(paths.quarantine, stamp) if not path.exists())
    disk.rename(paths.store, target)
    disk.sync_directory(paths.home)
    trim(paths.quarantine, disk, target)
    return target


def trim(
    quarantine: Path, disk: Disk, keep: Path, most_copies: int = MOST_COPIES, most_bytes: int = MOST_BYTES
) -> None:
    """Delete the oldest copies beyond the bounds; `keep`, the one just moved, stays whatever its size and date."""
    others = sorted((copy for copy in quarantine.iterdir() if copy != keep), key=_age)
    while others and (len(others) >= most_copies or sum(map(size_of, [keep, *others])) > most_bytes):
        disk.remove(others.pop(0))


def size_of(directory: Path) -> int:
    """Bytes on disk of what lies in it."""
    return sum(entry.stat().st_blocks * 512 for entry in directory.rglob("*") if entry.is_file())


def _names(quarantine: Path, stamp: str) -> Iterator[Path]:
    yield quarantine / stamp
    for number in range(2, 1000):
        yield quarantine / f"{stamp}.{number}"


def _age(copy: Path) -> tuple[str, int]:
    stamp, _, number = copy.name.partition(".")
    return stamp, int(number) if number.isdigit() else 1

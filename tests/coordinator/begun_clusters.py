"""Clusters as `holdfastctl init` makes them, keys and files and rows: copies of one that was made before.

    begin(wanted, now=NOW)              the same files and the same database as by `initialise`
    begin(wanted, now=NOW, more=fill)   and what `fill` adds to the database

What `init` does is the claim of test_initialise; for who only needs a cluster, ten keys and two certificates are more
work than most tests do with them. Two clusters that stand beside each other have other keys: they take turns.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordinator.database.database import Database
from coordinator.setup import initialise
from coordinator.setup.cluster_files import keys_directory
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.opening import with_history
from tests.coordinator import copies, migrated

TURNS = 2
_taken: Counter[Hashable] = Counter()


def begin(wanted: ClusterRequest, *, now: float, more: Callable[[Database], None] | None = None) -> None:
    """`more`: a function that is the same one each time. Nothing is there yet but a state directory, perhaps."""
    wanted.state.mkdir(mode=0o700, exist_ok=True)
    database = Database(wanted.database_url)
    if database.is_sqlite and not (file := Path(str(database.url.database))).exists():
        migrated.at(file)
    asked = (wanted.cluster_id, wanted.coordinator_id, wanted.url, wanted.owners, now, more)
    key = (*asked, database.is_sqlite)
    _taken[key] += 1
    files = copies.made(database, ("begun", *asked, _taken[key] % TURNS), partial(_make, wanted, now, more))
    if not keys_directory(wanted.state).exists():
        files.write(wanted)
    database.close()


@dataclass(frozen=True)
class _Files:
    """Of the state, and of the root keys: where, with which rights, and what. `appended`: to coordinator.toml."""

    state: tuple[tuple[Path, int, bytes], ...]
    roots: tuple[tuple[Path, int, bytes], ...]
    appended: str

    @classmethod
    def read(cls, wanted: ClusterRequest) -> "_Files":
        path, given = wanted.configuration or (None, "")
        appended = path.read_text().removeprefix(given) if path else ""
        return cls(tuple(_read(wanted.state, wanted)), tuple(_read(wanted.root_keys, wanted)), appended)

    def write(self, wanted: ClusterRequest) -> None:
        for folder, kept in ((wanted.state, self.state), (wanted.root_keys, self.roots)):
            folder.mkdir(mode=0o700, exist_ok=True)
            for name, mode, content in kept:
                (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
                (folder / name).write_bytes(content)
                (folder / name).chmod(mode)
        if wanted.configuration:
            path, given = wanted.configuration
            path.write_text(given + self.appended)


def _make(wanted: ClusterRequest, now: float, more: Callable[[Database], None] | None, _: Database) -> _Files:
    initialise.initialise(wanted, actor="root", now=now)
    if more:
        linked = with_history(Database(wanted.database_url), keys_directory(wanted.state))
        more(linked)
        linked.close()
    return _Files.read(wanted)


def _read(folder: Path, wanted: ClusterRequest) -> Iterator[tuple[Path, int, bytes]]:
    """But the database, which may lie there."""
    for each in sorted(folder.rglob("*")):
        if each.is_file() and str(each) not in wanted.database_url and ".db" not in each.name:
            yield each.relative_to(folder), each.stat().st_mode & 0o777, each.read_bytes()

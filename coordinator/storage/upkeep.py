"""One store is brought to what is published: what it lacks is put, in order; what nobody needs goes, last and later.

There is no queue. What is to be done is the difference between what is published and what is known to lie there, so
whatever ends a round, anywhere, the next one goes on from what it finds. What lies there is known of files that were
put or compared by this process; from time to time, and at the first round, the store is listed, and a file that is
gone, or that somebody has changed, is put again. So a store that was emptied, exchanged or damaged mends itself.

Order, as for a directory (static_tree.py): documents, bundles and recoveries, then increments, then heads that announce
them; a head of which something could not be put waits. What is announced no more goes once it was so for a while
(REMOVAL_S): a node that has just read the head before still finds what that lists. A store that is full lets it go
though something is lacking: else there would never be room for that.

What is compared is as many files as a fleet has: on a thread.

Rejected:

- A durable queue of uploads: it would have to agree with what lies at the store, which only the store knows; and after
  a restore or an exchange of the store it would be wrong.
- Asking the store for each file before it is put: a request for each file of a fleet, where a thousand fit into one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_library
from coordinator.database.database import Database
from coordinator.storage.payload import payload_of, read_payload, snapshot_id_of
from coordinator.storage.published_tree import HEADS, INCREMENTS, head_path
from coordinator.storage.storage_error import StorageError, StorageFault
from coordinator.storage.store import FileStore

REMOVAL_S = 600.0


@dataclass(frozen=True)
class WantedFiles:
    """`files`: path -> document; heads among them. `needs`: of each head's path the paths that have to lie there."""

    files: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RepeatedHead:
    """A head that was signed again while the database is away. `first`: the container in the database, of which it says
    what that says.
    """

    node_id: str
    first: bytes
    container: bytes


@dataclass(frozen=True)
class KnownFile:
    """`snapshot_id`: of a head also where it lies there as it was signed again."""

    snapshot_id: str
    mark: str


@dataclass
class StoreUpkeep:
    """Of one store. `check_s`: how often it is listed, by trio's clock. `refused`: files that it does not take, and
    why.
    """

    database: Database
    check_s: float
    refused: dict[str, str] = field(default_factory=dict)
    written: int = 0
    removed: int = 0
    _known: dict[str, KnownFile] = field(default_factory=dict)
    _present: dict[str, str] = field(default_factory=dict)
    _unwanted: dict[str, float] = field(default_factory=dict)  # since when
    _listed_at: float = float("-inf")
    _repeated: dict[str, bytes] = field(default_factory=dict)  # what was put last of heads that were signed again

    @property
    def files(self) -> int:
        """Known to lie there."""
        return len(self._known)

    @property
    def is_known(self) -> bool:
        """Whether it was listed, and nobody else is known to have written there since."""
        return self._listed_at > float("-inf")

    @property
    def is_to_be_listed(self) -> bool:
        return trio.current_time() - self._listed_at >= self.check_s

    def forget(self) -> None:
        """Somebody else may have written there: it is listed next."""
        self._known.clear()
        self._listed_at = float("-inf")

    def suspect(self) -> None:
        """Somebody else may have written there, or nobody: it is listed next, and what is still as it was put stays."""
        self._listed_at = float("-inf")

    def lacking(self, wanted: WantedFiles) -> list[str]:
        """What has to be put, as far as is known."""
        return [path for path, name in wanted.files.items() if not self._holds(path, name)]

    async def is_work(self, wanted: WantedFiles) -> bool:
        if self.is_to_be_listed:
            return True
        lacks = await in_library(self.lacking, wanted)
        return bool(lacks) or bool(await in_library(self._due_for_removal, wanted, trio.current_time()))

    async def bring(self, store: FileStore, wanted: WantedFiles) -> bool:
        """One round; whether all is there. StorageError, SQLAlchemyError, after which what was done is known."""
        if self.is_to_be_listed:
            await self._list(store)
        self.refused = {}
        try:
            await self._put(store, await in_library(self._lacking_first, wanted), wanted)
            await self._put(store, await in_library(self._increments_to_put, wanted), wanted)
            await store.settle()
            await self._put(store, await in_library(self._heads_to_put, wanted), wanted)
            await store.settle()
        except StorageError as error:
            if error.fault is StorageFault.FULL:
                await self._remove_due(store, wanted)
            raise
        if await in_library(self.lacking, wanted):
            return False
        await self._remove_due(store, wanted)
        return True

    async def bring_repeated(self, store: FileStore, heads: Sequence[RepeatedHead]) -> int:
        """In the place of those that they repeat, of which all that they announce is there; how many. Nothing is read
        from the database. What somebody else has written there since is newer, and stays: looked at for each file right
        before it is put, since another coordinator may have the database, and write there meanwhile. StorageError.
        """
        due, count = await in_library(self._repeats_to_put, heads), 0
        for path, container in due.items():
            known = self._known[path]
            try:
                mark = await store.replace(path, payload_of(container), known.mark)
            except StorageError as error:
                if not error.is_of_file:
                    raise
                continue
            if mark is None:  # of somebody else, who is further
                del self._known[path]
                continue
            self._known[path] = KnownFile(known.snapshot_id, mark)
            self._present[path] = mark
            self._repeated[path] = container
            self.written, count = self.written + 1, count + 1
        if due:
            await store.settle()
        return count

    def _repeats_to_put(self, heads: Sequence[RepeatedHead]) -> dict[str, bytes]:
        """Of heads that this process has put."""
        found: dict[str, bytes] = {}
        for head in heads:
            path = head_path(head.node_id)
            known = self._known.get(path)
            if known is None or self._repeated.get(path) is head.container:
                continue
            if known.snapshot_id == snapshot_id_of(head.first):
                found[path] = head.container
        return found

    def _lacking_first(self, wanted: WantedFiles) -> list[str]:
        return [path for path in self.lacking(wanted) if not is_head(path) and not _is_increment(path)]

    def _increments_to_put(self, wanted: WantedFiles) -> list[str]:
        """A storage node knows them by the documents that they lead to."""
        return list(filter(_is_increment, self.lacking(wanted)))

    def _heads_to_put(self, wanted: WantedFiles) -> list[str]:
        """Those of which all that they announce is there."""
        return [path for path in self.lacking(wanted) if is_head(path) and self._has_all(wanted, path)]

    def _holds(self, path: str, snapshot_id: str) -> bool:
        known = self._known.get(path)
        return known is not None and known.snapshot_id == snapshot_id

    def _has_all(self, wanted: WantedFiles, head: str) -> bool:
        return all(self._holds(path, wanted.files[path]) for path in wanted.needs.get(head, ()))

    async def _list(self, store: FileStore) -> None:
        present = await store.listing()
        self._known, self._present = await in_library(self._compare_listing, present)
        self._listed_at = trio.current_time()

    def _compare_listing(self, present: Mapping[str, str]) -> tuple[dict[str, KnownFile], dict[str, str]]:
        known = {path: known for path, known in self._known.items() if present.get(path) == known.mark}
        return known, dict(present)

    async def _put(self, store: FileStore, paths: Sequence[str], wanted: WantedFiles) -> None:
        """Several at a time. After the first fault that is not of one file alone no more are begun; those that are
        under way end by themselves, so that each round comes a little further.
        """
        faults: list[StorageError | SQLAlchemyError] = []
        waiting = iter(paths)

        async def work() -> None:
            for path in waiting:
                if faults:
                    return
                try:
                    await self._put_one(store, path, wanted.files[path])
                except StorageError as error:
                    if not error.is_of_file:
                        faults.append(error)
                        return
                    self.refused[path] = str(error)
                except SQLAlchemyError as error:  # by itself: out of a nursery it would come in a group
                    faults.append(error)
                    return

        async with trio.open_nursery() as nursery:
            for _ in range(min(store.workers, len(paths))):
                nursery.start_soon(work)
        if faults:
            raise faults[0]

    async def _put_one(self, store: FileStore, path: str, snapshot_id: str) -> None:
        present = self._present.get(path)
        try:
            payload = await in_library(read_payload, self.database, snapshot_id)
            mark = await store.put(path, payload, present)
        except Refused:  # published anew meanwhile, also while it was sent: the next look finds its successor
            return
        self.written += mark != present
        self._known[path] = KnownFile(snapshot_id, mark)
        self._present[path] = mark

    def _due_for_removal(self, wanted: WantedFiles, now: float) -> list[str]:
        unwanted = [path for path in self._present if path not in wanted.files]
        self._unwanted = {path: self._unwanted.get(path, now) for path in unwanted}
        return [path for path in _heads_first(unwanted) if now - self._unwanted[path] >= REMOVAL_S]

    async def _remove_due(self, store: FileStore, wanted: WantedFiles) -> None:
        paths = await in_library(self._due_for_removal, wanted, trio.current_time())
        for path in paths:
            await store.remove(path)
            self.removed += 1
            self._present.pop(path, None)
            self._known.pop(path, None)
            self._unwanted.pop(path, None)
        if paths:
            await store.settle()


def is_head(path: str) -> bool:
    return path.startswith(f"{HEADS}/")


def _is_increment(path: str) -> bool:
    return path.startswith(f"{INCREMENTS}/")


def _heads_first(paths: Sequence[str]) -> Iterator[str]:
    """No head stands without what it announces."""
    return iter(sorted(paths, key=lambda path: not is_head(path)))

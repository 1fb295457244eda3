"""A storage node copies from the stores that its signed `storage_directory` names what it lacks: so a store whose disk
was lost fills up again, and one that no coordinator reaches follows, though every coordinator is gone.

A round asks each source what it has (`GET /v1/files`) and fetches what does not lie here: bundles, documents,
increments, recoveries, and last the heads that announce them. Each file is judged as one that a coordinator brings
(judging.py), so a source can give nothing that nobody has signed, nothing of another shard, and no older head. There is
no state of a transfer: whatever ends a round, the next one goes on from what lies here.

A coordinator that has been here lately brings everything itself, and takes away what goes: then nothing is copied.

What none of the sources lists any more goes after GRACE_S, if all of them have answered. Never goes what a head lists
that lies here and is in its time, nor that head, nor a recovery in its time, nor a trust bundle: a source that was
emptied, or taken over, empties nobody else.

A source costs a bounded time: a round ends after ROUND_S, and with it what comes slowly; what was refused rests, and
after MOST_REFUSED in one round so does the source. A file that it cannot give, as of a bad sector, rests there alone,
and the next one is asked for: what would come after it is most of a store. Two in a row are the source's own fault.
`[storage] copy_bytes_per_s` bounds what is fetched in a second, `most_bytes` and `most_files` what is kept.

Rejected:

- A journal of what a store was given, to be read from a place in it: the store that has lost its disk has lost its
  place, and what lies there is the only word on what lies there.
- Copying while a coordinator writes here as well: every head would come twice.
- Trusting the listing's hash in the place of verifying: it is the source's own word.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import trio

from agent.base.byte_source import Chunks, opening_of
from agent.state.node import RunningNode
from agent.storage.copy_state import MOST_REFUSED, RoundFailures, SourceFault, SourceState
from agent.storage.judging import judge_file, judge_place
from agent.storage.leftovers import find_leftovers, find_missed
from agent.storage.replication import ReplicationSource
from agent.storage.store_reader import CopyPace, StoreReader
from agent.storage.taking import FileTaking, OlderFileError
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from store.published_files import FOLDERS, is_versioned
from wire.backoff import spread
from wire.certificate import BadCertificateError
from wire.client import ClientError, Deadlines, HttpClient, HttpsConnector
from wire.endpoint import BadEndpointError, Endpoint
from wire.local.node_status import ReplicatedStore
from wire.logs import log
from wire.tls_contexts import EmptyTrustError, TlsIdentity

EVERY_S, SHARE = 60.0, 0.2
QUIET_S = 1_200.0  # twice as long as it takes by default until a coordinator lists a store again
LISTING_S, ROUND_S = 120.0, 900.0
GRACE_S = 3_600.0
REFUSED_REST_S, MOST_RESTING = 3_600.0, 65_536
PATIENCE = Deadlines(connect_s=10, first_byte_s=30, silence_s=30)
GONE = 404


@dataclass
class Replicating:
    """`identity`: what this node shows. `brought_at`: when a coordinator was here last, by trio's clock."""

    node: RunningNode
    taking: FileTaking
    identity: Callable[[], TlsIdentity]
    brought_at: Callable[[], float]
    uniform: Callable[[float, float], float] = random.uniform
    _states: dict[str, SourceState] = field(default_factory=dict)
    _rests: dict[tuple[str, str], float] = field(default_factory=dict)  # path and hash: until when
    _missed: dict[str, float] = field(default_factory=dict)  # since when no source lists it
    _sound: dict[str, str] = field(default_factory=dict)  # what was judged again, by its hash
    _pace: CopyPace = field(init=False)

    def __post_init__(self) -> None:
        self._pace = CopyPace(self.node.settings.storage.copy_bytes_per_s)

    async def run(self) -> None:
        """Until cancelled, once what lies here is known."""
        while True:
            await self.round()
            await trio.sleep(spread(EVERY_S, SHARE, self.uniform))

    async def round(self) -> None:
        """One source after the other; nothing that a source does is raised."""
        sources = self.taking.terms.now().sources
        named = {source.endpoint_id for source in sources}
        self._states = {name: state for name, state in self._states.items() if name in named}
        if not sources or self._is_brought():
            self._missed.clear()
            return
        now = trio.current_time()
        self._rests = {what: until for what, until in self._rests.items() if until > now}
        listings = [await self._ask(source) for source in sources]
        whole = [listing for listing in listings if listing is not None]
        if len(whole) == len(sources):
            try:
                await self._let_go(whole)
            except StoreError as error:  # this node's own disk: what lies here is served all the same
                log.warning("what no store lists any more stays", fault=error.fault, detail=error.detail)

    def _is_brought(self) -> bool:
        """A coordinator may come back while others are asked."""
        return trio.current_time() - self.brought_at() < QUIET_S

    def describe_sources(self) -> tuple[bool, tuple[ReplicatedStore, ...]]:
        """For the node's status: whether none is asked, since a coordinator brings everything; and each of them."""
        return self._is_brought(), tuple(
            self._state_of(source).describe(source) for source in self.taking.terms.now().sources
        )

    def _state_of(self, source: ReplicationSource) -> SourceState:
        return self._states.setdefault(source.endpoint_id, SourceState.begin(self.uniform))

    async def _ask(self, source: ReplicationSource) -> Mapping[str, str] | None:
        """What it lists; None where it did not answer as a store, or rests."""
        state = self._state_of(source)
        if trio.current_time() < state.not_before:
            return None
        try:
            listing = await self._copy(source, state)
        except (ClientError, SourceFault, StoreError, OSError, EmptyTrustError, BadCertificateError) as error:
            state.note_fault(source, error)
            again_s = error.retry_after_s if isinstance(error, ClientError) else None
            state.not_before = trio.current_time() + state.back_off.note_failure(again_s)
            return None
        state.back_off.note_success()
        return listing

    async def _copy(self, source: ReplicationSource, state: SourceState) -> Mapping[str, str]:
        try:
            endpoint = Endpoint.parse(source.url)
        except BadEndpointError as error:
            raise SourceFault(f"{source.url}: {error}") from error
        connector = await self.node.threads.read(HttpsConnector.to_node, source.certificates, self.identity())
        client = HttpClient(connector, PATIENCE)
        reader = StoreReader(client, endpoint, self.node.threads, self._pace)
        try:
            listing = None
            with trio.move_on_after(LISTING_S):
                listing = await reader.list(self.taking.kept.most_files)
            if listing is None:
                raise SourceFault(f"its listing has not ended after {LISTING_S:.0f} s")
            state.worked_at = trio.current_time()
            if trio.current_time() >= state.fetch_at:
                await self._bring_what_fits(reader, listing, source, state)
            return listing
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await client.aclose()

    async def _bring_what_fits(
        self, reader: StoreReader, listing: Mapping[str, str], source: ReplicationSource, state: SourceState
    ) -> None:
        """What this node's own disk refuses keeps no listing from being heard: by that what is not needed goes, and so
        there is room again.
        """
        try:
            with trio.move_on_after(ROUND_S):
                await self._bring_all(reader, listing, state)
        except StoreError as error:
            state.note_fault(source, error)
            state.fetch_at = trio.current_time() + state.own_back_off.note_failure()
            return
        if state.fault:
            log.info("a store is copied again", storage=source.endpoint_id)
        state.own_back_off.note_success()
        state.fault = ""

    async def _bring_all(self, reader: StoreReader, listing: Mapping[str, str], state: SourceState) -> None:
        refused, failures = 0, RoundFailures(state)
        state.ungiven = {path: until for path, until in state.ungiven.items() if until > trio.current_time()}
        lacking, state.lacking = await self.node.threads.read(self._lacking, listing)
        for path in lacking:
            what, is_new = (path, listing[path]), path not in self.taking.kept.files
            if what in self._rests or path in state.ungiven or not await self._is_wanted(path):
                continue
            if len(self._rests) >= MOST_RESTING:
                raise SourceFault("there is no end of what it lists and this node may not keep")
            try:
                await self._bring(reader, path)
                state.copied += 1
                state.lacking -= is_new
                failures.in_a_row = 0
            except ClientError as error:
                if error.status != GONE:  # it went since it was listed
                    failures.note(path, error)
            except OlderFileError:
                self._rests[what] = trio.current_time() + REFUSED_REST_S
            except Rejected as error:
                refused += 1
                state.refused += 1
                self._rests[what] = trio.current_time() + REFUSED_REST_S
                self.node.counters.add("storage_copies_refused")
                log.info("not copied", source=str(reader.endpoint), file=path, reason=str(error))
                if refused >= MOST_REFUSED:
                    raise SourceFault(f"{refused} of its files were refused") from error
        if failures.first is not None:
            raise failures.first

    def _lacking(self, listing: Mapping[str, str]) -> tuple[list[str], int]:
        """In the order of the folders: what a head announces is here before it. And how many of them are not here at
        all.
        """
        kept = self.taking.kept.now()
        lacks = [path for path, sha256 in listing.items() if path not in kept or kept[path].sha256 != sha256]
        lacks.sort(key=lambda path: (FOLDERS.index(path.partition("/")[0]), path))
        return lacks, sum(path not in kept for path in lacks)

    async def _is_wanted(self, path: str) -> bool:
        """Of a file that never changes another one is wanted only where ours is damaged."""
        ours = self.taking.kept.files.get(path)
        if ours is None or is_versioned(path) or path.startswith("increments/"):
            return True
        if self._sound.get(path) == ours.sha256:
            return False
        try:
            file, terms = self.taking.kept.place(path), self.taking.terms.now()
            judge = partial(judge_file, followed=self.taking.followed, targets=self.taking.kept.targets_of)
            await self.node.threads.verify(judge, path, file, self.node.holder(), terms.shards, self.node.now())
        except (Rejected, OSError):
            return True
        self._sound[path] = ours.sha256
        return False

    async def _bring(self, reader: StoreReader, path: str) -> None:
        async with reader.open(path, self.taking.kept.most_bytes) as chunks:
            opening = await opening_of(chunks)
            holder, shards = self.node.holder(), self.taking.terms.now().shards
            await self.node.threads.verify(judge_place, path, opening, holder, shards)
            await self.taking.take(path, Chunks(opening, chunks))
        self.node.counters.add("storage_files_copied")

    async def _let_go(self, listings: Sequence[Mapping[str, str]]) -> None:
        """After the grace; what is still needed stays, and is asked about again later. A coordinator that has come
        meanwhile has seen what lies here, and would not bring again what goes.
        """
        now, kept = trio.current_time(), self.taking.kept
        self._missed = await self.node.threads.read(find_missed, kept, listings, self._missed, now)
        due = [path for path, since in self._missed.items() if now - since >= GRACE_S]
        if not due:
            return
        for path in await self.node.threads.read(find_leftovers, kept, due, self.node.now()):
            if self._is_brought():
                self._missed.clear()
                return
            await self.taking.remove(path)
            self._missed.pop(path, None)
            self.node.counters.add("storage_files_let_go")

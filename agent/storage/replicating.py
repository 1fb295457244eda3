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
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from math import ceil

import trio

from agent.base.byte_source import Chunks, opening_of
from agent.state.node import RunningNode
from agent.storage.judging import judge_file, judge_place
from agent.storage.leftovers import find_leftovers, find_missed
from agent.storage.replication import ReplicationSource
from agent.storage.taking import FileTaking, OlderFileError
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from store.published_files import FOLDERS, is_path, is_versioned
from wire.backoff import BackOff, spread
from wire.certificate import BadCertificateError
from wire.client import Call, ClientError, ClientFault, Deadlines, HttpClient, HttpsConnector, Streamed
from wire.endpoint import BadEndpointError, Endpoint
from wire.endpoint import path as target_of
from wire.local.node_status import ReplicatedStore
from wire.logs import log
from wire.messages import BadMessageError
from wire.peers.storage_messages import FileListing
from wire.tls_contexts import EmptyTrustError, TlsIdentity

EVERY_S, SHARE = 60.0, 0.2
QUIET_S = 1_200.0  # twice as long as it takes by default until a coordinator lists a store again
LISTING_S, ROUND_S = 120.0, 900.0
GRACE_S = 3_600.0
REFUSED_REST_S, MOST_RESTING, MOST_REFUSED = 3_600.0, 65_536, 32
FAILED_REST_S = 900.0
PATIENCE = Deadlines(connect_s=10, first_byte_s=30, silence_s=30)
GONE = 404
_AWAY = {ClientFault.CONNECT_FAILED, ClientFault.TLS_FAILED, ClientFault.UNKNOWN_CA, ClientFault.PEER_PIN_MISMATCH}
_BUSY = {429, 503}


class SourceFault(Exception):
    """It answers what no store of ours does, or gives too much that is refused."""


@dataclass
class _SourceState:
    """`fetch_at`: from when on it is fetched from again, where this node's own disk has refused what came. `worked_at`:
    when it has listed what it has. `lacking`, `copied`, `refused`: files. `ungiven`: those that it lists and did not
    give, and until when they are not asked for.
    """

    back_off: BackOff
    own_back_off: BackOff
    not_before: float = 0.0
    fetch_at: float = 0.0
    fault: str = ""
    worked_at: float | None = None
    lacking: int = 0
    copied: int = 0
    refused: int = 0
    ungiven: dict[str, float] = field(default_factory=dict)


@dataclass
class _Failures:
    """Of one round: what a source lists and did not give. `first`: why."""

    state: _SourceState
    first: ClientError | None = None
    count: int = 0
    in_a_row: int = 0

    def note(self, path: str, error: ClientError) -> None:
        """Raised where it is the source's own fault, and not one of a file."""
        if error.reason in _AWAY or error.status in _BUSY:
            raise error
        self.state.ungiven[path] = trio.current_time() + FAILED_REST_S
        self.first = self.first or error
        self.count += 1
        self.in_a_row += 1
        if self.in_a_row > 1 or self.count >= MOST_REFUSED:
            raise error
        log.info("not given", file=path, reason=str(error))


@dataclass
class Replicating:
    """`identity`: what this node shows. `brought_at`: when a coordinator was here last, by trio's clock."""

    node: RunningNode
    taking: FileTaking
    identity: Callable[[], TlsIdentity]
    brought_at: Callable[[], float]
    uniform: Callable[[float, float], float] = random.uniform
    _states: dict[str, _SourceState] = field(default_factory=dict)
    _rests: dict[tuple[str, str], float] = field(default_factory=dict)  # path and hash: until when
    _missed: dict[str, float] = field(default_factory=dict)  # since when no source lists it
    _sound: dict[str, str] = field(default_factory=dict)  # what was judged again, by its hash
    _free_at: float = 0.0

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
        return self._is_brought(), tuple(self._describe(source) for source in self.taking.terms.now().sources)

    def _describe(self, source: ReplicationSource) -> ReplicatedStore:
        now, state = trio.current_time(), self._states.get(source.endpoint_id) or self._new_state()
        return ReplicatedStore(
            source.endpoint_id,
            source.url,
            state.fault,
            max(state.back_off.failures, state.own_back_off.failures),
            ceil(max(0.0, state.not_before - now, state.fetch_at - now)),
            None if state.worked_at is None else int(now - state.worked_at),
            state.lacking,
            state.copied,
            state.refused,
        )

    def _new_state(self) -> _SourceState:
        return _SourceState(BackOff(self.uniform), BackOff(self.uniform))

    async def _ask(self, source: ReplicationSource) -> Mapping[str, str] | None:
        """What it lists; None where it did not answer as a store, or rests."""
        state = self._states.setdefault(source.endpoint_id, self._new_state())
        if trio.current_time() < state.not_before:
            return None
        try:
            listing = await self._copy(source, state)
        except (ClientError, SourceFault, StoreError, OSError, EmptyTrustError, BadCertificateError) as error:
            _note_fault(source, state, error)
            again_s = error.retry_after_s if isinstance(error, ClientError) else None
            state.not_before = trio.current_time() + state.back_off.note_failure(again_s)
            return None
        state.back_off.note_success()
        return listing

    async def _copy(self, source: ReplicationSource, state: _SourceState) -> Mapping[str, str]:
        try:
            endpoint = Endpoint.parse(source.url)
        except BadEndpointError as error:
            raise SourceFault(f"{source.url}: {error}") from error
        connector = await self.node.threads.read(HttpsConnector.to_node, source.certificates, self.identity())
        client = HttpClient(connector, PATIENCE)
        try:
            listing = None
            with trio.move_on_after(LISTING_S):
                listing = await self._list(client, endpoint)
            if listing is None:
                raise SourceFault(f"its listing has not ended after {LISTING_S:.0f} s")
            state.worked_at = trio.current_time()
            if trio.current_time() >= state.fetch_at:
                await self._bring_what_fits(client, endpoint, listing, source, state)
            return listing
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await client.aclose()

    async def _bring_what_fits(
        self,
        client: HttpClient[Endpoint],
        endpoint: Endpoint,
        listing: Mapping[str, str],
        source: ReplicationSource,
        state: _SourceState,
    ) -> None:
        """What this node's own disk refuses keeps no listing from being heard: by that what is not needed goes, and so
        there is room again.
        """
        try:
            with trio.move_on_after(ROUND_S):
                await self._bring_all(client, endpoint, listing, state)
        except StoreError as error:
            _note_fault(source, state, error)
            state.fetch_at = trio.current_time() + state.own_back_off.note_failure()
            return
        if state.fault:
            log.info("a store is copied again", storage=source.endpoint_id)
        state.own_back_off.note_success()
        state.fault = ""

    async def _list(self, client: HttpClient[Endpoint], endpoint: Endpoint) -> dict[str, str]:
        found: dict[str, str] = {}
        last = ""
        while len(found) <= self.taking.kept.most_files:
            target = target_of("v1", "files", **({"after": last} if last else {}))
            answer = await client.fetch(endpoint, Call("GET", target, limit=FileListing.MOST_BYTES))
            try:
                page = await self.node.threads.read(FileListing.read, answer.body)
            except BadMessageError as error:
                raise SourceFault(f"is it a storage node? {error}") from error
            if not all(name > last and is_path(name) for name in page.files):
                raise SourceFault("it lists what is no file of ours, or the same again")
            found |= page.files
            if not page.is_more or not page.files:
                return found
            last = max(page.files)
        raise SourceFault(f"it lists more than {self.taking.kept.most_files} files")

    async def _bring_all(
        self, client: HttpClient[Endpoint], endpoint: Endpoint, listing: Mapping[str, str], state: _SourceState
    ) -> None:
        refused, failures = 0, _Failures(state)
        state.ungiven = {path: until for path, until in state.ungiven.items() if until > trio.current_time()}
        lacking, state.lacking = await self.node.threads.read(self._lacking, listing)
        for path in lacking:
            what, is_new = (path, listing[path]), path not in self.taking.kept.files
            if what in self._rests or path in state.ungiven or not await self._is_wanted(path):
                continue
            if len(self._rests) >= MOST_RESTING:
                raise SourceFault("there is no end of what it lists and this node may not keep")
            try:
                await self._bring(client, endpoint, path)
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
                log.info("not copied", source=str(endpoint), file=path, reason=str(error))
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
            await self.node.threads.verify(
                judge_file, path, file, self.node.holder(), terms.shards, self.node.now(), self.taking.followed
            )
        except (Rejected, OSError):
            return True
        self._sound[path] = ours.sha256
        return False

    async def _bring(self, client: HttpClient[Endpoint], endpoint: Endpoint, path: str) -> None:
        call = Call("GET", f"/{path}", limit=self.taking.kept.most_bytes)
        async with client.stream(endpoint, call) as answer, aclosing(self._pieces_of(answer)) as chunks:
            opening = await opening_of(chunks)
            holder, shards = self.node.holder(), self.taking.terms.now().shards
            await self.node.threads.verify(judge_place, path, opening, holder, shards)
            await self.taking.take(path, Chunks(opening, chunks))
        self.node.counters.add("storage_files_copied")

    async def _pieces_of(self, answer: Streamed) -> AsyncGenerator[bytes, None]:
        """No faster than is configured, over all files."""
        rate = self.node.settings.storage.copy_bytes_per_s
        async for piece in answer.chunks():
            yield piece
            self._free_at = max(self._free_at, trio.current_time()) + len(piece) / rate
            await trio.sleep_until(self._free_at)

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


def _note_fault(source: ReplicationSource, state: _SourceState, error: Exception) -> None:
    if state.fault != str(error):
        log.warning("a store is not copied", storage=source.endpoint_id, reason=str(error))
    state.fault = str(error)

"""Documents of others that this node keeps for its neighbours: a stick handed to one node reaches them (rules K5, X28).

    may_keep      whether a container may lie here, by what it says of itself
    take          it is judged, and kept
    take_bundle   a trust bundle that was followed here
    keep_own      what a relay of its site has fetched for itself, as it came

A container is judged as its addressee would judge it, by the twelve steps, but for what only he knows: which versions
he holds, and which roles he has now. So what lies here is signed, whole, of this cluster and in its time; what is made
of it by somebody else can be refused, and cannot be put here. It stays opaque: it is in no scope of this node.

What is kept: heads and documents of nodes that this node's map names, and shared documents, of organizations that this
node serves alone. What is another one's, or revoked, or beyond the bounds of `[peers]`, is not kept.

For who fetches for neighbours (`[peers] relay`): `wanted_heads` says whose heads may be kept, `missing` which documents
a head lists that do not lie here, `take` takes what came.
"""

import os
import random
from collections.abc import AsyncIterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path

import trio

from agent.relay.fetch_budget import FetchBudget
from agent.relay.handing_out import HandingOut
from agent.sources.peers import Peers
from agent.state.node import RunningNode
from snapshot import container
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts
from snapshot.envelope import INCREMENT, SHARED, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.manifest import Head, ScopeVersion, parse_head
from snapshot.reasons import Reason, Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import signed_sizes, verify
from store.base.disk import refusal
from store.base.errors import StoreError, StoreFault
from store.base.pending import Pending
from store.relay import PIECE_BYTES, RelayedContainer, RelayStore, digest_of
from wire.backoff import BackOff
from wire.logs import log
from wire.messages import NEIGHBOURS_MAX, RelayCondition

MOST_PARSED = 512  # heads: twice as many as a directory names nodes
DROP_MOST_S = 300.0
NO_ROOM = "it is more than [peers] relay_bytes lets this node keep for its neighbours"


@dataclass
class Relay:
    """`handing_out`: what is sent to neighbours, and how fast; `fetching`: what may be fetched for them alone."""

    node: RunningNode
    store: RelayStore
    peers: Peers
    handing_out: HandingOut = field(init=False)
    fetching: FetchBudget = field(init=False)
    damaged: dict[RelayedContainer, str] = field(default_factory=dict)  # found by whoever read it, and what was wrong
    refetch: set[str] = field(default_factory=set)  # ids of those that were dropped
    _drop_back_off: BackOff = field(default_factory=lambda: BackOff(random.uniform, cap_s=DROP_MOST_S))
    _drop_at: float = float("-inf")  # not before: a disk that takes no change would be asked with each request
    _taking: trio.Lock = field(default_factory=trio.Lock)
    _keeping: trio.Lock = field(default_factory=trio.Lock)  # another one: who hands in a file slowly holds up no update
    # Parsed once for each version; None where it is damaged.
    _heads: dict[str, tuple[tuple[int, int], Head | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bounds = self.node.settings.peers
        self.handing_out = HandingOut(bounds.relay_bytes_per_second)
        self.fetching = FetchBudget(self.node, bounds.relay_fetch_bytes_per_hour)

    async def load(self) -> None:
        """What was kept before, and what was spent for it. StoreError."""
        await self.node.threads.write(self.store.load)
        await self.fetching.load()

    def may_keep(self, said: Envelope) -> bool:
        """Of a neighbour, or shared; of organizations that this node serves; no trust bundle, which has its own way.
        What is listed for this node itself is asked for before, by whoever calls.
        """
        if said.kind not in (HEAD, SNAPSHOT) or said.scope == TRUST_BUNDLE or not self.store.bounds.most_bytes:
            return False
        if said.subject_node_id != SHARED and digest_of(said.subject_node_id) not in self.wanted_heads():
            return False
        return set(said.organization_ids) <= self.node.holdings.holder.organization_ids

    def wanted_heads(self) -> dict[str, str]:
        """Whose heads may be kept: node ids by their digests."""
        return {digest_of(peer.node_id): peer.node_id for peer in self.peers.trusted_peers()}

    def report(self) -> RelayCondition | None:
        """None where nothing is kept for others."""
        store, names = self.store, tuple(sorted(self.wanted_heads().values())[:NEIGHBOURS_MAX])
        if not store.bounds.most_bytes or not names:
            return None
        return RelayCondition(
            names,
            len(store.heads),
            store.used_files() - len(store.heads),
            store.used_bytes(),
            store.bounds.most_bytes,
            is_relay=self.node.settings.peers.relay,
            handed_bytes=self.handing_out.handed,
            bytes_per_second=self.handing_out.per_s,
            waiting=self.handing_out.waiting,
            fetched_bytes=self.fetching.spent,
            fetch_most_bytes=self.fetching.most,
        )

    def news(self) -> RelayCondition | None:
        """The same for a heartbeat: every node has neighbours, and nearly none has anything of theirs."""
        found = self.report()
        return found if found is not None and (found.is_relay or found.heads or found.documents) else None

    async def take(self, chunks: AsyncIterable[bytes], said: Envelope) -> bool:
        """Whether it was new. `said`: what it says of itself, unverified. Rejected, StoreError."""
        async with self._taking:
            file = self.store.temporary / "relayed.new"
            try:
                await self._write(file, chunks)
                envelope = await self.node.threads.verify(self._judge, file, said)
                return await self.node.threads.write(self._keep, envelope, file)
            finally:
                with trio.CancelScope(shield=True):
                    await self.node.threads.write(_remove, file)

    async def keep_own(self, slot: Pending, envelope: Envelope) -> None:
        """Of a relay, what others are given too: whole, or the increment, before it is active here. It was verified a
        moment ago, and what is active by an increment lies nowhere as it came. A full disk keeps nobody from following.
        """
        if not self.node.settings.peers.relay or envelope.subject_node_id != SHARED or envelope.scope == TRUST_BUNDLE:
            return
        async with self._keeping:
            file = self.store.temporary / "relayed-own.new"
            try:
                await self.node.threads.write(self._write_slot, file, slot, envelope)
                put = self.store.put_increment if envelope.kind == INCREMENT else self.store.put_document
                is_kept = await self.node.threads.write(put, envelope, file, self.node.now())
                self.node.counters.add("relay_documents_kept", int(is_kept))
            except (OSError, StoreError, Rejected) as error:
                log.warning("not kept for neighbours", scope=envelope.scope, error=str(error))
            finally:
                with trio.CancelScope(shield=True):
                    await self.node.threads.write(_remove, file)

    def _write_slot(self, file: Path, slot: Pending, envelope: Envelope) -> None:
        parts, holder = slot.parts(), self.node.holder()
        opening, manifest = parts.opening(), parts.manifest()
        sizes = signed_sizes(envelope, manifest, holder)
        with _create(file) as opened:
            for piece in container.encode_opening(opening.envelope, opening.signatures, manifest, len(sizes)):
                _write_all(opened, piece)
            for data in parts.sections(sizes):
                _write_all(opened, container.encode_section_head(len(data)))
                _write_all(opened, data)
            os.fsync(opened.fileno())

    # ---- damage

    def pieces(self, kept: RelayedContainer) -> Iterator[bytes]:
        """Of a whole one. StoreError; what is damaged is noted, on whatever thread."""
        with self.noting_damage(kept):
            yield from self.store.pieces(kept)

    @contextmanager
    def noting_damage(self, kept: RelayedContainer) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if error.fault is StoreFault.STORE_CORRUPT:
                self.damaged[kept] = error.detail
            raise

    async def drop_damaged(self) -> None:
        """So that it is fetched again. A disk that takes no change keeps it, and is asked again after a while."""
        found = dict(self.damaged)
        if not found or trio.current_time() < self._drop_at:
            return
        try:
            gone = await self.node.threads.write(self.store.drop_damaged, *found)
        except (OSError, StoreError) as error:
            self._drop_at = trio.current_time() + self._drop_back_off.note_failure()
            log.warning("damaged, and not dropped", files=len(found), error=str(error))
            return
        self._drop_back_off.note_success()
        for kept in found:
            self.damaged.pop(kept, None)
        for kept in gone:
            envelope = kept.envelope
            self.refetch.add(envelope.snapshot_id)
            self._heads.pop(envelope.subject_node_id, None)
            self.node.counters.add("relay_files_damaged")
            log.warning("damaged, and dropped", scope=envelope.scope, file=kept.file.name, detail=found[kept])

    def take_bundle(self, version: int, container: bytes) -> None:
        """Of one that is active now. On the writing thread; a full disk keeps nobody from following."""
        try:
            self.store.put_bundle(version, container)
        except (OSError, StoreError) as error:
            log.warning("trust bundle not kept for others", version=version, error=str(error))

    def followed_bundle(self, version: int) -> bytes | None:
        """As it came; None of one that is not kept. StoreError. On any thread."""
        return self.store.bundle(version) if version in self.store.bundle_versions() else None

    def head_for(self, node_id: str) -> Head | None:
        """What the kept head of a node lists, while it is in its time. On a reading thread: the first look reads it.
        One that is damaged, or gone a moment ago, is as if it were not there: others are answered all the same.
        """
        kept = self.store.head_of(digest_of(node_id))
        if kept is None or kept.envelope.expires_at <= self.node.now():
            return None
        known = self._heads.get(node_id)
        if known is None or known[0] != kept.envelope.version:
            try:
                known = kept.envelope.version, self._listing_of(kept)
            except StoreError as error:
                log.warning("a head that is kept for a neighbour is damaged", neighbour=node_id, error=str(error))
                if error.fault is not StoreFault.STORE_CORRUPT:
                    return None
                known = kept.envelope.version, None
            for forgotten in list(self._heads)[: max(0, len(self._heads) - MOST_PARSED)]:
                self._heads.pop(forgotten, None)
            self._heads[node_id] = known
        return known[1]

    def missing(self, head: Head) -> list[ScopeVersion]:
        """What a head lists and neither lies here for others nor is active here."""
        active = {document.envelope.snapshot_id for document in self.node.holdings.kept.active.values()}
        listed = [entry for scope, entry in head.scopes.items() if scope != TRUST_BUNDLE]
        return [
            entry
            for entry in listed
            if entry.snapshot_id not in active and self.store.document(entry.snapshot_id) is None
        ]

    # ---- inside

    def _listing_of(self, kept: RelayedContainer) -> Head:
        with self.noting_damage(kept):
            parts = ChunkParts([self.store.read(kept)])
            try:
                parts.opening()
                return parse_head(parts.manifest())
            except Rejected as damage:  # it was whole when it was put there
                raise StoreError(StoreFault.STORE_CORRUPT, f"{kept.file.name}: {damage}") from damage

    async def _write(self, file: Path, chunks: AsyncIterable[bytes]) -> None:
        left, together = self.store.bounds.most_bytes, bytearray()
        opened = await self.node.threads.write(_create, file)
        try:
            async for chunk in chunks:
                together += chunk
                left -= len(chunk)
                if left < 0:
                    raise StoreError(StoreFault.TOO_LARGE, NO_ROOM)
                if len(together) >= PIECE_BYTES:
                    await self.node.threads.write(_write_all, opened, bytes(together))
                    together.clear()
            await self.node.threads.write(_write_all, opened, bytes(together))
            await self.node.threads.write(os.fsync, opened.fileno())
        finally:
            with trio.CancelScope(shield=True):
                await self.node.threads.write(opened.close)

    def _judge(self, file: Path, said: Envelope) -> Envelope:
        """It was chosen by its first bytes; these are what is judged."""
        holder = as_addressee(self.node.holder(), said)
        verdict = verify(ChunkParts(_pieces(file), holder.limits), holder, kind=said.kind, now=self.node.now())
        if verdict.envelope != said or not self.may_keep(said):
            raise Rejected(3, Reason.WRONG_NODE, expected="a document of a neighbour", found=said.subject_node_id)
        return verdict.envelope

    def _keep(self, envelope: Envelope, file: Path) -> bool:
        put = self.store.put_head if envelope.kind == HEAD else self.store.put_document
        return put(envelope, file, self.node.now())


def as_addressee(holder: VerifierState, said: Envelope) -> VerifierState:
    """Who would be given it: its subject, with the roles and organizations that it is for, holding nothing."""
    return replace(
        holder,
        node_id=said.subject_node_id if said.subject_node_id != SHARED else holder.node_id,
        roles=frozenset(said.roles),
        organization_ids=frozenset(said.organization_ids),
        marks={},
        active={},
        recoveries=(),
        lost=frozenset(),
        returned={},
    )


def _create(file: Path) -> FileIO:
    """Of our own alone, as everything in the state directory."""
    return FileIO(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _write_all(file: FileIO, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[file.write(view) or 0 :]
    except OSError as error:
        raise refusal(error) from error


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(PIECE_BYTES):
            yield piece

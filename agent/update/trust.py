"""Following the trust bundles N+1.. one by one, each durable before the next (format.md 8; threats D-14, D-42).

A node never jumps to the newest bundle. It follows N+1, N+2, ... and each is judged by the one before, made durable,
and only then judges the next: so a crash leaves a bundle that the roots of the one before have signed, and a node that
was off for a year takes the same way as one that was there.

Example. Three bundles were made while a node was off: 4 adds a config key, 5 replaces a root, 6 retires the old key.
The node holds 3 and is given 4, 5 and 6 in one answer. 6 is signed by the new root, which 3 does not know: judged
alone it would be refused. Followed in order all three are good; where 5 was tampered with, 4 stands and the run ends
there.

An unknown key in a document makes the node ask, so a stranger could make it ask without end; a source is therefore
asked at most once in `LEAST_PAUSE_S`, unless a head lists a bundle that the node has not, or the source gave one when
it was last asked: the roots have signed it, so that ends, and of several changes of keys in a row none waits.

Rejected:

- Threshold signatures of *all* former roots on the newest bundle: it grows for ever, and keys that were destroyed on
  purpose would be needed.
- Trusting the newest bundle because it came over TLS from the coordinator: whoever takes the coordinator would have
  the roots (docs/adr/0010).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import trio

from agent.sources.source import MISSING, DocumentPlace, Kind, Source, bundle_file
from agent.state.node import RunningNode
from agent.state.origins import Giver
from agent.update.admission import Admission, AskedDocument
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts, encode
from snapshot.envelope import SNAPSHOT
from snapshot.reasons import Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import MOST_BUNDLES, Verified, follow
from wire.client import ClientError
from wire.endpoint import path
from wire.logs import log
from wire.messages import BadMessageError, TrustList

BUNDLE_BYTES = 2 << 20
NEVER = float("-inf")
LEAST_PAUSE_S = 30.0  # an unknown key may make us ask, but not all the time (threats D-42)


async def _note_nothing(_verified: Verified, _giver: Giver) -> None:
    """Of a chain by itself."""


@dataclass
class TrustChain:
    """`refresh` asks a source; `walk` takes what is there, one run at a time. `note_origin`: of one that is active."""

    node: RunningNode
    admission: Admission
    kept: Callable[[int, bytes], None] = lambda version, container: None  # on the writing thread
    note_origin: Callable[[Verified, Giver], Awaitable[None]] = _note_nothing
    walking: trio.Lock = field(default_factory=trio.Lock)

    async def refresh(self, source: Source, *, urgent: bool = False) -> bool:
        """The bundles above ours from that source; whether one was taken. ClientError for the network's faults."""
        now = trio.current_time()
        if not urgent and now - source.asked_for_trust_at < LEAST_PAUSE_S:
            return False
        source.asked_for_trust_at = now
        taken = 0
        while (more := await self.walk(await self._fetch(source), source.giver)) == MOST_BUNDLES:
            taken += more
        if taken + more > 0:
            source.asked_for_trust_at = NEVER
        return taken + more > 0

    async def walk(self, containers: Sequence[bytes], giver: Giver) -> int:
        """How many were taken. The first that is refused ends the run; what came before it stands."""
        async with self.walking:
            return await self._walk(containers, giver)

    async def _walk(self, containers: Sequence[bytes], giver: Giver) -> int:
        node = self.node
        limits = node.holdings.holder.limits
        sections: list[bytes] = []  # of the bundle that is judged: at most 1 MiB

        def keep(_: str, data: bytes) -> None:
            sections.append(data)

        run = follow([ChunkParts([data], limits) for data in containers], self._judge(), now=node.now(), keep=keep)
        taken = 0
        try:
            while isinstance(verdict := await node.threads.verify(next, run, None), Verified):
                if self._is_reached(verdict):
                    await node.change(self._activate, verdict, tuple(sections))
                    log.info("trust bundle taken", version=verdict.envelope.config_version, source=giver.name)
                    await self.note_origin(verdict, giver)
                    node.counters.add("trust_bundles_taken")
                    taken += 1
                sections.clear()
        except Rejected as refused:
            asked = AskedDocument(SNAPSHOT, giver.name, TRUST_BUNDLE)
            await self.admission.record(asked, None, refused.step, refused.reason, refused.detail)
        return taken

    def _judge(self) -> VerifierState:
        """Who lost its bundles with its store walks again from the pinned roots, below its mark."""
        holder = self.node.holder()
        if holder.bundle is not None:
            return holder
        return replace(holder, marks={scope: mark for scope, mark in holder.marks.items() if scope != TRUST_BUNDLE})

    def _is_reached(self, verified: Verified) -> bool:
        """Whether it is at our mark, or above: what is below was accepted once, and only leads there."""
        mark = self.node.holdings.kept.marks.get(TRUST_BUNDLE)
        return mark is None or verified.mark.version >= mark.version

    def _activate(self, verified: Verified, sections: Sequence[bytes]) -> None:
        """Into a slot and active, on the writing thread."""
        store, moment = self.node.store, self.node.moment()
        slot = store.receive(verified.scope, now=moment.now)
        for data in sections:
            slot.keep("", data)
        slot.complete(verified)
        store.activate(verified, now=moment.now, boot=moment.boot)
        container = encode(verified.envelope_bytes, verified.signatures, verified.manifest_bytes, sections)
        self.kept(verified.envelope.config_version, b"".join(container))

    async def _fetch(self, source: Source) -> Sequence[bytes]:
        held = self.node.holdings.bundle
        version = held.version if held else 0
        if not source.is_tree:
            try:
                answer = await source.fetch(
                    DocumentPlace(path("v1", "trust", **{"from": version})), limit=TrustList.MOST_BYTES
                )
                return (await self.node.threads.read(TrustList.parse, answer.body)).documents
            except BadMessageError as error:
                source.note_failure(str(error))
                return ()
            except ClientError as error:
                if source.kind is Kind.COORDINATOR or error.status not in MISSING:
                    raise
        return await self._fetch_files(source, version)

    async def _fetch_files(self, source: Source, version: int) -> Sequence[bytes]:
        """From a tree of files: one after the other, as far as there are any."""
        found: list[bytes] = []
        try:
            while len(found) < MOST_BUNDLES:
                place = DocumentPlace(bundle_file(version + len(found) + 1))
                found.append((await source.fetch(place, limit=BUNDLE_BYTES)).body)
        except ClientError as error:
            if error.status not in MISSING:
                raise
        return found

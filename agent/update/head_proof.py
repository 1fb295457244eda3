"""Showing the held head to a coordinator that says it knows less than we hold (protocol.md 1; rules K41).

What is shown is what that coordinator, or another one of its cluster, has signed and given us: it learns nothing that
is not its own. Whatever it answers changes nothing here; a head from it is still judged by all twelve steps.
"""

from dataclasses import dataclass, field

import trio

from agent.sources.source import Kind, Source
from agent.state.node import RunningNode
from snapshot import container
from snapshot.identifiers import HEAD
from wire.client import Call, ClientError, ClientFault, Reply
from wire.endpoint import Endpoint, path
from wire.logs import log

ASKED = "holdfast-prove"
NO_NEWS = 204
SHOWN_S = 30.0
AGAIN_S = 3600.0  # the same head to the same coordinator
MOST_ANSWER_BYTES = 4096
MEDIA_TYPE = ("content-type", container.MEDIA_TYPE)


@dataclass(frozen=True)
class ShownHead:
    """`at`: trio's clock."""

    envelope_hash: str
    at: float


@dataclass
class Showing:
    node: RunningNode
    shown: dict[Endpoint, ShownHead] = field(default_factory=dict)

    def is_asked(self, answer: Reply, source: Source) -> bool:
        """By a coordinator alone: a mirror, a peer or an entry of a manual map decides nothing by it."""
        is_coordinator = source.kind is Kind.COORDINATOR and self.node.settings.coordinator is not None
        return is_coordinator and answer.status == NO_NEWS and answer.headers.get(ASKED) == HEAD

    async def show(self, source: Source) -> None:
        """Once for each head, and again after an hour. ClientError where it did not come to an answer; StoreError."""
        found = await self.node.threads.read(self._container)
        if found is None:
            return
        envelope_hash, data = found
        before, now = self.shown.get(source.endpoint), trio.current_time()
        if before is not None and before.envelope_hash == envelope_hash and now - before.at < AGAIN_S:
            return
        said = "the coordinator knows less than it has given us: was it restored from an old backup?"
        log.error(said, source=str(source))
        self.node.counters.add("heads_shown")
        await self._send(source, data)
        self.shown[source.endpoint] = ShownHead(envelope_hash, now)

    async def _send(self, source: Source, data: bytes) -> None:
        """A refusal of this head is an answer, too; a coordinator that is not ready will have to be asked again."""
        call = Call("POST", path("v1", HEAD), headers=[MEDIA_TYPE], body=data, limit=MOST_ANSWER_BYTES)
        with trio.move_on_after(SHOWN_S) as scope:
            try:
                await source.client.fetch(source.endpoint, call)
            except ClientError as error:
                if error.status is None or error.status >= 500:
                    raise
                log.warning("the held head was not taken as proof", source=str(source), error=str(error))
        if scope.cancelled_caught:
            raise ClientError(ClientFault.TIMED_OUT, "the held head was not taken in time")

    def _container(self) -> tuple[str, bytes] | None:
        """The head as it came: nothing of it was ever encoded anew but the frame around its parts (format.md 3)."""
        held = self.node.holdings.kept.active.get(HEAD)
        if held is None:
            return None
        parts = container.encode(held.envelope_bytes, held.signatures, held.manifest_bytes, ())
        return held.envelope_hash, b"".join(parts)

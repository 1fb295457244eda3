"""Whether this node can reach a coordinator at all: asked when new content may have cut it off (services/probation.py).

A sign of life is enough: an answer of any kind, a handshake that fails, a connection that is refused. Who refuses is
there, and so is the way to it; a coordinator that is being restarted is no reason to take anything back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import trio

from agent.sources.source import Source, head_place
from agent.sources.sources import Sources
from agent.state.node import RunningNode
from wire.client import Call, ClientError, ClientFault

ASK_S = 5.0
HEAD_BYTES = 5 << 20
SILENT = frozenset({ClientFault.CONNECT_FAILED, ClientFault.TIMED_OUT, ClientFault.BAD_ENDPOINT})


@dataclass(frozen=True)
class Way:
    node: RunningNode
    sources: Sources

    async def is_open(self) -> bool:
        """Whether one of them gives a sign of life now; true where there is none to be asked."""
        coordinators = self.sources.coordinators()
        alive: list[Source] = []

        async def ask(source: Source) -> None:
            if await self._is_there(source):
                alive.append(source)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for source in coordinators:
                nursery.start_soon(ask, source)
        return bool(alive) or not coordinators

    async def _is_there(self, source: Source) -> bool:
        place = head_place(self.node.settings.node.node_id, self.node.holdings.held_head, 0)
        with trio.move_on_after(ASK_S):
            try:
                await source.client.fetch(source.endpoint, Call("GET", place.route, limit=HEAD_BYTES))
            except ClientError as error:
                return error.reason not in SILENT or is_refused(error)
            return True
        return False


def is_refused(error: BaseException) -> bool:
    """Whether somebody was there to say no to a connection."""
    return any(isinstance(cause, ConnectionRefusedError | ConnectionResetError) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__

"""A look at what the others have: trust bundles are asked for beside whoever has our ear (rules S44; threats T23).

A coordinator that answers is asked again and again, and nobody else: who has its TLS key, or a config key by which a
head lists a coordinator of his own, would keep the bundle that takes his keys away from nodes for as long as he likes.
Bundles are believed for their signatures, so they may come from anybody. Rejected: to ask all for heads in turn, which
tells nothing that a bundle does not make good, and would give the same head many times.

Nor does it depend on whose TLS certificates the node believes, since a config key says that: who shows a chain to no
such CA is asked once more, for bundles alone (agent/sources/authorities.py).
"""

from collections.abc import Callable
from dataclasses import dataclass

import trio

from agent.sources.source import Kind, Source
from agent.sources.sources import Sources
from agent.update.trust import TrustChain
from store.base.errors import StoreError
from wire.backoff import spread
from wire.client import ClientError, ClientFault
from wire.logs import log

EVERY_S = 900.0
SHARE = 0.2
MOST_ASKED = 4  # at one look; who was asked longest ago is asked first


@dataclass
class SecondLook:
    sources: Sources
    trust: TrustChain
    uniform: Callable[[float, float], float]

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(spread(EVERY_S, SHARE, self.uniform))
            await self.look()

    async def look(self) -> None:
        """At a few of them; what one of them does is no matter of the others."""
        for source in self._due():
            source.looked_at = trio.current_time()
            try:
                await self._ask(source)
            except ClientError as error:
                log.debug("no look at trust bundles", source=str(source), error=str(error))
            except StoreError as error:
                log.warning("trust bundle not taken", fault=error.fault, detail=error.detail)

    async def _ask(self, source: Source) -> None:
        try:
            await self.trust.refresh(source, urgent=True)
        except ClientError as error:
            if error.reason is not ClientFault.UNKNOWN_CA or source.kind is not Kind.COORDINATOR:
                raise
            async with self.sources.last_resort(source) as anybody:
                await self.trust.refresh(anybody, urgent=True)

    def _due(self) -> list[Source]:
        """Those of agent.toml each time, and of the others the ones that were not looked at for the longest."""
        asked = sorted(
            (source for source in self.sources.all() if source.kind is not Kind.PEER),
            key=lambda source: (not source.endpoint.configured, source.looked_at),
        )
        configured = sum(source.endpoint.configured for source in asked)
        return asked[: configured + MOST_ASKED]

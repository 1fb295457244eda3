"""The store kept well: garbage collected, blobs hashed again in rounds (rules L35, L36; threats D-26). Memory, too."""

import trio

from agent.base.gc_tuning import give_back_memory
from agent.base.generation import Generation
from agent.state.node import RunningNode
from snapshot.frozen import mutable
from store.base.errors import StoreError
from wire.logs import log

PAUSE_S = 10.0
GARBAGE_EVERY_S = 3600.0
CROWDED = 0.8  # rules, Numbers: garbage collection from 80 %


@mutable
class Upkeep:
    """`published`: the generation that the files show."""

    node: RunningNode
    published: Generation
    collected_at: float = float("-inf")
    _given_back_at: tuple[int, int] = (-1, -1)  # generations

    async def run(self) -> None:
        """Until cancelled: small steps, so that nothing else waits long for the disk."""
        while True:
            await trio.sleep(PAUSE_S)
            await self._give_memory_back()
            try:
                await self._scrub()
                await self.collect()
            except StoreError as error:
                log.warning("upkeep put off", fault=error.fault, detail=error.detail)

    async def _give_memory_back(self) -> None:
        """Once an update is over: a document is some times as large in memory while it is judged, and while its files
        are made.
        """
        generations = self.node.store.watch.generation, self.published.value
        if generations != self._given_back_at:
            self._given_back_at = generations
            await self.node.threads.read(give_back_memory)

    async def _scrub(self) -> None:
        step = await self.node.threads.write(self.node.store.scrub.step, self.node.now())
        if step.happened:
            self.node.counters.add("sections_damaged", step.damaged)
            log.error("damage found", scopes=sorted(step.happened))
            await self.node.reload()

    async def collect(self) -> None:
        """A cycle an hour, or as soon as the map fills."""
        node, now = self.node, trio.current_time()
        due = now - self.collected_at >= GARBAGE_EVERY_S
        if not due and await node.threads.read(node.store.fill_level) < CROWDED:
            return
        while not (step := await node.threads.write(node.store.garbage.step)).done:
            node.counters.add("blobs_collected", step.removed)
        self.collected_at = now

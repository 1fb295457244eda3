"""An agent with all its parts and none of its tasks: each is called by itself, on a real store, over real TLS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent import upstream
from agent.base.byte_source import Chunks
from agent.config.token import JoinToken
from agent.enrolment import start
from agent.enrolment.hold import hold_store
from agent.local import local
from agent.local.local import Local
from agent.sources.source import Source
from agent.state.node import RunningNode
from agent.update.admission import AskedDocument, Candidate
from agent.upstream import Upstream
from snapshot.identifiers import HEAD
from store.base.disk import Disk
from tests.fakes.coordinator_server import TOKEN
from tests.journeys.lab import Lab
from wire.messages import JoinGrant


@dataclass
class Bench:
    """`lab` has the coordinator, which runs, the clock and the settings."""

    lab: Lab
    node: RunningNode
    inside: Local
    outside: Upstream
    disk: Disk

    @property
    def server(self):
        return self.lab.server

    @property
    def coordinator(self) -> Source:
        (source,) = self.outside.sources.coordinators()
        return source

    async def enrol(self) -> None:
        """A member with the first trust bundle, and nothing else yet."""
        pair = self.outside.joining.identity.ensure(self.node.settings.node, self.node.now())
        self.server.pins.add(pair.der, self.node.settings.node.node_id)
        grant = JoinGrant("admitted", "coord-1", (self.server.bundles[0],))
        await self.outside.joining.granting.accept(grant, JoinToken(TOKEN))
        self.node.membership.is_member = True

    async def take(self, document) -> None:
        """A document, by the update's own path."""
        envelope = document.envelope
        scope = HEAD if envelope.kind == HEAD else envelope.scope
        asked = AskedDocument(envelope.kind, "bench", scope)
        admission = self.outside.update.admission
        verdict = await admission.receive(Chunks(document.to_bytes()), asked, self.node.holder())
        assert isinstance(verdict, Candidate), verdict
        await self.outside.update.activating.activate([verdict])

    async def settle(self) -> None:
        """Enrolled, the head taken, and everything that it lists active."""
        await self.enrol()
        await self.outside.refresh.ask(self.coordinator)
        await self.outside.update.bring_up()


@asynccontextmanager
async def bench(lab: Lab) -> AsyncIterator[Bench]:
    """On the lab's disk. What was started is ended with the block."""
    held = hold_store(lab.settings, lab.clock.read().wall)
    try:
        opened = start.open_store(lab.settings, held, lab.clock.read())
        node = start.make_node(lab.settings, lab.clock, lab.threads(), opened)
        inside = local.build(lab.settings, node, opened.views, opened.store.paths.temporary / "candidates")
        inside.validators.start()
        outside = upstream.build(node, opened, inside, lambda low, high: high)
        lab.node = node
        try:
            yield Bench(lab, node, inside, outside, opened.root.disk)
        finally:
            await outside.aclose()
    finally:
        held.close()

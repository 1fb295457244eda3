"""What speaks to coordinators and storage, built from the configuration. Loaded once local callers are served."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from agent.config.credentials import NODE_KEY, credential
from agent.enrolment.certificate_ends import CertificateEnds
from agent.enrolment.identity import IdentityFile
from agent.enrolment.joining import Joining
from agent.enrolment.start import OpenedStore
from agent.local.local import Local
from agent.report.heartbeat import Reporting
from agent.sources.sources import Sources
from agent.sources.way import Way
from agent.state.node import RunningNode
from agent.update.admission import Admission
from agent.update.head_proof import Showing
from agent.update.refresh import Refresh
from agent.update.retry_schedule import PutOffs
from agent.update.second_look import SecondLook
from agent.update.trust import TrustChain
from agent.update.update import Update

CLOSE_S = 1.0


@dataclass(frozen=True)
class Upstream:
    joining: Joining
    sources: Sources
    refresh: Refresh
    update: Update
    reporting: Reporting
    certificate_ends: CertificateEnds
    second_look: SecondLook

    @property
    def tasks(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """Each runs until it is cancelled."""
        return (
            self.joining.run,
            self.refresh_heads,
            self.bring_up,
            self.prepare,
            self.look_again,
            self.report,
            self.certificate_ends.run,
        )

    async def aclose(self) -> None:
        """Kept connections go when the agent does, once no task uses them."""
        with trio.CancelScope(shield=True), trio.move_on_after(CLOSE_S):
            await self.sources.aclose()

    def wake(self) -> None:
        """An operator says that it is worth asking now (rules P14, K38)."""
        self.joining.wake()
        self.sources.attend()
        self.update.wake()

    async def refresh_heads(self) -> None:
        """Once we are a member."""
        await self.joining.joined.wait()
        await self.refresh.run()

    async def look_again(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.second_look.run()

    async def report(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.reporting.run()

    async def bring_up(self) -> None:
        """Likewise. What waits in slots, or came as a file, needs no source."""
        await self.joining.joined.wait()
        await self.update.run()

    async def prepare(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.update.preparation.run()


def build(
    node: RunningNode, opened: OpenedStore, local: Local, uniform: Callable[[float, float], float] = random.uniform
) -> Upstream:
    """`uniform` draws the chances by which nodes that failed together do not come back together."""
    paths = opened.store.paths
    identity = IdentityFile(paths.identity, paths.temporary, opened.root.disk, credential(NODE_KEY))
    sources = Sources(node, identity.identity, uniform)
    admission = Admission(node)
    update = Update(node, sources, admission, TrustChain(node, admission), local.validators, put_offs=PutOffs(uniform))
    ends = CertificateEnds(node, identity)
    local.front.begin_to_ask(update, sources, ends.endings)
    local.probation.ask_way_by(Way(node, sources).is_open)
    return Upstream(
        Joining(node, update, identity, uniform, sources.renew, sources.addresses),
        sources,
        Refresh(node, sources, update, Showing(node)),
        update,
        Reporting(
            node,
            sources,
            opened.views,
            lambda: local.services.notified,
            uniform,
            update.preparation.votes,
            local.validators.sees,
        ),
        ends,
        SecondLook(sources, update.trust, uniform),
    )

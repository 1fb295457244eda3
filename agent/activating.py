"""The swap: what becomes active, and what goes, with everything beside it that must follow (rules S67, S3, A9)."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from agent import origins
from agent.admission import Candidate
from agent.node import Node
from agent.origins import Origin
from agent.sources import Sources
from agent.start import REVOKED_ROW
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from store.errors import StoreError
from store.tables import Name

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Activating:
    node: Node
    sources: Sources

    async def activate(self, candidates: Sequence[Candidate]) -> None:
        """All or none, in one transaction; durable when it returns. StoreError."""
        moment = self.node.moment()
        verified = [candidate.verified for candidate in candidates]
        generation = await self.node.change(self.node.store.activate, *verified, now=moment.now, boot=moment.boot)
        await self.sources.forget_removed()  # a transfer may be running meanwhile
        scopes = [one.scope for one in verified]
        self.node.learnt.gaps -= set(scopes)
        self.node.learnt.refresh_required -= set(scopes)
        self.node.counters.add("activations")
        log.info(
            "activated",
            generation=generation,
            scopes=scopes,
            versions=[one.envelope.version for one in verified],
            sources=[candidate.source for candidate in candidates],
        )
        await self._remember_origins(candidates)

    async def _remember_origins(self, candidates: Sequence[Candidate]) -> None:
        """For people (rules L3): what goes wrong here is no fault of the activation."""
        learnt, health = self.node.learnt, self.node.store.table(Name.HEALTH)
        new = {
            one.scope: Origin(one.verified.envelope.snapshot_id, one.source, one.verified.kind) for one in candidates
        }
        learnt.origins = origins.after(learnt.origins, new, self.node.holdings.scopes)
        try:
            await self.node.threads.write(health.put, origins.ROW, origins.row(learnt.origins))
        except StoreError as error:
            log.warning("origins not kept", fault=error.fault, detail=error.detail)

    async def withdraw(self, scopes: Sequence[str]) -> None:
        """The head lists them no more. StoreError."""
        generation = await self.node.change(self.node.store.withdraw, *scopes, now=self.node.now())
        await self.sources.forget_removed()
        log.info("scopes withdrawn", generation=generation, scopes=list(scopes))

    async def let_all_go(self) -> None:
        """This node is revoked: section bytes go; identity, trust, marks and the journal stay (rules A9)."""
        node = self.node
        if not node.learnt.revoked:
            node.learnt.revoked = True
            row = {"at": int(node.now())}
            await node.threads.write(node.store.table(Name.HEALTH).put, REVOKED_ROW, row)
            log.error("this node is revoked: its scopes are let go")
        held = [scope for scope in node.holdings.scopes if scope != TRUST_BUNDLE]
        if held:
            await node.change(node.store.withdraw, *held, now=node.now())
            await node.threads.write(node.store.garbage.run)

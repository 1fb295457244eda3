"""The coordinators of this node: of agent.toml, and those that its accepted `node_bootstrap` lists (rules L15, P25).

What was listed is kept beside the documents, so the set before outlives a restart (endpoint_sets.py decides). A manual
map has no coordinators, and follows none (rules K3).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.state import endpoint_sets
from agent.state.endpoint_sets import ROW, SECTION, EndpointSets, NamedBy
from agent.state.held_state import BOOTSTRAP
from agent.state.node import RunningNode
from store.base.documents import StoredDocument
from store.base.errors import StoreError
from store.base.tables import Name
from wire.endpoint import Endpoint
from wire.logs import log


@dataclass
class Coordinators:
    """`configured`: of agent.toml, in its order."""

    node: RunningNode
    configured: tuple[Endpoint, ...]
    _followed: str = ""  # the document that the sets are of, by its envelope's hash
    _sets: EndpointSets = field(init=False)
    _kept: EndpointSets = field(init=False)  # as the row has them
    _passed_over: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._sets = self._kept = self.node.remembered.endpoints

    def askable(self) -> dict[Endpoint, NamedBy]:
        """All that may be asked now, and who names them; revoked ones may not be, but for those of agent.toml."""
        if self.node.settings.coordinator is None:
            return dict.fromkeys(self.configured, NamedBy.CONFIGURATION)
        revoked = self.node.holdings.revocations.endpoints
        return endpoint_sets.askable(self._sets, self.configured, revoked)

    async def follow(self) -> None:
        """To what the accepted document lists. Without one, the last that was accepted holds."""
        if self.node.settings.coordinator is None:
            return
        self._log_revoked()
        try:
            document = self.node.holdings.kept.active.get(BOOTSTRAP)
            if document is not None and document.envelope_hash != self._followed:
                urls, passed_over = await self.node.threads.read(self._listed_urls, document)
                for error in passed_over:
                    log.warning("coordinator passed over", error=error)
                self._change(lambda before: endpoint_sets.after_move(before, urls))
                self._followed = document.envelope_hash
            await self._keep()
        except StoreError as error:
            log.warning("coordinators not followed", fault=error.fault, detail=error.detail)

    async def note_answer(self, endpoint: Endpoint) -> None:
        """It has, as a coordinator does: the sets before the one that lists it have served."""
        self._change(lambda before: endpoint_sets.after_answer(before, endpoint))
        try:
            await self._keep()
        except StoreError as error:
            log.warning("coordinators not kept", fault=error.fault, detail=error.detail)

    def _listed_urls(self, document: StoredDocument) -> tuple[tuple[str, ...], tuple[str, ...]]:
        section = document.read(SECTION) if SECTION in document.sections else None
        return endpoint_sets.bootstrap_urls(section, self.configured)

    def _change(self, decide: Callable[[EndpointSets], EndpointSets]) -> None:
        before, self._sets = self._sets, decide(self._sets)
        now = self._sets
        if (now.current, now.earlier) != (before.current, before.earlier):
            log.info("coordinators", listed=list(now.current), earlier=list(now.earlier))

    async def _keep(self) -> None:
        """Durable; after a crash before this the same follows from the row and the document. StoreError."""
        sets = self._sets
        if sets != self._kept:
            await self.node.threads.write(self.node.store.table(Name.HEALTH).put, ROW, sets.to_row())
            self._kept = sets

    def _log_revoked(self) -> None:
        """Once for each."""
        sets, asked = self._sets, map(endpoint_sets.url_of, self.askable())
        gone = frozenset((*sets.current, *sets.earlier)).difference(asked)
        for url in sorted(gone - self._passed_over):
            log.warning("coordinator passed over", error=f"{url} is revoked, or not for a signed list")
        self._passed_over = gone

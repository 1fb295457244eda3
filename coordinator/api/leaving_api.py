"""How an operator takes members out: drained, removed, by force (membership/leaving.py), or trimmed (trimming.py)."""

from functools import partial

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.threads import in_database, in_library
from coordinator.membership import leaving, trimming
from coordinator.runtime.context import Coordinator
from coordinator.runtime.trims import follow_trim
from coordinator.trust import restored_backup
from snapshot.identifiers import is_id
from wire.operators.fleet_answers import DrainingNode, NodeNamed, TrimmedNodes, TrimPlan
from wire.operators.operator_messages import ASKED_BYTES, LeavingRequest, TrimRequest
from wire.operators.trust_messages import SUBMISSION_BYTES, ForcedRemoval
from wire.request import Request
from wire.routes import HttpRoute


class LeavingApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        force = for_operators(self.remove_by_force)
        return (
            HttpRoute("POST", "/v1/nodes/{node_id}/drain", for_operators(self.drain)),
            HttpRoute("POST", "/v1/nodes/{node_id}/undrain", for_operators(self.undrain)),
            HttpRoute("POST", "/v1/nodes/{node_id}/remove", for_operators(self.remove)),
            HttpRoute("POST", "/v1/nodes/{node_id}/remove/forced", force, body_bytes=SUBMISSION_BYTES),
            HttpRoute("GET", "/v1/trim", for_operators(self.trim_plan)),
            HttpRoute("POST", "/v1/trim", for_operators(self.trim), body_bytes=ASKED_BYTES),
        )

    async def drain(self, request: Request) -> DrainingNode:
        at, node_id, actor = self._at, parameter(request, "node_id", is_id), request.peer.name
        reason = (await message_of(request, LeavingRequest)).reason
        since = await in_database(leaving.drain, at.database, node_id, reason=reason, actor=actor, now=at.now())
        self._wake()
        return DrainingNode(node_id, since)

    async def undrain(self, request: Request) -> NodeNamed:
        at, node_id, actor = self._at, parameter(request, "node_id", is_id), request.peer.name
        reason = (await message_of(request, LeavingRequest)).reason
        await in_database(leaving.undrain, at.database, node_id, reason=reason, actor=actor, now=at.now())
        self._wake()
        return NodeNamed(node_id)

    async def remove(self, request: Request) -> NodeNamed:
        at, node_id, actor = self._at, parameter(request, "node_id", is_id), request.peer.name
        asked = await message_of(request, LeavingRequest)
        await in_database(leaving.remove, at.database, node_id, reason=asked.reason, actor=actor, now=at.now())
        return await self._cut_off(node_id)

    async def remove_by_force(self, request: Request) -> NodeNamed:
        at, node_id, actor = self._at, parameter(request, "node_id", is_id), request.peer.name
        asked = await message_of(request, ForcedRemoval)
        force = partial(leaving.remove_by_force, reason=asked.reason, despite_reports=asked.despite_reports)
        await in_database(force, at.database, node_id, asked.document, actor=actor, now=at.now())
        async with at.standstill.reading:
            # A raised epoch ends it.
            at.standstill.reason = await in_library(restored_backup.reason, at.database, at.standstill.behind)
            at.publisher.reconsider()
        return await self._cut_off(node_id)

    async def trim_plan(self, _request: Request) -> TrimPlan:
        at = self._at
        return await in_library(partial(trimming.plan, now=at.now(), settings=at.settings), at.database)

    async def trim(self, request: Request) -> TrimmedNodes:
        """What this replica has noted in the last minute counts; nobody goes who is not due by now."""
        at, actor = self._at, request.peer.name
        asked = await message_of(request, TrimRequest)
        await at.seen.write()
        named = partial(trimming.trim_these, actor=actor, now=at.now(), settings=at.settings)
        gone = await in_database(named, at.database, asked.node_ids)
        await follow_trim(at, gone)
        return TrimmedNodes(gone)

    async def _cut_off(self, node_id: str) -> NodeNamed:
        self._wake()
        await self._at.pins.follow(node_id)  # its open connections end (threats M07)
        self._at.board.forget(node_id)
        return NodeNamed(node_id)

    def _wake(self) -> None:
        self._at.rollouts.wake()
        self._at.publisher.wake()

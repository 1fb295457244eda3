"""Which coordinators the cluster has, as an operator asks."""

from functools import partial

from coordinator.api.operator_route import for_operators, parameter
from coordinator.base.threads import in_database, in_library
from coordinator.membership import replicas
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import is_id
from wire.operators.operator_answers import RemovedReplica, ReplicaList
from wire.request import Request
from wire.routes import HttpRoute


class ReplicaApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/coordinators", for_operators(self.list_replicas)),
            HttpRoute("DELETE", "/v1/coordinators/{coordinator_id}", for_operators(self.remove)),
        )

    async def list_replicas(self, _request: Request) -> ReplicaList:
        found = await in_library(replicas.list_replicas, self._at.database)
        return ReplicaList(self._at.coordinator_id, tuple(found))

    async def remove(self, request: Request) -> RemovedReplica:
        at, name = self._at, parameter(request, "coordinator_id", is_id)
        removed = partial(replicas.remove, answering=at.coordinator_id, actor=request.peer.name, now=at.now())
        await in_database(removed, at.database, name)
        return RemovedReplica(name)

"""Which coordinators the cluster has, as an operator asks."""

from functools import partial

from coordinator.api.operator_route import for_operators, parameter
from coordinator.base.threads import in_database, in_library
from coordinator.database import history
from coordinator.database.database import Database
from coordinator.membership import replica_reports, replicas
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import is_id
from wire.operators.operator_answers import RemovedReplica, ReplicaList, ReplicaStandings
from wire.request import Request
from wire.routes import HttpRoute


class ReplicaApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/coordinators", for_operators(self.list_replicas)),
            HttpRoute("GET", "/v1/coordinators/status", for_operators(self.standings)),
            HttpRoute("DELETE", "/v1/coordinators/{coordinator_id}", for_operators(self.remove)),
        )

    async def list_replicas(self, _request: Request) -> ReplicaList:
        found = await in_library(replicas.list_replicas, self._at.database)
        return ReplicaList(self._at.coordinator_id, tuple(found))

    async def standings(self, _request: Request) -> ReplicaStandings:
        """What each of them has said last, and what is wrong."""
        at = self._at
        return await in_library(_standings, at.database, at.standstill.history, at.coordinator_id, at.now())

    async def remove(self, request: Request) -> RemovedReplica:
        at, name = self._at, parameter(request, "coordinator_id", is_id)
        removed = partial(replicas.remove, answering=at.coordinator_id, actor=request.peer.name, now=at.now())
        await in_database(removed, at.database, name)
        return RemovedReplica(name)


def _standings(database: Database, fault: str, answering: str, now: float) -> ReplicaStandings:
    newest, manifest = history.newest_manifest(database)
    judged = (replica_reports.judge(heard, now, newest) for heard in replica_reports.all_of(database))
    return ReplicaStandings(
        answering=answering,
        now=now,
        history=history.describe(database, fault),
        newest=newest,
        manifest=manifest,
        coordinators=tuple(standing for standing in judged if standing is not None),
    )

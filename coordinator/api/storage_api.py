"""How the declared stores stand, as an operator asks (docs/admin-api.md)."""

from functools import partial

from coordinator.api.operator_route import for_operators
from coordinator.base.threads import in_library
from coordinator.runtime.context import Coordinator
from coordinator.storage.standings import read_standings
from wire.operators.operator_answers import StorageStandings
from wire.request import Request
from wire.routes import HttpRoute


class StorageApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (HttpRoute("GET", "/v1/storage", for_operators(self.standings)),)

    async def standings(self, _request: Request) -> StorageStandings:
        at = self._at
        read = partial(read_standings, is_repeated=not at.database.is_sqlite)
        return await in_library(read, at.database, at.coordinator_id, at.storages.ways.endpoint_ids, at.now())

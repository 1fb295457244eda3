"""Who may come in over TLS: asked on the Unix socket, listed anywhere (protocol 2)."""

from functools import partial

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.threads import in_database, in_library
from coordinator.membership import operators
from coordinator.runtime.context import Coordinator
from coordinator.runtime.remote_admin import Door
from snapshot.identifiers import is_id
from wire.operators.operator_answers import Operator, OperatorList, RemovedOperator
from wire.operators.operator_messages import CertificateRequest, RoleRequest
from wire.operators.operator_roles import OperatorRole
from wire.request import Request
from wire.routes import HttpRoute


class OperatorApi:
    def __init__(self, coordinator: Coordinator, door: Door) -> None:
        self._at = coordinator
        self._door = door

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/operators", for_operators(self.list_operators)),
            HttpRoute("POST", "/v1/operators/{name}", for_operators(self.add)),
            HttpRoute("DELETE", "/v1/operators/{name}", for_operators(self.remove)),
            HttpRoute("POST", "/v1/operators/{name}/role", for_operators(self.set_role)),
        )

    async def list_operators(self, _request: Request) -> OperatorList:
        return OperatorList(tuple(await in_library(operators.list_operators, self._at.database)))

    async def add(self, request: Request) -> Operator:
        name, asked = parameter(request, "name", is_id), await message_of(request, CertificateRequest)
        add = partial(operators.add, role=OperatorRole(asked.role), actor=request.peer.name, now=self._at.now())
        added = await in_database(add, self._at.database, name, asked.certificate)
        await self._door.load()
        return added

    async def set_role(self, request: Request) -> Operator:
        """Connections stay: each request is held against the table."""
        name, asked = parameter(request, "name", is_id), await message_of(request, RoleRequest)
        change = partial(operators.set_role, actor=request.peer.name, now=self._at.now())
        return await in_database(change, self._at.database, name, OperatorRole(asked.role))

    async def remove(self, request: Request) -> RemovedOperator:
        """The operator's open connections end now (threats M07)."""
        name = parameter(request, "name", is_id)
        await in_database(operators.remove, self._at.database, name, actor=request.peer.name, now=self._at.now())
        await self._door.load()
        return RemovedOperator(name)

"""The exchange of the coordinators' CA, as an operator asks for it (membership/ca_exchange.py)."""

from functools import partial

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.threads import in_database, in_library
from coordinator.membership import ca_exchange
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import is_hash
from wire.operators.operator_answers import AuthorityExchange
from wire.operators.operator_messages import AuthorityRequest, CancelRequest, FinishRequest
from wire.request import Request
from wire.routes import HttpRoute


class CaApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/coordinators/ca", for_operators(self.status)),
            HttpRoute("POST", "/v1/coordinators/ca/begin", for_operators(self.begin)),
            HttpRoute("POST", "/v1/coordinators/ca/finish", for_operators(self.finish)),
            HttpRoute("POST", "/v1/coordinators/ca/cancel", for_operators(self.cancel)),
            HttpRoute("DELETE", "/v1/coordinators/ca/{fingerprint}", for_operators(self.drop)),
        )

    async def status(self, _request: Request) -> AuthorityExchange:
        return await in_library(ca_exchange.status, self._at.database)

    async def begin(self, request: Request) -> AuthorityExchange:
        at, asked = self._at, await message_of(request, AuthorityRequest)
        begin = partial(ca_exchange.begin, actor=request.peer.name, now=at.now())
        found = await in_database(begin, at.database, at.shown.authorities, asked.certificate, asked.others)
        at.publisher.wake()
        return found

    async def finish(self, request: Request) -> AuthorityExchange:
        at, asked = self._at, await message_of(request, FinishRequest)
        finish = partial(
            ca_exchange.finish, despite_unconfirmed=asked.despite_unconfirmed, actor=request.peer.name, now=at.now()
        )
        found = await in_database(finish, at.database)
        at.publisher.wake()
        return found

    async def cancel(self, request: Request) -> AuthorityExchange:
        at, _ = self._at, await message_of(request, CancelRequest)
        found = await in_database(ca_exchange.cancel, at.database, actor=request.peer.name, now=at.now())
        at.publisher.wake()
        return found

    async def drop(self, request: Request) -> AuthorityExchange:
        at, fingerprint = self._at, parameter(request, "fingerprint", is_hash)
        found = await in_database(ca_exchange.drop, at.database, fingerprint, actor=request.peer.name, now=at.now())
        at.publisher.wake()
        return found

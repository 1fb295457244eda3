"""The exchange of the coordinators' CA, as an operator asks for it (membership/ca_exchange.py)."""

from functools import partial

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database import history
from coordinator.keys import derived_authority
from coordinator.membership import ca_exchange
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import is_hash
from wire.certificate import Certificate
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
        ca = asked.certificate or await in_library(_derive_next, at)
        begin = partial(ca_exchange.begin, actor=request.peer.name, now=at.now())
        found = await in_database(begin, at.database, at.shown.authorities, ca, asked.others)
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


def _derive_next(at: Coordinator) -> bytes:
    """The CA of the next generation, DER: each coordinator has its key."""
    seed = at.secrets.seed()
    if seed is None:
        remedy = f"give a CA of your own (--to DIRECTORY), or, stopped: {history.BEGIN}"
        raise Refused(Code.NO_STATE, "this coordinator has no seed that a CA could follow from", remedy=remedy)
    known = (*at.shown.authorities, *map(Certificate.read, ca_exchange.listed_authorities(at.database)))
    return derived_authority.make_next(seed, known, at.cluster_id, at.now()).der

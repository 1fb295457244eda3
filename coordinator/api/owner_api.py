"""Owners of shares of the seed, as an operator asks (membership/seed_shares.py)."""

import os

from coordinator.api.operator_route import for_operators, message_of
from coordinator.base.threads import in_database, in_library
from coordinator.keys import seed as seeds
from coordinator.membership import seed_shares
from coordinator.runtime.context import Coordinator
from wire.operators.trust_answers import SeedShares
from wire.operators.trust_messages import SeedSharesRequest
from wire.request import Request
from wire.routes import HttpRoute


class OwnerApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (HttpRoute("POST", "/v1/coordinators/shares", for_operators(self.seal_shares)),)

    async def seal_shares(self, request: Request) -> SeedShares:
        at, _ = self._at, await message_of(request, SeedSharesRequest)
        seed = await in_library(seeds.load, at.keys_directory, os.environ)
        made = await in_database(seed_shares.seal_all, at.database, seed, actor=request.peer.name, now=at.now())
        return SeedShares(made)

"""Owners of shares of the seed: their shares (membership/seed_shares.py), and what one of them brings
(runtime/owner_recovering.py).
"""

from coordinator.api.operator_route import for_operators, message_of
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database import history_manifest
from coordinator.keys.seed_recovery import BroughtSeed
from coordinator.membership import owner_recovery, seed_shares
from coordinator.runtime import owner_recovering
from coordinator.runtime.context import Coordinator
from wire.operators.trust_answers import DraftedRequest, RecoveryStanding, SeedShares
from wire.operators.trust_messages import SeedRecovery, SeedSharesRequest
from wire.request import Request
from wire.routes import HttpRoute


class OwnerApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("POST", "/v1/coordinators/shares", for_operators(self.seal_shares)),
            HttpRoute("GET", "/v1/coordinators/recover", for_operators(self.standing)),
            HttpRoute("POST", "/v1/coordinators/recover", for_operators(self.recover)),
        )

    async def seal_shares(self, request: Request) -> SeedShares:
        at, _ = self._at, await message_of(request, SeedSharesRequest)
        seed = await in_library(at.secrets.seed)
        made = await in_database(seed_shares.seal_all, at.database, seed, actor=request.peer.name, now=at.now())
        return SeedShares(made)

    async def standing(self, _request: Request) -> RecoveryStanding:
        at, found = self._at, await owner_recovering.look(self._at)
        content = found.manifest.content
        return RecoveryStanding(
            cluster_id=at.cluster_id,
            coordinator_id=at.coordinator_id,
            manifest=owner_recovery.manifest_hash(found.manifest),
            lacks=found.lacks,
            owners=tuple(sorted(history_manifest.owners_of(content))),
        )

    async def recover(self, request: Request) -> DraftedRequest:
        """What comes back signed is brought in as a set: this coordinator is ready by it."""
        asked = await message_of(request, SeedRecovery)
        if fault := self._at.publisher.clock_fault():  # root keys sign no date of a clock that has just leapt ahead
            raise Refused(Code.CLOCK_JUMPED, fault.partition(": ")[2])
        brought = BroughtSeed(asked.owner, asked.manifest, asked.seed, asked.salt, asked.signature)
        made = await owner_recovering.recover(
            self._at, brought, is_forced=asked.force, despite_reports=asked.despite_reports
        )
        return DraftedRequest(made.about, tuple(made.changes()), made.to_text())

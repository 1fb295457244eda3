"""What an operator asks of keys and ceremonies, on the Unix socket: requests for root keys to sign, and their dates."""

from functools import partial

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_library
from coordinator.runtime.context import Coordinator
from coordinator.trust import request_builder, trust_changes
from coordinator.trust.signing_requests import SigningRequest
from snapshot.identifiers import is_id, parse_scope
from wire.operators.trust_answers import DraftedRequest, PublishedVersions, Rotation, UnprovenReport
from wire.operators.trust_messages import BundleDraftRequest, RecoveryDraftRequest
from wire.request import Request
from wire.routes import HttpRoute


def is_scope(value: object) -> bool:
    try:
        parse_scope(value)
    except ValueError:
        return False
    return True


class CeremonyApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/rotation", for_operators(self.rotation)),
            HttpRoute("GET", "/v1/nodes/{node_id}/versions/{scope}", for_operators(self.versions)),
            HttpRoute("POST", "/v1/trust/requests", for_operators(self.bundle_request)),
            HttpRoute("POST", "/v1/recoveries/requests", for_operators(self.recovery_request)),
        )

    async def rotation(self, _request: Request) -> Rotation:
        at = self._at
        return await in_library(request_builder.rotation, at.database, at.settings, at.now())

    async def versions(self, request: Request) -> PublishedVersions:
        node_id, scope = parameter(request, "node_id", is_id), parameter(request, "scope", is_scope)
        found = await in_library(request_builder.versions, self._at.database, node_id, scope)
        return PublishedVersions(tuple(found))

    async def bundle_request(self, request: Request) -> DraftedRequest:
        """Nothing is changed by asking; what is signed comes back by POST /v1/trust."""
        at, asked = self._at, await message_of(request, BundleDraftRequest)
        self._check_clock()
        wished = trust_changes.wishes_of(asked, at.now())
        draft = partial(request_builder.bundle_request, despite_reports=asked.despite_reports)
        made = await in_library(draft, at.database, wished, at.settings, at.now())
        reports = await in_library(request_builder.unproven, at.database)
        return _answer(made, *(UnprovenReport(report.node_id, report.greatest) for report in reports))

    async def recovery_request(self, request: Request) -> DraftedRequest:
        at, asked = self._at, await message_of(request, RecoveryDraftRequest)
        self._check_clock()
        wanted = asked.node_id, asked.scope, asked.to_config_version
        recovery = partial(request_builder.recovery_request, at.database, *wanted)
        return _answer(await in_library(recovery, at.settings, at.now()))

    def _check_clock(self) -> None:
        """Root keys sign no date of a clock that has just leapt ahead (clock_jump.py)."""
        fault = self._at.publisher.clock_fault()
        if fault:
            raise Refused(Code.CLOCK_JUMPED, fault.partition(": ")[2])


def _answer(made: SigningRequest, *reports: UnprovenReport) -> DraftedRequest:
    return DraftedRequest(made.about, tuple(made.changes()), made.to_text(), reports)

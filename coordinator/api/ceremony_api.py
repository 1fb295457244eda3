"""What an operator asks of keys and ceremonies, on the Unix socket: requests for root keys to sign, and their dates."""

from dataclasses import asdict
from functools import partial

from coordinator.api.operator_route import body_of, for_operators, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.requests import BodyMember, number_in, text_in
from coordinator.base.threads import in_library
from coordinator.runtime.context import Coordinator
from coordinator.trust import request_builder, trust_changes
from coordinator.trust.signing_requests import SigningRequest
from snapshot.identifiers import is_id, is_integer, parse_scope
from wire.request import Request
from wire.routes import HttpRoute


def is_scope(value: object) -> bool:
    try:
        parse_scope(value)
    except ValueError:
        return False
    return True


_WISHES = {
    "wishes": BodyMember(lambda value: isinstance(value, list), required=False),
    "despite_reports": BodyMember(lambda value: isinstance(value, bool), required=False),
}
_RECOVERY = {"node_id": BodyMember(is_id), "scope": BodyMember(is_scope), "to_config_version": BodyMember(is_integer)}


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

    async def rotation(self, _request: Request) -> object:
        at = self._at
        return await in_library(request_builder.rotation, at.database, at.settings, at.now())

    async def versions(self, request: Request) -> object:
        node_id, scope = parameter(request, "node_id", is_id), parameter(request, "scope", is_scope)
        found = await in_library(request_builder.versions, self._at.database, node_id, scope)
        return {"versions": [asdict(each) for each in found]}

    async def bundle_request(self, request: Request) -> object:
        """Nothing is changed by asking; what is signed comes back by POST /v1/trust."""
        at, body = self._at, await body_of(request, _WISHES)
        self._believed()
        wished = trust_changes.parse(body.get("wishes", []), at.now())
        draft = partial(request_builder.bundle_request, despite_reports=body.get("despite_reports") is True)
        made = await in_library(draft, at.database, wished, at.settings, at.now())
        reports = await in_library(request_builder.unproven, at.database)
        return _answer(made) | {"reports": [{"node_id": one.node_id, "version": one.greatest} for one in reports]}

    async def recovery_request(self, request: Request) -> object:
        at, body = self._at, await body_of(request, _RECOVERY)
        self._believed()
        node_id, scope, version = text_in(body, "node_id"), text_in(body, "scope"), number_in(body, "to_config_version")
        recovery = partial(request_builder.recovery_request, at.database, node_id, scope, version)
        return _answer(await in_library(recovery, at.settings, at.now()))

    def _believed(self) -> None:
        """Root keys sign no date of a clock that has just leapt ahead (clock_jump.py)."""
        fault = self._at.publisher.clock_fault()
        if fault:
            raise Refused(Code.CLOCK_JUMPED, fault.partition(": ")[2])


def _answer(made: SigningRequest) -> dict[str, object]:
    return {"about": made.about, "changes": made.changes(), "request": made.to_text()}

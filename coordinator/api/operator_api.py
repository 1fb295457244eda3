"""Who may come in over TLS: asked on the Unix socket, listed anywhere (protocol 2)."""

import base64
import binascii
from dataclasses import asdict

from coordinator.api.operator_route import body_of, for_operators, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.requests import BodyMember, is_text, text_in
from coordinator.base.threads import in_database, in_library
from coordinator.membership import operators
from coordinator.runtime.context import Coordinator
from coordinator.runtime.remote_admin import Door
from snapshot.identifiers import is_id
from wire.request import Request
from wire.routes import HttpRoute

_CERTIFICATE = {"certificate": BodyMember(is_text(16 << 10))}


class OperatorApi:
    def __init__(self, coordinator: Coordinator, door: Door) -> None:
        self._at = coordinator
        self._door = door

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/operators", for_operators(self.listed)),
            HttpRoute("POST", "/v1/operators/{name}", for_operators(self.add)),
            HttpRoute("DELETE", "/v1/operators/{name}", for_operators(self.remove)),
        )

    async def listed(self, _request: Request) -> object:
        found = await in_library(operators.listed, self._at.database)
        return {"operators": [asdict(each) for each in found]}

    async def add(self, request: Request) -> object:
        name, body = parameter(request, "name", is_id), await body_of(request, _CERTIFICATE)
        der, now = _der(text_in(body, "certificate")), self._at.now()
        added = await in_database(operators.add, self._at.database, name, der, actor=request.peer.name, now=now)
        await self._door.load()
        return asdict(added)

    async def remove(self, request: Request) -> object:
        """The operator's open connections end now (threats M07)."""
        name = parameter(request, "name", is_id)
        await in_database(operators.remove, self._at.database, name, actor=request.peer.name, now=self._at.now())
        await self._door.load()
        return {"name": name}


def _der(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise Refused(Code.BAD_REQUEST, "the certificate is not base64", remedy="send its DER in base64") from error

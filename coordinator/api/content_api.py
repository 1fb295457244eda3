"""Contents of declared files, uploaded before the apply that names them: what is missing, and nothing else, in parts.

A body is kept whole or not at all, and declares nothing: an upload that breaks off has changed nothing, and is taken up
where it was. Parts come many in a body (part_bodies.py), or one by its hash, as a shell does it.
"""

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_planner
from coordinator.configs import part_bodies
from coordinator.configs.part_bodies import BODY_BYTES, MEDIA_TYPE
from coordinator.database import uploads
from coordinator.database.uploads import PART_BYTES
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import is_hex_digest
from wire.operators.operator_answers import KeptPart, KeptParts, MissingParts
from wire.operators.operator_messages import ASKED_BYTES, MissingRequest
from wire.request import Request
from wire.routes import HttpRoute

_OCTETS = "application/octet-stream"
_BODY_S = 120.0  # at 35 KiB/s, a few MiB; who sends nothing for a while is ended long before (wire/limits.py)


class ContentApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        asked = HttpRoute("POST", "/v1/contents/missing", for_operators(self.missing), body_bytes=ASKED_BYTES)
        many = HttpRoute(
            "POST", "/v1/contents", for_operators(self.add_many), body_bytes=BODY_BYTES, deadline_s=_BODY_S
        )
        return (
            asked,
            many,
            HttpRoute("PUT", "/v1/contents/{sha256}", for_operators(self.add), body_bytes=PART_BYTES),
        )

    async def missing(self, request: Request) -> MissingParts:
        """Those of some parts that are not kept; the others are kept for another day."""
        asked = await message_of(request, MissingRequest)
        found = await in_database(uploads.missing, self._at.database, asked.sha256, now=self._at.now())
        return MissingParts(tuple(found))

    async def add_many(self, request: Request) -> KeptParts:
        if request.header("content-type") != MEDIA_TYPE:
            raise Refused(Code.BAD_REQUEST, "these are no parts", remedy=f"send them as {MEDIA_TYPE}")
        body = await request.body()
        try:
            parts = await in_planner(part_bodies.split, body)
        except ValueError as error:
            raise Refused(Code.BAD_REQUEST, str(error), remedy="read the files again, and repeat") from error
        await in_database(uploads.add_all, self._at.database, parts, now=self._at.now())
        return KeptParts(len(parts))

    async def add(self, request: Request) -> KeptPart:
        sha256 = parameter(request, "sha256", is_hex_digest)
        if request.header("content-type") != _OCTETS:
            raise Refused(Code.BAD_REQUEST, "a part is bytes", remedy=f"send it as {_OCTETS}")
        value = await request.body()
        await in_database(uploads.add, self._at.database, sha256, value, now=self._at.now())
        return KeptPart(sha256)

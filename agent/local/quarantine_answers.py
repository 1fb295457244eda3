"""Content that failed its probation here: which, and that a person lets it be tried again. For root and the agent's own
account, as all that changes what the node does (protocol.md 4).
"""

from collections.abc import Sequence
from typing import Protocol

from agent.access.access import may_administer
from snapshot.frozen import frozen
from snapshot.identifiers import format_time
from store.base.records import FailedContent
from wire.local.local_answers import QuarantinedContent, QuarantineList
from wire.messages import BadMessageError, ClearQuarantine
from wire.peer import UnixPeer
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute

BODY_BYTES = 8 * 1024


class QuarantineBackend(Protocol):
    async def list_quarantine(self) -> Sequence[FailedContent]:
        """The oldest first."""

    async def clear_quarantine(self, scope: str, by: str) -> Sequence[FailedContent]:
        """What was in it; it is asked for again if the head lists it. HttpError."""


@frozen
class QuarantineAnswers:
    node: QuarantineBackend

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/quarantine", self.show),
            HttpRoute("POST", "/v1/quarantine/clear", self.clear, body_bytes=BODY_BYTES),
        )

    async def show(self, request: Request) -> Response:
        _require_administrator(request)
        return _answer(await self.node.list_quarantine())

    async def clear(self, request: Request) -> Response:
        peer = _require_administrator(request)
        try:
            asked = ClearQuarantine.parse(await request.body())
        except BadMessageError as error:
            raise HttpError(400, "bad_request", str(error)) from error
        return _answer(await self.node.clear_quarantine(asked.scope, f"uid {peer.uid}"))


def _require_administrator(request: Request) -> UnixPeer:
    peer = request.peer
    if not isinstance(peer, UnixPeer) or not may_administer(peer):
        raise HttpError(403, "forbidden", "the quarantine is for root and the agent's own account")
    return peer


def _answer(held: Sequence[FailedContent]) -> Response:
    entries = (
        QuarantinedContent(**{**vars(entry), "at": format_time(int(entry.at))})
        for entry in sorted(held, key=lambda entry: entry.at)
    )
    return Response.json(QuarantineList(tuple(entries)).to_value())

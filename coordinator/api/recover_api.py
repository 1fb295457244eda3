"""What a coordinator answers another one (membership/peer_recovery.py): nothing but the secrets of their manifest.

On a listener of its own, which lets in the identities that the manifest pins and nobody else.
"""

from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from coordinator.api.operator_route import message_of
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_library
from coordinator.membership import peer_recovery
from coordinator.membership.recover_messages import PATH, RecoverRequest
from coordinator.runtime.context import Coordinator, to_peer, unavailable
from wire.logs import log
from wire.peer import TlsPeer
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes


class RecoverApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def peer_routes(self) -> Routes:
        return Routes(HttpRoute("POST", PATH, self.recover))

    async def recover(self, request: Request) -> Response:
        at, peer = self._at, request.peer
        if not isinstance(peer, TlsPeer):
            raise HttpError(403, Code.PERMISSION_DENIED.value, "only coordinators may ask here")
        try:
            self._check_ready()
            asked = await message_of(request, RecoverRequest)
            seed = await in_library(at.secrets.seed)
            hand_over = partial(peer_recovery.hand_over, at.database, peer.node_id, peer.fingerprint, asked.nonce)
            answer = await in_library(hand_over, seed, at.publisher.keys)
            await in_database(partial(peer_recovery.note, at.database, peer.node_id, peer.fingerprint, now=at.now()))
        except Refused as refused:
            log.warning("nothing was handed over", coordinator=peer.node_id, reason=str(refused))
            raise to_peer(refused) from refused
        except SQLAlchemyError as error:
            raise unavailable(error) from error
        log.info("secrets of the manifest handed over", coordinator=peer.node_id)
        return Response.json(answer.to_value())

    def _check_ready(self) -> None:
        """Before anything is read or sent (rules H46)."""
        if self._at.standstill.why:
            raise Refused(Code.STALE_STATE, self._at.standstill.why)

"""The admin listener over TLS: who comes in there, and what is not done from afar (protocol 2).

TLS knows the certificates of the operators in the database and nobody else's; each request is then held against the
database once more, so that whoever was removed on another replica, whose certificate has expired since, or who has
another role by now, is told so. What the role does not cover (route_roles.py) is refused, and stands in the audit log.
What gives power over the machine itself stays on its Unix socket.
"""

from collections.abc import Callable, Mapping
from functools import partial

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.membership import operators
from coordinator.runtime import route_roles
from coordinator.runtime.context import to_operator, unavailable
from wire.certificate import fingerprint
from wire.logs import log
from wire.peer import OperatorPeer, PinState
from wire.pins import PinTable
from wire.request import HttpError, Request, Response
from wire.routes import Handler, HttpRoute
from wire.shedding import Rate

# Who may come in is decided by root alone; and files of the machine are written for root alone.
LOCAL_ONLY = frozenset(
    {
        ("POST", "/v1/operators/{name}"),
        ("DELETE", "/v1/operators/{name}"),
        ("POST", "/v1/operators/{name}/role"),
        ("POST", "/v1/publish"),
    }
)

NOTED_S = 60.0  # of one operator and route: who asks without end fills no audit log


class Door:
    """Keeps `table` at what the database says. `now` reads the clock, in Unix seconds."""

    def __init__(self, database: Database, table: PinTable, now: Callable[[], float]) -> None:
        self.table = table
        self._database = database
        self._now = now
        self._loading = trio.Lock()
        self._noted = Rate(1, NOTED_S)

    async def load(self) -> None:
        """Whoever is an operator no more loses the open connections now."""
        async with self._loading:  # or what was read first might be written last
            self._bring_to(await in_library(operators.names_by_certificate, self._database))

    async def look(self) -> None:
        """The same, and a database that does not answer ends nothing: requests are refused meanwhile, too."""
        try:
            await self.load()
        except SQLAlchemyError as error:
            log.error("operators not read", reason=line_of(error))  # noqa: TRY400 - no trace needed

    async def keep(self, every_s: float) -> None:
        """What other replicas have changed, until cancelled."""
        while True:
            await trio.sleep(every_s)
            await self.look()

    def guard(self, route: HttpRoute) -> Handler:
        """The route's handler, for operators who may and for what may be asked from afar."""

        async def handler(request: Request) -> Response:
            peer = request.peer
            if not isinstance(peer, OperatorPeer):
                raise HttpError(403, Code.PERMISSION_DENIED.value, "only operators may ask here")
            try:
                await self._check(peer, route)
            except Refused as refused:
                raise to_operator(refused) from refused
            except SQLAlchemyError as error:
                raise unavailable(error) from error
            if (route.method, route.template) in LOCAL_ONLY:
                log.warning("not done from afar", operator=peer.operator, method=route.method, route=route.template)
                remedy = "run it on the coordinator's machine, over its admin socket"
                raise HttpError(403, Code.LOCAL_ONLY.value, f"this is not done from afar ({remedy})")
            return await route.handler(request)

        return handler

    async def _check(self, peer: OperatorPeer, route: HttpRoute) -> None:
        """Whether it is an operator still, and one who may ask this."""
        role = await in_library(operators.check, self._database, peer.operator, peer.fingerprint, self._now())
        try:
            operators.check_role(peer.operator, role, route_roles.role_for(route))
        except Refused as refused:
            asked = route_roles.name_of(route)
            log.warning("beyond the role", operator=peer.operator, role=str(role), asked=asked)
            if self._noted.wait_s((peer.operator, asked), trio.current_time()) is None:
                note = partial(operators.note_refusal, now=self._now())
                await in_database(note, self._database, peer.operator, asked, refused)
            raise

    def _bring_to(self, wanted: Mapping[bytes, str]) -> None:
        names = {fingerprint(der): name for der, name in wanted.items()}
        for pin in self.table:
            if names.get(pin.fingerprint) != pin.node_id:
                self.table.remove(pin.fingerprint)
        for error in self.table.bring_to((der, name, PinState.ACTIVE) for der, name in wanted.items()):
            log.error("certificate of an operator not pinned", reason=error.reason.value, detail=str(error))

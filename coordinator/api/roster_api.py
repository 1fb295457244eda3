"""The members, as an operator asks for them: by pages, by site, label and state, and one in whole."""

from coordinator.api.operator_route import for_operators, parameter, write_answer
from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_library, in_planner
from coordinator.database.database import Database
from coordinator.fleet import roster
from coordinator.fleet.selection import Selection, labels_of
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import is_id
from wire.operators.fleet_answers import MemberDetail
from wire.request import Request, Response
from wire.routes import HttpRoute


class RosterApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/nodes", for_operators(self.list_nodes)),
            HttpRoute("GET", "/v1/nodes/{node_id}", for_operators(self.show_node)),
        )

    async def list_nodes(self, request: Request) -> Response:
        after, most = request.query_one("after"), request.query_integer("most", roster.MOST, 1, roster.MOST)
        if after is not None and not is_id(after):
            raise Refused(Code.BAD_REQUEST, "`after` is a node's id")
        at = self._at
        return await in_planner(_page, at.database, selection(request), after or "", most, at.now(), at.settings)

    async def show_node(self, request: Request) -> MemberDetail:
        node_id, at = parameter(request, "node_id", is_id), self._at
        return await in_library(roster.show, at.database, node_id, now=at.now(), settings=at.settings)


def selection(request: Request) -> Selection:
    """`?site=ID&label=name=value&state=STATE`, the label as often as there are labels."""
    labels = labels_of(request.query_all("label"))
    return Selection(request.query_one("site"), labels, request.query_one("state"))


def _page(
    database: Database, which: Selection, after: str, most: int, now: float, settings: CoordinatorSettings
) -> Response:
    """Written out here: a page of a thousand is too much for the event loop."""
    return write_answer(roster.page(database, which, after=after, most=most, now=now, settings=settings))

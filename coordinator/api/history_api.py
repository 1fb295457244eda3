"""What an operator asks about the history: whether it, and what it proves, is as it was linked (docs/admin-api.md)."""

from coordinator.api.operator_route import for_operators, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_library
from coordinator.database import history_check
from coordinator.database.history_check import CheckedPart
from coordinator.runtime.context import Coordinator
from wire.operators.operator_answers import AuditProof, ComparedTable, HistoryFault
from wire.request import Request
from wire.routes import HttpRoute

COMPARE_S = 600.0  # of all versions that were ever published


class HistoryApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        compare = for_operators(self.compare)
        return (
            HttpRoute("GET", "/v1/audit/verify", for_operators(self.verify)),
            HttpRoute("GET", "/v1/audit/verify/{table}", compare, deadline_s=COMPARE_S),
        )

    async def verify(self, request: Request) -> AuditProof:
        """One page of the history, from the oldest link that is kept; `after` is the `next` of the page before."""
        given = request.query_one("after")
        try:
            cursor = None if given is None else history_check.cursor_of(given)
        except ValueError as error:
            raise Refused(Code.BAD_REQUEST, "`after` is no `next` of a page") from error
        return _answer(await in_library(history_check.verify, self._at.database, cursor))

    async def compare(self, request: Request) -> ComparedTable:
        """Whether a table is as the newest link has it: all of its rows are read, in one view."""
        table = parameter(request, "table", lambda name: name in history_check.COMPARED)
        return ComparedTable(table, await in_library(history_check.compare, self._at.database, table))


def _answer(part: CheckedPart) -> AuditProof:
    return AuditProof(
        next=None if part.next is None else history_check.text_of(part.next),
        oldest=part.oldest,
        newest=part.newest,
        links=part.links,
        rows=part.rows,
        since=part.since,
        until=part.until,
        unlinked=part.unlinked,
        faults=tuple(HistoryFault(fault.number, fault.what, fault.audit_id, fault.at) for fault in part.faults),
        notes=tuple(part.notes),
        tables=history_check.COMPARED,
    )

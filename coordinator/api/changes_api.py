"""What an operator asks of changes: which there are, how far one is, and what a person decides of it (docs/changes.md).

Whoever waits for a change holds a request: it is answered when something is new, or after a while. The database is
asked what there is, twice a second and cheaply, since another coordinator may have decided; of many who wait the later
ones are answered at once, and come again.
"""

from dataclasses import replace
from functools import partial
from typing import Protocol

import trio

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.base.threads import in_database, in_library, in_planner
from coordinator.changes import records
from coordinator.changes.records import ChangeRecord
from coordinator.changes.states import ChangeState
from coordinator.database.database import Database
from coordinator.fleet import change_view
from coordinator.rollout import approvals, commands
from coordinator.rollout.rollout import BY_OPERATOR
from coordinator.runtime.context import Coordinator
from wire import forms
from wire.operators.change_answers import ChangeDetail, ChangeDiff, ChangeList, ChangeNews, ChangeSummary
from wire.operators.operator_messages import ApprovalRequest, ReasonRequest, RevertRequest
from wire.request import Request
from wire.routes import HttpRoute

MOST = 1_000  # changes in one answer
LISTED = 50
LOOKS, LOOK_S = 50, 0.5
NEWS_S = 1.0  # between two answers: each reads all nodes of the change, and while they vote there is always something
DEADLINE_S = 90.0
WAITING = 8  # at a time
_MARK = forms.text(128)


class Deciding(Protocol):
    """What a person decides of a change, and why."""

    def __call__(self, database: Database, change_id: int, reason: str, *, actor: str, now: float) -> ChangeRecord: ...


class ChangesApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator
        self._waiting = 0

    def routes(self) -> tuple[HttpRoute, ...]:
        wait = HttpRoute("GET", "/v1/changes/{change}/wait", for_operators(self.wait_for_news), deadline_s=DEADLINE_S)
        return (
            HttpRoute("GET", "/v1/changes", for_operators(self.list_changes)),
            HttpRoute("GET", "/v1/changes/{change}", for_operators(self.show)),
            HttpRoute("GET", "/v1/changes/{change}/diff", for_operators(self.diff)),
            wait,
            HttpRoute("POST", "/v1/changes/{change}/approve", for_operators(self.approve)),
            HttpRoute("POST", "/v1/changes/{change}/halt", for_operators(self.halt)),
            HttpRoute("POST", "/v1/changes/{change}/resume", for_operators(self.resume)),
            HttpRoute("POST", "/v1/changes/{change}/revert", for_operators(self.revert), deadline_s=DEADLINE_S),
        )

    async def list_changes(self, request: Request) -> ChangeList:
        """The newest first."""
        states = tuple(map(_state, request.query_all("state")))
        most = request.query_integer("most", LISTED, 1, MOST)
        at = self._at
        return await in_library(
            change_view.summaries, at.database, states, most=most, now=at.now(), settings=at.settings
        )

    async def show(self, request: Request) -> ChangeDetail:
        at, change_id = self._at, _change_id(request)
        found = await in_planner(change_view.detail, at.database, change_id, now=at.now(), settings=at.settings)
        return replace(found, waits=self._waits(found))

    async def diff(self, request: Request) -> ChangeDiff:
        return await in_planner(change_view.diff, self._at.database, _change_id(request))

    async def wait_for_news(self, request: Request) -> ChangeNews:
        """Something that `seen` does not stand for, or how it is after a while."""
        change_id, seen, at = _change_id(request), request.query_one("seen"), self._at
        if seen is not None and not _MARK.takes(seen):
            raise Refused(Code.BAD_REQUEST, "`seen` is the mark of an earlier answer")
        if self._waiting < WAITING:
            self._waiting += 1
            try:
                await self._wait_for_another(change_id, seen)
            finally:
                self._waiting -= 1
        found = await in_planner(change_view.news, at.database, change_id, now=at.now(), settings=at.settings)
        return replace(found, waits=self._waits(found))

    def _waits(self, change: ChangeNews) -> tuple[str, ...]:
        return tuple(self._at.rollouts.health.waits.get(change.change, ()))

    async def _wait_for_another(self, change_id: int, seen: str | None) -> None:
        """Who has seen something waits for a while in any case."""
        if seen is not None:
            await trio.sleep(NEWS_S)
        for _ in range(LOOKS):
            if seen != await in_library(change_view.mark, self._at.database, change_id):
                return
            await trio.sleep(LOOK_S)

    async def approve(self, request: Request) -> ChangeSummary:
        """Of the plan that was looked at."""
        change_id, asked = _change_id(request), await message_of(request, ApprovalRequest)
        at, actor = self._at, request.peer.name
        record = await in_database(
            approvals.approve, at.database, change_id, asked.plan_hash, actor=actor, now=at.now()
        )
        return await self._summary_of(record)

    async def halt(self, request: Request) -> ChangeSummary:
        """Who has it keeps it, nobody else is given it."""
        return await self._decide(request, commands.halt)

    async def resume(self, request: Request) -> ChangeSummary:
        return await self._decide(request, commands.resume)

    async def _decide(self, request: Request, operation: Deciding) -> ChangeSummary:
        change_id, reason = _change_id(request), (await message_of(request, ReasonRequest)).reason
        decide = partial(operation, actor=request.peer.name, now=self._at.now())
        return await self._summary_of(await in_database(decide, self._at.database, change_id, reason))

    async def revert(self, request: Request) -> ChangeSummary:
        """The change that takes it back."""
        change_id, asked = _change_id(request), await message_of(request, RevertRequest)
        revert = partial(commands.revert, message=asked.message, now_reason=asked.now_reason)
        by = partial(revert, actor=request.peer.name, now=self._at.now())
        made = await in_database(by, self._at.database, change_id)
        if made.change is None:
            raise Refused(Code.CONFLICT, "there is nothing that it has changed")
        self._at.rollouts.health.reverts[BY_OPERATOR] += 1
        return await self._summary_of(made.change.record)

    async def _summary_of(self, record: ChangeRecord) -> ChangeSummary:
        """Whoever carries it out is woken."""
        at = self._at
        at.rollouts.wake()
        at.publisher.wake()
        return await in_planner(_summary, at, record)


def _summary(at: Coordinator, record: ChangeRecord) -> ChangeSummary:
    with at.database.read() as transaction:
        return change_view.summary(transaction, record, at.now(), at.settings)


def _change_id(request: Request) -> int:
    return records.parse_name(parameter(request, "change", forms.text(64, 1).takes))


def _state(text: str) -> ChangeState:
    try:
        return ChangeState(text)
    except ValueError:
        known = ", ".join(ChangeState)
        raise Refused(Code.BAD_REQUEST, f"{bound_text(text, 64)} is no state", remedy=f"states are {known}") from None

"""New content on probation: the services that live by it are asked, until its time is over or one of them says no.

    told -> asked every `check_interval_s` -> passed, when the time is over and each has said yes
                                           -> reverted, as soon as one says no

The rules:

1. Who is asked: every service with `check`, `check_http` or `unit` whose scopes are on probation. Where there is none,
   time passes it.
2. A service is asked once it was told of the content, and the first time an interval later: before, it answers for what
   was before. What it says while it is being told is nobody's word (a restart takes its time, and until a reload is
   through what was before answers): it is asked again. What was never asked is asked once when the time is over and
   it was told: nothing is good unasked.
3. One "no" takes back everything that became active together with what the service lives by, in one transaction
   (store/probation.py): readers never see half of a change (rules X17). Consumers are told as of any change.
4. Time is counted durably, on the boot clock (store/base/probation.py). This task keeps nothing that a restart loses:
   it looks at what is on probation, and at what services were told.
5. Where losing the coordinators fails it (`probation_terms.py`), it fails if nobody of them is there when its time is
   over, at three asks in a row: whoever refuses a connection is there.
6. What the files do not show when its time is over, since the disk refuses, has failed: nobody could read it, nor be
   told of it, and what they show is what was good before.

Nobody else is needed for it: no coordinator, no head, no network. It is the node's own act.

Example. `route_policy` 1.7 is active at 12:00:00, with 60 s of probation. Files are laid out, the proxy is reloaded at
12:00:01, and asked at 12:00:06, 12:00:11 and so on. At 12:00:31 its health says 503: at once 1.6 serves again, files
are laid out, the proxy is reloaded; the report says that 1.7 was tried, and what the proxy said.

Rejected: a number of failures that are put up with, since only the check knows what is an exception, and it may ask
itself as often as it likes; and to ask before the service is told, for the answer would be of the old content.
"""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial

import trio

from agent.base.guarded_clock import GuardedTime
from agent.config.patterns import matches
from agent.services.checks import CheckAnswer, ServiceCheck
from agent.services.publishing import Publishing
from agent.services.services import Services
from agent.state.node import RunningNode
from snapshot.frozen import frozen, mutable
from snapshot.reasons import Rejected
from snapshot.reverify import Reverdict, judge_again
from store.base.documents import HashedDocument, StoredDocument
from store.base.errors import StoreError
from store.base.probation import left_s
from store.base.records import ProbationRecord
from wire.backoff import BackOff
from wire.logs import log

LOOK_EVERY_S = 5.0  # the boot clock goes on in suspend, and ours does not
WAY_ASKS, WAY_PAUSE_S = 3, 5.0
RETRY_S, RETRY_MOST_S = 1.0, 60.0
COORDINATOR, FILES = "coordinator", "files"


@frozen
class CheckedService:
    """A service and what it is asked. `scopes` are patterns of the configuration."""

    name: str
    scopes: tuple[str, ...]
    checks: tuple[ServiceCheck, ...]
    interval_s: float


@frozen
class FailedCheck:
    """`scopes`: those on probation that `check` is about."""

    scopes: frozenset[str]
    check: str
    detail: str


@mutable
class Probation:
    """Of one node. Whether a coordinator is there is asked by whoever can (`ask_way_by`), once that is loaded."""

    node: RunningNode
    checked: Sequence[CheckedService]
    services: Services
    publishing: Publishing
    uniform: Callable[[float, float], float]
    _is_way_open: Callable[[], Awaitable[bool]] | None = None
    _may_ask_way: trio.Event = field(default_factory=trio.Event)
    _well: set[str] = field(default_factory=set)  # services that have said yes to what is on probation now

    def ask_way_by(self, is_open: Callable[[], Awaitable[bool]]) -> None:
        self._is_way_open = is_open
        self._may_ask_way.set()

    async def run(self) -> None:
        """Until cancelled."""
        back_off = BackOff(self.uniform, RETRY_S, RETRY_MOST_S)
        resumed = True
        while True:
            seen, rows = self.node.changed.value, self._rows
            if not rows:
                resumed = False
                await self.node.changed.wait_above(seen)
                continue
            verdict = await self._see_through(rows, resumed=resumed)
            while not verdict.is_open and self._rows == rows:
                try:
                    await self._carry_out(verdict, rows)
                    back_off.note_success()
                except StoreError as error:
                    log.warning("probation not settled", fault=error.fault, detail=error.detail)
                    await trio.sleep(back_off.note_failure())

    @property
    def _rows(self) -> Mapping[str, ProbationRecord]:
        return self.node.holdings.kept.probations

    async def _see_through(self, rows: Mapping[str, ProbationRecord], *, resumed: bool) -> "_Verdict":
        """Until there is a verdict, or something else is on probation than now."""
        self._well.clear()
        verdict = _Verdict()
        async with trio.open_nursery() as nursery:
            verdict.scope = nursery.cancel_scope
            for service in self._concerned_services(rows):
                nursery.start_soon(partial(self._ask_until_no, service, rows, verdict, resumed=resumed))
            for began in {row.began for row in rows.values()}:
                nursery.start_soon(self._wait_until_over, _together(rows, began), verdict)
            nursery.start_soon(self._wait_for_others, rows, verdict)
        return verdict

    # ---- who is asked, and when

    def _concerned_services(self, scopes: Collection[str]) -> list[CheckedService]:
        return [service for service in self.checked if any(matches(service.scopes, scope) for scope in scopes)]

    async def _ask_until_no(
        self, service: CheckedService, rows: Mapping[str, ProbationRecord], verdict: "_Verdict", *, resumed: bool
    ) -> None:
        scopes = [scope for scope in rows if matches(service.scopes, scope)]
        for check in service.checks:
            await check.begin(resumed=resumed)
        await self._wait_told(service, scopes)
        while True:
            await trio.sleep(service.interval_s)
            failed = await self._ask(service, scopes)
            if failed is not None:
                verdict.fail(failed)

    async def _ask(self, service: CheckedService, scopes: Collection[str]) -> FailedCheck | None:
        """Of all its checks at once; None for a yes, and for whatever one says that was being told meanwhile."""
        before, was_telling = self._told_generation(service), service.name in self.services.telling
        answers: list[CheckAnswer] = []

        async def ask(check: ServiceCheck) -> None:
            answers.append(await check.ask(service.name))

        async with trio.open_nursery() as nursery:
            for check in service.checks:
                nursery.start_soon(ask, check)
        bad = [answer.detail for answer in answers if not answer.ok]
        is_telling = was_telling or service.name in self.services.telling
        if is_telling or self._told_generation(service) != before:
            log.info("check put off: the service is being told", service=service.name, detail=next(iter(bad), ""))
            return None
        if not bad:
            self._well.add(service.name)
            return None
        return FailedCheck(frozenset(scopes), service.name, "; ".join(bad))

    def _told_generation(self, service: CheckedService) -> int | None:
        told = self.services.notified.get(service.name)
        return told.generation if told is not None else None

    async def _wait_told(self, service: CheckedService, scopes: Collection[str]) -> None:
        """Whether it took it or not: of what is active now."""
        while True:
            seen = self.node.changed.value
            told = self.services.notified.get(service.name)
            active = self.node.holdings.view.scopes
            if told is not None and all(
                scope in active and told.versions.get(scope) == active[scope].identity for scope in scopes
            ):
                return
            await self.node.changed.wait_above(seen)

    # ---- when it is over

    async def _wait_until_over(self, rows: Mapping[str, ProbationRecord], verdict: "_Verdict") -> None:
        while True:
            left = _left_s(rows, self.node.moment())
            if left <= 0:
                break
            await trio.sleep(min(left, LOOK_EVERY_S))
        failed = await self._last_word(rows)
        if failed is not None:
            verdict.fail(failed)
        else:
            verdict.let_pass(rows)

    async def _last_word(self, rows: Mapping[str, ProbationRecord]) -> FailedCheck | None:
        trouble = await self._trouble_with_files(rows)
        if trouble:
            return FailedCheck(frozenset(rows), FILES, trouble)
        for service in self._concerned_services(rows):
            scopes = [scope for scope in rows if matches(service.scopes, scope)]
            while service.name not in self._well:
                await self._wait_told(service, scopes)
                failed = await self._ask(service, scopes)
                if failed is not None:
                    return failed
                if service.name not in self._well:
                    await trio.sleep(service.interval_s)
        led_out = frozenset(scope for scope, row in rows.items() if row.way)
        if led_out and not await self._finds_coordinator():
            return FailedCheck(led_out, COORDINATOR, "none can be reached any more, and one could be before")
        return None

    async def _trouble_with_files(self, scopes: Collection[str]) -> str:
        """Nothing once the files show what is active of these. What the disk said before is no word on it."""
        while not self.publishing.shows(self.node.holdings.view, scopes):
            await self.publishing.try_now()
            if self.publishing.error:
                return self.publishing.error
        return ""

    async def _finds_coordinator(self) -> bool:
        for ask in range(WAY_ASKS):
            if ask:
                await trio.sleep(WAY_PAUSE_S)
            await self._may_ask_way.wait()
            if self._is_way_open is not None and await self._is_way_open():
                return True
        return False

    async def _wait_for_others(self, rows: Mapping[str, ProbationRecord], verdict: "_Verdict") -> None:
        """Something else is on probation: who is asked, and for how long, is another matter then."""
        while self._rows == rows:
            await self.node.changed.wait_above(self.node.changed.value)
        verdict.give_up()

    # ---- what becomes of it

    async def _carry_out(self, verdict: "_Verdict", rows: Mapping[str, ProbationRecord]) -> None:
        """StoreError; then the verdict stands, and is carried out later."""
        if verdict.failed is not None:
            await self._revert(verdict.failed, rows)
        else:
            await self._pass(verdict.passed)

    async def _revert(self, failed: FailedCheck, rows: Mapping[str, ProbationRecord]) -> None:
        node = self.node
        began = {rows[scope].began for scope in failed.scopes}
        scopes = sorted(scope for scope, row in rows.items() if row.began in began)
        now, holdings = node.now(), node.holdings

        def may_serve(held: StoredDocument) -> bool:
            """As at a start: what the keys that are trusted now vouch for, and this node may hold."""
            try:
                verdict = judge_again(HashedDocument.just_now(held), holdings.holder, now=now)
            except Rejected:
                return False
            return verdict is Reverdict.ACTIVE

        happened = await node.change(
            node.store.revert, *scopes, check=failed.check, detail=failed.detail, now=now, serves=may_serve
        )
        node.counters.add("probations_failed")
        log.error("probation failed", check=failed.check, detail=failed.detail, outcome=happened)
        node.tell_news()

    async def _pass(self, scopes: Collection[str]) -> None:
        passed = await self.node.change(self.node.store.pass_probation, *sorted(scopes), now=self.node.now())
        self.node.counters.add("probations_passed")
        log.info("probation passed", scopes=list(passed))
        self.node.tell_news()


@mutable
class _Verdict:
    """The first one counts, and ends the questions."""

    scope: trio.CancelScope | None = None
    failed: FailedCheck | None = None
    passed: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        return self.failed is None and not self.passed

    def fail(self, failed: FailedCheck) -> None:
        if self.is_open:
            self.failed = failed
        self.give_up()

    def let_pass(self, scopes: Collection[str]) -> None:
        if self.is_open:
            self.passed = frozenset(scopes)
        self.give_up()

    def give_up(self) -> None:
        if self.scope is not None:
            self.scope.cancel()


def _together(rows: Mapping[str, ProbationRecord], began: int) -> Mapping[str, ProbationRecord]:
    return {scope: row for scope, row in rows.items() if row.began == began}


def _left_s(rows: Mapping[str, ProbationRecord], moment: GuardedTime) -> float:
    """Of what became active together the longest counts: it is good together."""
    return max((left_s(row, moment.boot, moment.now) for row in rows.values()), default=math.inf)

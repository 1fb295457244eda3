"""The services of this node: which scopes each depends on, what each was told, and whether it can go on.

Nobody is told while the root keys are those of a first use that nobody has compared: a command, a restart or a signal
would be done on the word of whoever answered first (threats D-19).

Level-triggered (ARCHITECTURE.md): what a service was told last is kept as a watermark, and it is told again whenever
that is not what is active: after an activation, at a start after a crash, after it could not be told. Changes within
the settle time are told once (rules S67, S68, A11).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, field
from typing import Protocol

import trio

from agent.base.generation import NOTHING_YET, Generation
from agent.base.threads import Threads
from agent.config.patterns import EVERY, matches, may_be_of_none
from agent.services.notifiers import NOT_RUNNING, Notifier, Told
from agent.state.view import View, Views
from snapshot import degraded
from snapshot.degraded import GateFacts, Question
from snapshot.frozen import frozen, mutable
from store.base.errors import StoreError
from wire.backoff import BackOff
from wire.logs import log

SETTLE_S = 1.0
SETTLE_MOST_S = 10.0
BASE_S, CAP_S = 5.0, 300.0
LOOK_EVERY_S = 5.0  # whether they may be told

HELD_BACK = f"{degraded.GateReason.ROOTS_UNCONFIRMED}: nobody has compared the root keys: holdfast trust confirm"


Versions = Mapping[str, tuple[int, int, str]]


@frozen
class LocalService:
    """`scopes` are patterns of the configuration."""

    name: str
    scopes: tuple[str, ...]
    notifier: Notifier

    def versions(self, view: View) -> Versions:
        """What it should know: (epoch, version, content hash) of each active scope that it depends on."""
        return {name: scope.identity for name, scope in sorted(view.scopes.items()) if matches(self.scopes, name)}


@frozen
class Notified:
    """What a service was told last, and what came of it; `at` is Unix seconds."""

    generation: int
    versions: Versions
    ok: bool
    detail: str
    at: float

    @property
    def outcome(self) -> str:
        """`done`, `not_running` or `failed`; of what is kept anyway, so that any version can read it."""
        if self.ok:
            return "done"
        return NOT_RUNNING if self.detail.startswith(NOT_RUNNING) else "failed"

    @classmethod
    def from_table(cls, value: object) -> "Notified | None":
        """From the store's table."""
        if not isinstance(value, dict):
            return None
        versions = {scope: tuple(identity) for scope, identity in value.pop("versions", {}).items()}
        return cls(versions=versions, **value)


class ToldTable(Protocol):
    """Where it is kept over restarts."""

    def items(self) -> dict[str, object]: ...

    def put(self, key: str, value: object) -> None: ...


@mutable
class Services:
    """`published`: the generation that the files show; nobody is told of one that is not there to be read."""

    services: tuple[LocalService, ...]
    views: Views
    table: ToldTable
    threads: Threads
    published: Generation
    now: Callable[[], float]
    uniform: Callable[[float, float], float]
    settle_s: float = SETTLE_S
    on_told: Callable[[str], None] = lambda _: None
    on_remembered: Callable[[], None] = lambda: None  # of a process before: whoever waits for it looks again
    may_tell: Callable[[], bool] = lambda: True
    notified: dict[str, Notified] = field(default_factory=dict)
    telling: set[str] = field(default_factory=set)  # those that are told at this moment

    async def run(self) -> None:
        """Until cancelled: one task for each service, so that a slow one holds no other up."""
        kept = await self.threads.read(self.table.items)
        for service in self.services:
            before = Notified.from_table(kept.get(service.name))
            if before is not None:
                self.notified[service.name] = before
        if self.notified:
            self.on_remembered()
        async with trio.open_nursery() as nursery:
            for service in self.services:
                nursery.start_soon(self._follow, service)

    async def _follow(self, service: LocalService) -> None:
        back_off = BackOff(self.uniform, BASE_S, CAP_S)
        await self.published.wait_above(NOTHING_YET)
        while True:
            generation = await self._settle()
            try:
                wait_s = await self._bring_up(service, back_off)
            except StoreError as error:
                log.warning("service not looked after", service=service.name, error=str(error))
                wait_s = back_off.note_failure()
            with trio.move_on_after(wait_s):
                await self.published.wait_above(generation)

    async def _settle(self) -> int:
        """The generation, once there was no newer one for the settle time, or after ten of it."""
        with trio.move_on_after(min(SETTLE_MOST_S, 10 * self.settle_s)):
            while True:
                generation = self.published.value
                with trio.move_on_after(self.settle_s) as settling:
                    await self.published.wait_above(generation)
                if settling.cancelled_caught:
                    break
        return self.published.value

    async def _bring_up(self, service: LocalService, back_off: BackOff) -> float:
        """Tells it, unless it knows; the seconds after which to look again without a change."""
        view = await self.threads.read(self.views.all)
        versions = service.versions(view)
        before = self.notified.get(service.name)
        if before is not None and before.ok and before.versions == versions:
            return float("inf")
        if before is None and not versions:
            return float("inf")
        if not self.may_tell():
            await self._hold_back(service, view, before)
            return LOOK_EVERY_S
        await self.published.wait_above(view.generation - 1)
        self.telling.add(service.name)
        try:
            told = await service.notifier.tell(service.name, view.generation)
        finally:
            self.telling.discard(service.name)
        await self._record(service, Notified(view.generation, versions, told.ok, told.detail, self.now()))
        say = log.info if told.ok else log.warning
        say(
            "service told",
            service=service.name,
            generation=view.generation,
            versions={scope: version for scope, (_, version, _) in versions.items()},
            ok=told.ok,
            detail=told.detail,
        )
        return self._after(told, back_off)

    async def _hold_back(self, service: LocalService, view: View, before: Notified | None) -> None:
        """Said once; what it was told before stays what it was told."""
        if before is None or before.ok or before.detail != HELD_BACK:
            versions = before.versions if before else {}
            await self._record(service, Notified(view.generation, versions, ok=False, detail=HELD_BACK, at=self.now()))
            log.warning("service not told", service=service.name, detail=HELD_BACK)

    async def _record(self, service: LocalService, notified: Notified) -> None:
        self.notified[service.name] = notified
        await self.threads.write(self.table.put, service.name, asdict(notified))
        self.on_told(service.name)

    def _after(self, told: Told, back_off: BackOff) -> float:
        if told.ok:
            back_off.note_success()
            return float("inf")
        return back_off.note_failure(BASE_S)


def ready_for(
    service: LocalService, view: View, facts: GateFacts, now: float, listed: Collection[str] = ()
) -> tuple[bool, str]:
    """rules A11: all its scopes active and unexpired, and the node's state lets it go on; the reason otherwise.

    `listed`: the scopes of the head that is held.
    """
    held = {name: scope for name, scope in view.scopes.items() if matches(service.scopes, name)}
    if any(not _is_held(pattern, held, listed) for pattern in service.scopes):
        return False, "scope_missing"
    if any(now >= scope.expires_at for scope in held.values()):
        return False, degraded.GateReason.SCOPE_EXPIRED
    answer = degraded.may(Question("continue_services"), facts, now)
    return answer.allowed, answer.reason


def _is_held(pattern: str, held: Collection[str], listed: Collection[str]) -> bool:
    if may_be_of_none(pattern):
        return pattern == EVERY or all(name in held for name in listed if matches((pattern,), name))
    return any(matches((pattern,), name) for name in held)

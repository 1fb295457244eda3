"""Keeps the projected files up to the active generation, and says which one they show (protocol.md 4, Files).

Also when only a grade changes: by an expiry, or by a head that came or went.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import field

import trio

from agent.base.generation import Generation
from agent.base.threads import Threads
from agent.files.generations import FilesError
from agent.files.projection import Projection
from agent.state.view import View, Views
from snapshot.frozen import mutable
from snapshot.reasons import safe_text
from store.base.errors import StoreError
from wire.backoff import LEAST_S, BackOff
from wire.logs import log

RETRY_S, RETRY_MOST_S = 5.0, 300.0  # a round on a full disk writes all that fits
HEAD_ALONE_S = 1.0  # that files wait at most for what a new head lists
TOLD_FIRST_S = 0.05  # whoever waits at the socket, before files are made: both want the interpreter
LOOK_EVERY_S = 5.0  # the wall clock may jump, and a cleaner may take files away


@mutable
class Publishing:
    """`active` is followed, `published` is told. `revoked`: nothing is shown any more (rules A9). `fault` is a stable
    code and `error` has the words; both are empty while the files show what is active. `rounds` counts, also those
    that failed.
    """

    views: Views
    projection: Projection | None
    threads: Threads
    active: Generation
    published: Generation
    now: Callable[[], float]
    revoked: Callable[[], bool]
    failures: int = 0
    fault: str = ""
    error: str = ""
    rounds: Generation = field(default_factory=Generation)
    back_off: BackOff = field(default_factory=lambda: BackOff(random.uniform, RETRY_S, RETRY_MOST_S))
    _shown: View | None = None
    _asked: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Until cancelled. What goes wrong is logged, shown in the status, and tried again."""
        while True:
            self._asked = trio.Event()
            seen = self.active.value
            try:
                view = await self.publish()
            except (StoreError, FilesError) as error:
                self.failures += 1
                self.fault, self.error = str(error.fault), safe_text(str(error))
                log.warning("files not brought up to date", fault=self.fault, error=self.error)
                self._round_done()
                await self._rest_after_failure()
                continue
            self.fault = self.error = ""
            self.back_off.note_success()
            self._round_done()
            with trio.move_on_after(self._rest_s(view)):
                await self.active.wait_woken(max(seen, view.generation))

    async def publish(self) -> View:
        """One round: the files show what is active now. Where a head alone is new, what it lists is on its way, and is
        waited for: one folder is made for both, since each costs as much as there are files.
        """
        view = await self._look()
        if (shown := self._before(view)) is not None:
            if shown.has_same_files(view, self.now()):  # of a head alone, and no grade is another
                with trio.move_on_after(HEAD_ALONE_S):
                    await self.active.wait_above(view.generation)
            await trio.sleep(TOLD_FIRST_S)
            view = await self._look()
        if self.projection is not None:
            await self.threads.read(self._project, self.projection, view, self.now(), trio.current_time())
        self._shown = view
        self.published.tell(view.generation)
        return view

    async def _look(self) -> View:
        """Mostly somebody has looked since the last commit, and nothing is read."""
        view = self.views.at_hand()
        return view if view is not None else await self.threads.read(self.views.all)

    async def _rest_after_failure(self) -> None:
        """Until somebody asks, but never within the floor."""
        failed_at = trio.current_time()
        with trio.move_on_after(self.back_off.note_failure()):
            await self._asked.wait()
        await trio.sleep_until(failed_at + LEAST_S)

    def wake(self) -> None:
        """An operator says that it is worth trying now: what was in the way may have been moved (rules P14)."""
        self.back_off.note_success()
        self._asked.set()

    async def try_now(self) -> None:
        """Once the next round has ended; one that rests after a failure begins as soon as the floor lets."""
        self._asked.set()
        await self.rounds.wait_above(self.rounds.value)

    def shows(self, view: View, scopes: Iterable[str]) -> bool:
        """Whether the last round that went well was of these versions of them."""
        shown = self._shown.scopes if self._shown is not None else {}
        return all(
            name in shown and shown[name].identity == scope.identity
            for name in scopes
            if (scope := view.scopes.get(name)) is not None
        )

    def _before(self, view: View) -> View | None:
        """What the files show, where something has become active since, and is to be shown."""
        shown = self._shown
        return None if shown is None or shown.generation == view.generation or self.revoked() else shown

    def _round_done(self) -> None:
        self.rounds.tell(self.rounds.value + 1)

    def _project(self, projection: Projection, view: View, now: float, elapsed: float) -> None:
        if self.revoked():
            projection.withdraw(view.generation, elapsed)
        else:
            projection.project(view.generation, view.projected_scopes(now), elapsed)

    def _rest_s(self, view: View) -> float:
        until = view.next_expiry(now := self.now())
        return LOOK_EVERY_S if until is None else min(LOOK_EVERY_S, max(0.0, until - now))

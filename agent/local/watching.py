"""`GET /v1/watch`: a long poll, or a stream of events, for services that follow their scopes (protocol.md 4).

What is told is that a scope and which of its sections have changed since a generation, never their content. It may be
more than has changed, never less: where it is not known any more what a caller has seen, all is named.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog
import trio

from agent.base.generation import Generation
from agent.base.threads import Threads
from agent.state.view import View, Views
from snapshot.identifiers import stands_for
from snapshot.manifest import SectionEntry
from store.base.errors import StoreError
from wire.messages import SCOPES_MAX, WatchAnswer
from wire.request import Request

REMEMBERED = 256
KEEP_ALIVE_S = 15.0
RETRY_S = 1.0

Readable = Callable[[str], bool]
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Step:
    """What changed on the way from one generation that was seen to the next."""

    start: int
    end: int
    changed: Mapping[str, frozenset[str]]


@dataclass
class Changelog:
    """The last steps. Fed with each view in its order."""

    steps: deque[_Step] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    generation: int = -1
    _sections: dict[str, Mapping[str, SectionEntry]] = field(default_factory=dict)

    def observe(self, view: View) -> None:
        after = {name: scope.document.sections for name, scope in view.scopes.items()}
        if self.generation >= 0:
            self.steps.append(_Step(self.generation, view.generation, _differences(self._sections, after)))
        self._sections = after
        self.generation = view.generation

    def since(self, generation: int) -> dict[str, frozenset[str]]:
        """What has changed since, by scope; a withdrawn scope with the sections that it had."""
        if not self._remembers(generation):
            return {name: frozenset(sections) for name, sections in self._sections.items()}
        found: dict[str, frozenset[str]] = {}
        for step in self.steps:
            if step.end > generation:
                for name, sections in step.changed.items():
                    found[name] = found.get(name, frozenset()) | sections
        return found

    def _remembers(self, generation: int) -> bool:
        oldest = self.steps[0].start if self.steps else self.generation
        return oldest <= generation <= self.generation


def _differences(
    before: Mapping[str, Mapping[str, SectionEntry]], after: Mapping[str, Mapping[str, SectionEntry]]
) -> dict[str, frozenset[str]]:
    found = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name, {}), after.get(name, {})
        changed = frozenset(section for section in old.keys() | new.keys() if old.get(section) != new.get(section))
        if changed or (name in before) != (name in after):
            found[name] = changed
    return found


@dataclass
class Watching:
    """`active` is followed; `seen` is told once the change log has it."""

    views: Views
    threads: Threads
    active: Generation
    seen: Generation = field(default_factory=Generation)
    changelog: Changelog = field(default_factory=Changelog)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                view = await self.threads.read(self.views.all)
            except StoreError as error:
                log.warning("changes not seen", error=str(error))
                await trio.sleep(RETRY_S)
                continue
            if view.generation > self.changelog.generation:
                self.changelog.observe(view)
                self.seen.tell(view.generation)
            await self.active.wait_above(view.generation)

    async def next_change(self, after: int, readable: Readable) -> WatchAnswer:
        """As soon as something has changed that concerns the caller. An `after` of the future counts as none."""
        while True:
            generation = await self.seen.wait_above(after if after <= self.seen.value else -1)
            found = {name: sections for name, sections in self.changelog.since(after).items() if readable(name)}
            if found or after > generation:
                return _answer(generation, found)
            after = generation

    async def events(self, request: Request, after: int | None, readable: Readable) -> AsyncIterator[bytes]:
        """An event stream: first where we are, then each change; a comment now and then shows that it lives."""
        start = self.seen.value if after is None else after
        if after is None:
            yield _event("generation", _answer(self.seen.value, {}))
        while True:
            answer = None
            with request.waiting(), trio.move_on_after(KEEP_ALIVE_S):
                answer = await self.next_change(start, readable)
            if answer is None:
                yield b": still here\n\n"
            else:
                start = answer.generation
                yield _event("change", answer)


def scopes_wanted(scopes: Iterable[str], may_read: Readable) -> Readable:
    """The scopes that a caller follows: those that it names, else all, of those that it may read."""
    named = tuple(scopes)
    return lambda name: (not named or any(stands_for(one, name) for one in named)) and may_read(name)


def _answer(generation: int, changed: Mapping[str, frozenset[str]]) -> WatchAnswer:
    first = sorted(changed)[:SCOPES_MAX]
    return WatchAnswer(generation, {name: tuple(sorted(changed[name])) for name in first})


def _event(name: str, answer: WatchAnswer) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (answer.generation, name.encode(), answer.to_bytes())

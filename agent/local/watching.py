"""`GET /v1/watch`: a long poll, or a stream of events, for services that follow their scopes (protocol.md 4).

What is told is that a scope and which of its sections have changed since a generation, never their content. It may be
more than has changed, never less: where it is not known any more what a caller has seen, all is named.

Services and routes are named by their own ids, whatever parts they are signed in (maps.py). Which routes have changed
is worked out when it happens, from the parts that differ: later the former ones may be gone. Where they are, or where
more have changed than a notice should hold, `*` stands for all.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import trio

from agent.base.generation import Generation
from agent.base.threads import Threads
from agent.files.maps import ROUTES, ROUTES_SCOPE, map_of, maps_of
from agent.state.view import View, Views
from snapshot import canonical
from snapshot.frozen import frozen, mutable
from snapshot.identifiers import stands_for
from snapshot.manifest import SectionEntry
from snapshot.quick_parse import reread_quickly
from snapshot.section_table import differing
from store.base.documents import StoredDocument
from store.base.errors import StoreError
from wire.logs import log
from wire.messages import SCOPES_MAX, WatchAnswer
from wire.request import Request

REMEMBERED, REMEMBERED_BYTES = 256, 4 << 20  # steps, and their names; the last step is always known
KEEP_ALIVE_S = 15.0
RETRY_S = 1.0
ROUTES_NAMED = 256  # in one notice; more are `*`
PARTS_COMPARED_BYTES = 8 << 20  # more would hold the readers up
EVERY_ROUTE = frozenset({"*"})
SERVICE = "service_assignment/"

Readable = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Step:
    """What changed on the way from one generation that was seen to the next. Its names are written into one piece of
    bytes each: they stay for a day, and one by one they would hold on to the memory of all that was read beside them.
    """

    start: int
    end: int
    changed: bytes  # section names by scope
    routes: bytes

    @classmethod
    def of(cls, start: int, end: int, changed: Mapping[str, frozenset[str]], routes: frozenset[str]) -> Self:
        names = {scope: sorted(sections) for scope, sections in changed.items()}
        return cls(start, end, canonical.dumps(names), canonical.dumps(sorted(routes)))

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.changed) + len(self.routes)

    def sections(self) -> dict[str, frozenset[str]]:
        """Those that have changed, by scope."""
        found: dict[str, list[str]] = canonical.reread(self.changed)  # type: ignore[assignment]
        return {scope: frozenset(names) for scope, names in found.items()}

    def route_ids(self) -> frozenset[str]:
        found: list[str] = canonical.reread(self.routes)  # type: ignore[assignment]
        return frozenset(found)


@mutable
class Changelog:
    """The last steps. Fed with each view in its order."""

    steps: deque[_Step] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    generation: int = -1
    _sections: dict[str, Mapping[str, SectionEntry]] = field(default_factory=dict)

    def observe(self, seen: "SeenView") -> None:
        """The view after the last one."""
        if seen.step is not None:
            self.steps.append(seen.step)
        while len(self.steps) > 1 and sum(step.size for step in self.steps) > REMEMBERED_BYTES:
            self.steps.popleft()
        self._sections = seen.sections
        self.generation = seen.generation

    def look_at(self, view: View, before: View | None = None) -> "SeenView":
        """What has changed since the view before. On a thread: it goes through all sections of what has changed."""
        sections = {name: scope.document.sections for name, scope in view.scopes.items()}
        if self.generation < 0:
            return SeenView(view.generation, sections)
        changed = _differences(self._sections, sections)
        step = _Step.of(self.generation, view.generation, changed, changed_routes(before, view, changed))
        return SeenView(view.generation, sections, step)

    def since(self, generation: int) -> dict[str, frozenset[str]]:
        """What has changed since, by scope; a withdrawn scope with the sections that it had."""
        if not self._remembers(generation):
            return {name: frozenset(sections) for name, sections in self._sections.items()}
        found: dict[str, frozenset[str]] = {}
        for step in self.steps:
            if step.end > generation:
                for name, sections in step.sections().items():
                    found[name] = found.get(name, frozenset()) | sections
        return found

    def routes_since(self, generation: int) -> frozenset[str]:
        """The ids of the routes that have changed since; EVERY_ROUTE where they are not known, or are many."""
        if not self._remembers(generation):
            return EVERY_ROUTE
        found = frozenset[str]().union(*(step.route_ids() for step in self.steps if step.end > generation))
        return EVERY_ROUTE if found & EVERY_ROUTE or len(found) > ROUTES_NAMED else found

    def _remembers(self, generation: int) -> bool:
        oldest = self.steps[0].start if self.steps else self.generation
        return oldest <= generation <= self.generation


@frozen
class SeenView:
    """A view as the change log takes it; `step`: from the view before, None for the first."""

    generation: int
    sections: dict[str, Mapping[str, SectionEntry]]
    step: _Step | None = None


def _differences(
    before: Mapping[str, Mapping[str, SectionEntry]], after: Mapping[str, Mapping[str, SectionEntry]]
) -> dict[str, frozenset[str]]:
    found = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name, {}), after.get(name, {})
        changed = differing(old, new)
        if changed or (name in before) != (name in after):
            found[name] = changed
    return found


def changed_routes(before: View | None, after: View, changed: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The ids of the routes that one view has otherwise than the other. It reads the parts that differ."""
    if before is None:
        return EVERY_ROUTE
    if not changed.get(ROUTES_SCOPE):
        return frozenset()
    old, new = before.scopes.get(ROUTES_SCOPE), after.scopes.get(ROUTES_SCOPE)
    return _differing(old.document if old else None, new.document if new else None, changed[ROUTES_SCOPE])


def _differing(old: StoredDocument | None, new: StoredDocument | None, changed: Iterable[str]) -> frozenset[str]:
    parts = sorted(part for part in changed if map_of(ROUTES_SCOPE, part) == ROUTES)
    try:
        return _compare(old, new, parts)
    except (StoreError, canonical.NotCanonical):  # the former parts may have gone by now
        return EVERY_ROUTE


def _compare(old: StoredDocument | None, new: StoredDocument | None, parts: Iterable[str]) -> frozenset[str]:
    """Part by part, so that it ends as soon as there are more than a notice names: where all is new, after a few parts.
    A route that goes from one part to another differs in both, until both are read; one that its part has otherwise
    than before is another one, whatever the rest says.
    """
    was: dict[str, object] = {}
    now: dict[str, object] = {}
    otherwise, left_bytes = 0, PARTS_COMPARED_BYTES
    for part in parts:
        left_bytes -= _size(old, part) + _size(new, part)
        if left_bytes < 0:
            return EVERY_ROUTE
        before, after = _entries(old, part), _entries(new, part)
        common = before.keys() & after.keys()
        same = {name for name in common if before[name] == after[name]}
        was.update((name, before[name]) for name in before.keys() - same)
        now.update((name, after[name]) for name in after.keys() - same)
        otherwise += len(common) - len(same)
        if otherwise > ROUTES_NAMED or max(len(was), len(now)) > 2 * ROUTES_NAMED:
            return EVERY_ROUTE
    return frozenset(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))


def _size(document: StoredDocument | None, part: str) -> int:
    entry = document.sections.get(part) if document is not None else None
    return entry.size if entry is not None else 0


def _entries(document: StoredDocument | None, part: str) -> dict[str, object]:
    """What an active document says was verified when it came."""
    if document is None or part not in document.sections:
        return {}
    value = reread_quickly(document.read(part))
    return value if isinstance(value, dict) else {}


@mutable
class Watching:
    """`active` is followed; `seen` is told once the change log has it."""

    views: Views
    threads: Threads
    active: Generation
    seen: Generation = field(default_factory=Generation)
    changelog: Changelog = field(default_factory=Changelog)
    _last: View | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                view, seen = await self.threads.read(self._look)
            except StoreError as error:
                log.warning("changes not seen", error=str(error))
                await trio.sleep(RETRY_S)
                continue
            if view.generation > self.changelog.generation:
                self.changelog.observe(seen)
                self._last = view
                self.seen.tell(view.generation)
            await self.active.wait_above(view.generation)

    def _look(self) -> tuple[View, SeenView]:
        view = self.views.all()
        return view, self.changelog.look_at(view, self._last)

    async def next_change(self, after: int, readable: Readable) -> WatchAnswer:
        """As soon as something has changed that concerns the caller. An `after` of the future counts as none."""
        while True:
            generation = await self.seen.wait_above(after if after <= self.seen.value else -1)
            found = {name: sections for name, sections in self.changelog.since(after).items() if readable(name)}
            if found or after > generation:
                return _answer(generation, found, self.changelog.routes_since(after))
            after = generation

    async def events(self, request: Request, after: int | None, readable: Readable) -> AsyncIterator[bytes]:
        """An event stream: first where we are, then each change; a comment now and then shows that it lives."""
        start = self.seen.value if after is None else after
        if after is None:
            yield _event("generation", _answer(self.seen.value, {}, frozenset()))
        while True:
            answer = None
            with request.waiting(), trio.move_on_after(KEEP_ALIVE_S):
                answer = await self.next_change(start, readable)
            if answer is None:
                yield b": still here\n\n"
            else:
                start = answer.generation
                yield _event("change", answer)


def wanted_scopes(scopes: Iterable[str], may_read: Readable) -> Readable:
    """The scopes that a caller follows: those that it names, else all, of those that it may read."""
    named = tuple(scopes)
    return lambda name: (not named or any(stands_for(pattern, name) for pattern in named)) and may_read(name)


def _answer(generation: int, changed: Mapping[str, frozenset[str]], routes: frozenset[str]) -> WatchAnswer:
    """`routes` are for who may read them, and follows them."""
    first = sorted(changed)[:SCOPES_MAX]
    return WatchAnswer(
        generation,
        {scope: tuple(sorted(maps_of(scope, changed[scope]))) for scope in first},
        tuple(scope.removeprefix(SERVICE) for scope in first if scope.startswith(SERVICE)),
        tuple(sorted(routes)) if ROUTES_SCOPE in first else (),
    )


def _event(name: str, answer: WatchAnswer) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (answer.generation, name.encode(), answer.to_bytes())

"""The table of what a listener answers: method and path template -> handler and its limits.

A template's segments are fixed, or `{name}` for one segment that is not empty; `{path...}` at its end is one or more of
them, joined by slashes. Nothing else matches: no trailing slash, no doubled slash (threats N11).
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from wire.limits import Tally
from wire.peer import PinState
from wire.request import HttpError, Request, Response
from wire.shedding import Concern, Rate

Handler = Callable[[Request], Awaitable[Response]]

ACTIVE_ONLY = frozenset({PinState.ACTIVE})


@dataclass(frozen=True, slots=True, eq=False)
class HttpRoute:
    """`body_bytes` and `deadline_s` default to the listener's; a long poll's deadline covers its wait.

    `most` requests may be worked on at once (`concern` None: only this limit holds, as for probes); `line` more
    wait for their turn.
    `states` are the pinned nodes who are answered; others get `revoked` or `removed` before a handler runs.
    `rate` is asked for each caller's address.
    `each` counts what is worked on and what is on its way for each caller: a node, an operator, a uid or an address.
    It may be shared by several routes.
    """

    method: str
    template: str
    handler: Handler
    body_bytes: int | None = None
    deadline_s: float | None = None
    concern: Concern | None = None
    most: int | None = None
    line: int = 0
    states: frozenset[PinState] = ACTIVE_ONLY
    rate: Rate | None = None
    each: Tally | None = None
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.template.startswith("/"):
            raise ValueError(f"the template {self.template!r} must begin with a slash")
        object.__setattr__(self, "segments", tuple(self.template[1:].split("/")))

    @property
    def takes_rest(self) -> bool:
        return self.segments[-1].endswith("...}")

    def parameters(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """The named segments, when the path is one of this template."""
        found: dict[str, str] = {}
        if self.takes_rest:
            rest = segments[len(self.segments) - 1 :]
            if not all(rest):
                return None
            segments = (*segments[: len(self.segments) - 1], "/".join(rest))
        for expected, segment in zip(self.segments, segments, strict=True):
            if expected.startswith("{"):
                if not segment:
                    return None
                found[expected[1:-1].removesuffix("...")] = segment
            elif expected != segment:
                return None
        return found


class Routes:
    """`shortest_s`: of their own deadlines."""

    def __init__(self, *routes: HttpRoute) -> None:
        self.shortest_s = min((route.deadline_s for route in routes if route.deadline_s is not None), default=math.inf)
        self._by_length: dict[int, list[HttpRoute]] = {}
        self._longer: list[HttpRoute] = []  # those that take more segments than they have
        self._fixed: dict[tuple[str, tuple[str, ...]], HttpRoute] = {}  # those that name nothing, which go first
        known: set[tuple[str, str]] = set()
        for route in routes:
            if (route.method, route.template) in known:
                raise ValueError(f"{route.method} {route.template} is routed twice")
            known.add((route.method, route.template))
            self._add(route)
        for same_length in self._by_length.values():
            same_length.sort(key=lambda other: [segment.startswith("{") for segment in other.segments])

    def _add(self, route: HttpRoute) -> None:
        self._by_length.setdefault(len(route.segments), []).append(route)
        if route.takes_rest:
            self._longer.append(route)
        if not any(segment.startswith("{") for segment in route.segments):
            self._fixed[route.method, route.segments] = route

    def find(self, request: Request) -> HttpRoute:
        """The route of a request, whose parameters are set; HttpError 404 or 405. HEAD is answered as GET."""
        method = "GET" if request.method == "HEAD" else request.method
        fixed = self._fixed.get((method, request.segments))
        if fixed is not None:
            return fixed
        allowed = set()
        longer = [route for route in self._longer if len(request.segments) > len(route.segments)]
        for route in self._by_length.get(len(request.segments), []) + longer:
            parameters = route.parameters(request.segments)
            if parameters is None:
                continue
            if route.method == method:
                request.parameters = parameters
                return route
            allowed.add(route.method)
        if allowed:
            allow = ("allow", ", ".join(sorted(allowed)))
            raise HttpError(405, "method_not_allowed", "this path has other methods", headers=[allow])
        raise HttpError(404, "not_found", "there is nothing at this path")

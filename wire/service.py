"""What the connections of one listener share."""

from dataclasses import field

from snapshot.frozen import mutable
from wire.bounded_queue import BoundedQueue
from wire.disconnect_watch import DisconnectWatch
from wire.limits import ListenerLimits
from wire.request import Headers
from wire.routes import HttpRoute, Routes
from wire.shedding import Gate


@mutable
class Statistics:
    """What a listener has done since its start. `refused` counts error answers by their code."""

    accepted: int = 0
    turned_away: int = 0
    handshakes_failed: int = 0
    answered: int = 0
    faults: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, code: str) -> None:
        self.refused[code] = self.refused.get(code, 0) + 1


@mutable
class HttpService:
    """`hosts`: the only Host headers that are answered, where given. `turns`: at routes with limits of their own.
    `headers` stand on every answer, also on those that no handler gives.
    """

    name: str
    routes: Routes
    limits: ListenerLimits
    gate: Gate
    hosts: frozenset[str] | None = None
    headers: Headers = ()
    gone: DisconnectWatch = field(default_factory=DisconnectWatch)
    statistics: Statistics = field(default_factory=Statistics)
    turns: dict[HttpRoute, BoundedQueue] = field(default_factory=dict)
    sending: int = 0  # bytes of answers that hold no room
    stopping: bool = False

    def turns_of(self, route: HttpRoute) -> BoundedQueue | None:
        if route.most is None:
            return None
        return self.turns.setdefault(route, BoundedQueue(route.most, route.line))

"""What the connections of one listener share."""

from dataclasses import dataclass, field

from wire.gone import GoneWatch
from wire.limits import ListenerLimits
from wire.routes import Route, Routes
from wire.shedding import Gate


@dataclass(slots=True)
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


@dataclass(slots=True)
class Service:
    """`hosts`: the only Host headers that are answered, where it is given. `working`: requests at work, by route."""

    name: str
    routes: Routes
    limits: ListenerLimits
    gate: Gate
    hosts: frozenset[str] | None = None
    gone: GoneWatch = field(default_factory=GoneWatch)
    statistics: Statistics = field(default_factory=Statistics)
    working: dict[Route, int] = field(default_factory=dict)
    stopping: bool = False

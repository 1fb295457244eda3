"""What root must have enabled before the agent may ask it of other units: said at the start, and by `--check`.

A service whose unit is not allowed runs on what it has, and its change is never told; a validator that is not allowed
keeps every candidate out. Neither should first be noticed when something changes.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from agent.config.configuration import ServiceTable
from agent.config.units import VALIDATE, Verb, path_unit
from agent.services.unit_states import UnitState
from snapshot.frozen import frozen
from wire.logs import log


@frozen
class MissingUnit:
    """`path`: the unit that is not active."""

    service: str
    path: str

    def __str__(self) -> str:
        return f"service {self.service}: {self.path} is not enabled: systemctl enable --now {self.path}"


async def find_missing_units(
    services: Sequence[ServiceTable], read_state: Callable[[str], Awaitable[UnitState]]
) -> list[MissingUnit]:
    """Where systemd does not say, nothing is missing."""
    found = []
    for service in services:
        for path in path_units(service):
            state = await read_state(path)
            if not state.active and not state.fault:
                found.append(MissingUnit(service.name, path))
    return found


def path_units(service: ServiceTable) -> Iterator[str]:
    if service.unit is not None and service.notify in set(Verb):
        yield path_unit(service.notify, service.unit)
    if service.validate_unit is not None:
        yield path_unit(VALIDATE, service.validate_unit)


async def log_missing_units(
    services: Sequence[ServiceTable], read_state: Callable[[str], Awaitable[UnitState]]
) -> None:
    for missing in await find_missing_units(services, read_state):
        log.warning("unit not enabled", service=missing.service, detail=str(missing))

"""Where a coordinator's TCP listeners are bound: at all the places that its configuration names, or at none."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import trio

from coordinator.setup.configuration import Address, Configuration
from wire.limits import REMOTE
from wire.listening import ListenError, tcp_listener

Bound = dict[str, trio.SocketListener]


@dataclass(frozen=True)
class Ports:
    """The numbers in the end (a configured port may be 0)."""

    fleet: int
    join: int
    probes: int
    operators: int | None = None
    coordinators: int | None = None

    @classmethod
    def of(cls, bound: Bound) -> "Ports":
        return cls(**{name: int(listener.socket.getsockname()[1]) for name, listener in bound.items()})


@asynccontextmanager
async def bound_to(at: Configuration) -> AsyncIterator[Bound]:
    """By server (listeners.py). ListenError with a line for each place that is not to be had."""
    async with AsyncExitStack() as kept:
        bound, errors = Bound(), list[ListenError]()
        for server, (setting, place) in _places(at).items():
            try:
                made = await tcp_listener(place.host, place.port, setting=setting, backlog=REMOTE.backlog)
            except ListenError as error:
                errors.append(error)
            else:
                bound[server] = await kept.enter_async_context(made)
        if errors:
            raise _all_of(errors)
        yield bound


def _places(at: Configuration) -> dict[str, tuple[str, Address]]:
    places = {"fleet": ("fleet", at.fleet), "join": ("join", at.join), "probes": ("probes", at.probes)}
    if at.admin is not None:
        places["operators"] = ("admin", at.admin)
    if at.coordinators is not None:
        places["coordinators"] = ("coordinators", at.coordinators)
    return {server: (f"[listen] {key}", place) for server, (key, place) in places.items()}


def _all_of(errors: list[ListenError]) -> ListenError:
    """What has to be mended first gives the reason: waiting helps only where it helps with all of them."""
    first = min(errors, key=lambda error: error.may_pass)
    return ListenError(first.reason, "\n".join(map(str, errors)))

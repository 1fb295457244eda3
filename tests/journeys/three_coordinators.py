"""Three coordinators over one PostgreSQL as processes, two prepared on machines of their own; killed, and back."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import Lab, declare_coordinators, introduce, prepared_of, running
from tests.world.ports import free_ports

NAMES = ("coordinator-1", "coordinator-2", "coordinator-3")
Three = tuple[Lab, Lab, Lab]


@contextmanager
def three(
    folder: Path,
    database: str,
    settings: str,
    *,
    of_third: str = "",
    introducing: Callable[[Lab, Lab, Lab], None] = introduce,
) -> Iterator[Three]:
    """All ready, and nobody has carried a secret to the second and the third. `of_third`: by which URL that one has the
    database, where that is another way.
    """
    (folder / "first").mkdir()
    listen = ("--listen", f"0.0.0.0:{free_ports(1)[0]}")  # kept over a stop
    init = ("--host", own_address(), "--database", database, *listen)
    with running(folder / "first", *init, settings=settings) as first:
        ways = (("second", database), ("third", of_third or database))
        prepared = [
            prepared_of(first, folder / place, url, own_address(), name)
            for (place, url), name in zip(ways, NAMES[1:], strict=True)
        ]
        pins = [f"{name}={pin}" for name, (_, pin) in zip(NAMES[1:], prepared, strict=True)]
        declare_coordinators(first, NAMES[0], *pins)
        (second, _), (third, _) = prepared
        for lab in (second, third):
            set_(lab, settings)
        introducing(first, second, third)
        first.stop()
        try:
            come_back(first, second, third)
            yield first, second, third
        finally:
            for lab in (second, third):
                lab.stop()


def set_(lab: Lab, settings: str) -> None:
    with lab.configuration.open("a") as configuration:
        configuration.write(f"\n[settings]\n{settings}\n")


def kill(*labs: Lab) -> None:
    for lab in labs:
        lab.process.send_signal(signal.SIGKILL)
    for lab in labs:
        lab.process.wait()


def come_back(*labs: Lab) -> None:
    for lab in labs:
        lab.start()
    for lab in labs:
        lab.until_ready()

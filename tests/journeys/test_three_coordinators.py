"""One coordinator becomes three over PostgreSQL, and nobody carries a secret; each is killed in turn, two at once,
all of them (rules H1, H2, H41): programs as processes, a node that goes on through all of it.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo.processes import free_ports
from tests.coordinator import postgresql
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import (
    UNGUARDED,
    Lab,
    declare_coordinators,
    introduce,
    prepared_of,
    running,
)
from tests.journeys.gateway import FABRIC, Gateway

pytestmark = pytest.mark.slow

NAMES = ("coordinator-1", "coordinator-2", "coordinator-3")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    with postgresql.or_skip(tmp_path, "coordinators", "THREE COORDINATORS ARE NOT TRIED") as server:
        yield server.url.format("postgres")


@pytest.fixture
def labs(tmp_path: Path, database: str) -> Iterator[tuple[Lab, Lab, Lab]]:
    (tmp_path / "first").mkdir()
    listen = ("--listen", f"0.0.0.0:{free_ports(1)[0]}")  # kept over a stop
    with running(
        tmp_path / "first", "--host", own_address(), "--database", database, *listen, settings=UNGUARDED
    ) as first:
        prepared = [
            prepared_of(first, tmp_path / folder, database, own_address(), name)
            for folder, name in zip(("second", "third"), NAMES[1:], strict=True)
        ]
        pins = [f"{name}={pin}" for name, (_, pin) in zip(NAMES[1:], prepared, strict=True)]
        declare_coordinators(first, NAMES[0], *pins)
        found = (first, *(lab for lab, _ in prepared))
        for lab in found[1:]:
            with lab.configuration.open("a") as configuration:
                configuration.write(f"\n[settings]\n{UNGUARDED}\n")
        introduce(*found)
        first.stop()
        first.start()
        for lab in found[1:]:
            lab.start()
        try:
            for lab in found:
                lab.until_ready()
            yield found
        finally:
            for lab in found[1:]:
                lab.stop()


def url(lab: Lab) -> str:
    """A signed list may not lead to a loopback (threats D-47)."""
    return f"https://{own_address()}:{lab.ports['fleet']}"


def declare(lab: Lab, port: int, *labs: Lab) -> None:
    urls = ", ".join(f'"{url(each)}"' for each in labs)
    (lab.folder / "fabric.yaml").write_text(FABRIC.format(port=port).replace('"https://localhost:7443"', urls))
    lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes", "--drop-endpoints")


def seconds_without_writes(lab: Lab) -> float:
    """As an operator would, who tries again; for no longer than a node does by itself."""
    began = time.monotonic()
    while lab.ctl("allow", "add", f"n{os.urandom(4).hex()}").status != 0:
        assert time.monotonic() - began < 60, lab.readiness()
    return time.monotonic() - began


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


def lose_secrets(lab: Lab) -> None:
    """All but its identity and its token key."""
    for path in lab.keys.iterdir():
        if path.name.partition(".")[0] not in ("identity", "token"):
            path.unlink()


def test_each_stands_in_for_the_others_and_nobody_carried_a_secret(labs: tuple[Lab, Lab, Lab], tmp_path: Path) -> None:
    """rules H1, H2, H41, H22, K26: no write fails at another one, the node takes each change from whoever is there, and
    those that have lost their secrets get them again without an operator
    """
    first, second, third = labs
    for lab in labs:
        assert lab.good("audit", "verify", "--json").json["good"]
        standings = lab.good("coordinators", "status", "--json").json["coordinators"]
        assert {each["coordinator_id"] for each in standings} == set(NAMES)
    seeds = {(lab.keys / "seed").read_bytes() for lab in labs if (lab.keys / "seed").exists()}
    assert len(seeds) == 1
    port = 8081
    declare(first, port, *labs)
    gateway = Gateway(tmp_path / "node", second)
    try:
        gateway.join(port)
        for down in ([second], [third], [first], [second, third]):
            kill(*down)
            left = next(lab for lab in labs if lab not in down)
            port += 1
            print(f"writes at another one {seconds_without_writes(left):.2f} s after {len(down)} were killed")
            declare(left, port, *labs)
            gateway.until(lambda now=port: gateway.port() == now, hinted=True)
            assert left.good("audit", "verify", "--json").json["good"]
            come_back(*down)

        declare_coordinators(first, *NAMES)  # in the middle of it
        print(f"writes at the third one {seconds_without_writes(third):.2f} s after the set")
        third.until_ready()
        declare(third, 8090, *labs)
        gateway.until(lambda: gateway.port() == 8090, hinted=True)

        kill(*labs)
        lose_secrets(first)
        lose_secrets(third)
        for lab in labs:
            lab.start()
        began = time.monotonic()
        for lab in labs:
            lab.until_ready()
        print(f"all ready {time.monotonic() - began:.2f} s after the start, two without secrets")
        declare(first, 8091, *labs)
        gateway.until(lambda: gateway.port() == 8091, hinted=True)
        assert first.good("audit", "verify", "--json").json["good"]
    finally:
        gateway.kill()

"""One coordinator becomes three over PostgreSQL, and nobody carries a secret; each is killed in turn, two at once,
all of them (rules H1, H2, H41): programs as processes, a node that goes on through all of it.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.coordinator import postgresql
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import UNGUARDED, Lab, declare_coordinators
from tests.journeys.gateway import FABRIC, WITHIN_S, Gateway
from tests.journeys.three_coordinators import NAMES, Three, come_back, kill, three

pytestmark = pytest.mark.slow


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[Three]:
    with (
        postgresql.or_skip(tmp_path, "coordinators", "THREE COORDINATORS ARE NOT TRIED") as server,
        three(tmp_path, server.url.format("postgres"), UNGUARDED) as found,
    ):
        yield found


def url(lab: Lab) -> str:
    """A signed list may not lead to a loopback (threats D-47)."""
    return f"https://{own_address()}:{lab.ports['fleet']}"


def declare(lab: Lab, port: int, *labs: Lab) -> None:
    urls = ", ".join(f'"{url(each)}"' for each in labs)
    (lab.folder / "fabric.yaml").write_text(FABRIC.format(port=port).replace('"https://localhost:7443"', urls))
    lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes", "--drop-endpoints")


def seconds_without_writes(lab: Lab) -> float:
    """As an operator would, who tries again."""
    began = time.monotonic()
    while lab.ctl("allow", "add", f"n{os.urandom(4).hex()}").status != 0:
        assert time.monotonic() - began < WITHIN_S, lab.readiness()
    return time.monotonic() - began


def lose_secrets(lab: Lab) -> None:
    """All but its identity and its token key."""
    for path in lab.keys.iterdir():
        if path.name.partition(".")[0] not in ("identity", "token"):
            path.unlink()


def test_each_stands_in_for_the_others_and_nobody_carried_a_secret(
    labs: Three, tmp_path: Path, shown: Callable[[str], None]
) -> None:
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
            shown(f"writes at another one {seconds_without_writes(left):.2f} s after {len(down)} were killed")
            declare(left, port, *labs)
            gateway.until(lambda now=port: gateway.port() == now, hinted=True)
            assert left.good("audit", "verify", "--json").json["good"]
            come_back(*down)

        declare_coordinators(first, *NAMES)  # in the middle of it
        shown(f"writes at the third one {seconds_without_writes(third):.2f} s after the set")
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
        shown(f"all ready {time.monotonic() - began:.2f} s after the start, two without secrets")
        declare(first, 8091, *labs)
        gateway.until(lambda: gateway.port() == 8091, hinted=True)
        assert first.good("audit", "verify", "--json").json["good"]
    finally:
        gateway.kill()

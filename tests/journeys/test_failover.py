"""Two coordinators as processes over a PostgreSQL with a standby, which fails over in step, and behind (rules H37)."""

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator import failing_over
from tests.coordinator.failing_over import Pair
from tests.coordinator.postgresql import Unavailable
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import EVERYWHERE, Lab, running, second_of
from tests.journeys.gateway import FABRIC, Gateway
from tests.journeys.test_replicas import url
from tests.journeys.test_restored_backup import readiness

pytestmark = pytest.mark.slow


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        with failing_over.pair(tmp_path) as made:
            yield made
    except Unavailable as error:
        warnings.warn(f"NO POSTGRESQL, NOTHING FAILS OVER: {error}", stacklevel=1)
        pytest.skip(f"NO POSTGRESQL: {error}")


@pytest.fixture
def labs(tmp_path: Path, pair: Pair) -> Iterator[tuple[Lab, Lab]]:
    folder, database = tmp_path / "first", pair.new_database()
    folder.mkdir()
    with running(folder, "--host", own_address(), "--database", database, *EVERYWHERE) as first:
        second = second_of(first, tmp_path / "second", database, own_address())
        second.start()
        second.until_ready()
        try:
            yield first, second
        finally:
            second.stop()


def declare(lab: Lab, port: int, *urls: str) -> int:
    """The exit status."""
    text = FABRIC.format(port=port).replace('"https://localhost:7443"', ", ".join(f'"{each}"' for each in urls))
    (lab.folder / "fabric.yaml").write_text(text)
    return lab.ctl("apply", "-f", lab.folder / "fabric.yaml", "--yes").status


def seconds_without_writes(lab: Lab, since: float) -> float:
    """As an operator would, who tries again: `write` is a change that goes well with any state."""
    while lab.ctl("allow", "add", f"n{os.urandom(4).hex()}").status != 0:
        assert time.monotonic() - since < 60
    return time.monotonic() - since


def test_in_step_nothing_is_lost_and_behind_nothing_is_signed_twice(
    pair: Pair, labs: tuple[Lab, Lab], tmp_path: Path, shown
) -> None:
    """rules P1, P5, K41, P30, X16: the node notices nothing of either, but for the epoch that root keys have raised"""
    first, second = labs
    urls = url(first), url(second)
    pair.keep_in_step()
    assert declare(first, 8081, *urls) == 0
    gateway = Gateway(tmp_path / "node", second)
    try:
        gateway.join(8081)
        begun = time.monotonic()
        pair.fail_over()
        paused = [f"{seconds_without_writes(lab, begun):.1f} s" for lab in labs]
        shown(f"without writes after a primary was killed and its standby promoted at once: {' and '.join(paused)}")
        assert declare(second, 8082, *urls) == 0
        gateway.until(lambda: gateway.port() == 8082)
        assert gateway.status["state"] == "active"

        pair.repair()
        pair.fall_behind()
        assert declare(first, 8083, *urls) == 0
        gateway.until(lambda: gateway.port() == 8083)
        pair.fail_over()
        for lab in labs:
            gateway.until(lambda lab=lab: "a standby that was behind" in readiness(lab)[1], hinted=True)
        declare(first, 8084, *urls)
        assert second.ctl("tokens", "create").status != 0
        first.stop()
        first.start()
        assert "a standby that was behind" in readiness(first)[1]
        assert (gateway.port(), gateway.status["state"]) == (8083, "active")
        assert gateway.status["head"]["authority_epoch"] == 1

        first.good("epoch", "raise", "--root-key", first.roots, "--yes")
        gateway.until(lambda: gateway.port() == 8084 and gateway.status["head"]["authority_epoch"] == 2, hinted=True)
        for lab in labs:
            gateway.until(lambda lab=lab: readiness(lab)[0] == 200, hinted=True)
        assert gateway.status["state"] == "active"
        assert first.good("audit", "verify", "--json").json["faults"] == []
        assert "version_conflict" not in str(first.good("nodes", "events", "gateway", "--json").json)
    finally:
        gateway.kill()

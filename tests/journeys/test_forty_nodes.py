"""Forty nodes, three coordinators and two PostgreSQL servers, while somebody changes something all the time: each
coordinator is killed in turn, the primary is, and at last a standby takes over that was behind (rules H1, H37, P30).
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.coordinator import failing_over
from tests.coordinator.failing_over import Pair
from tests.coordinator.postgresql import Unavailable
from tests.coordinator.test_servers_failover import heads
from tests.holdfast.operator_lab import Lab
from tests.journeys.forty_nodes import LIFETIME_S, NODES, SETTINGS, gateway_of, off_loop, running
from tests.journeys.gateway import Gateway
from tests.journeys.three_coordinators import Three, come_back, kill, three

pytestmark = pytest.mark.slow


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        with failing_over.pair(tmp_path) as made:
            yield made
    except Unavailable as error:
        warnings.warn(f"NO POSTGRESQL, FORTY NODES ARE NOT TRIED: {error}", stacklevel=1)
        pytest.skip(f"NO POSTGRESQL: {error}")


@pytest.fixture
def url(pair: Pair) -> str:
    return pair.new_database()


@pytest.fixture
def labs(tmp_path: Path, url: str) -> Iterator[Three]:
    with three(tmp_path, url, SETTINGS) as found:
        yield found


@pytest.fixture
def gateway(labs: Three, tmp_path: Path) -> Iterator[Gateway]:
    made = gateway_of(labs, tmp_path / "gateway")
    yield made
    made.kill()


def until_all_stand(labs: Sequence[Lab]) -> None:
    for lab in labs:
        end = time.monotonic() + 120
        while "epoch raise" not in (said := lab.readiness())[1]:
            assert time.monotonic() < end, (said, lab.log())
            time.sleep(0.2)


async def test_forty_nodes_go_on_whatever_is_killed(
    labs: Three, gateway: Gateway, pair: Pair, url: str, tmp_path: Path, shown: Callable[[str], None]
) -> None:
    """rules H1, H2, H37, H41, K41, P1, P30, X16: no node ever has two contents under one number, goes a step back, or
    sees its head end; what was acknowledged is there, but for what a standby that was behind never had
    """
    async with running(labs, gateway, tmp_path) as fleet:
        writer = fleet.writer
        await fleet.all_are_given_the_same()

        for number, lab in enumerate(labs):
            writer.at = number
            await writer.written_after(time.monotonic())
            began = time.monotonic()
            await off_loop(kill, lab)
            shown(f"writes {await writer.written_after(began):.2f} s after coordinator {number + 1} was killed")
            await fleet.all_run(writer.last)
            await off_loop(come_back, lab)
            await fleet.all_are_given_the_same()

        processes = [lab.process.pid for lab in labs]
        await off_loop(pair.keep_in_step)
        await writer.written_after(time.monotonic())
        await off_loop(pair.primary.stop)
        await fleet.all_are_signed_again()
        heard = [await each.compare(all_know_it=False) for each in fleet.nodes]
        assert min(heard) >= 1
        began = time.monotonic()
        await off_loop(pair.fail_over)
        shown(f"writes {await writer.written_after(began):.2f} s after a standby in step was promoted, late")
        for lab in labs:
            await off_loop(lab.until_ready)
        await fleet.all_are_given_the_same()

        await off_loop(pair.repair)
        await off_loop(pair.keep_in_step)
        await writer.written_after(time.monotonic())
        kept = writer.last
        await off_loop(pair.fall_behind)
        await writer.written_after(time.monotonic())
        await writer.written_after(time.monotonic())
        await fleet.all_run(writer.last)
        began = time.monotonic()
        await off_loop(pair.fail_over)
        promoted = time.monotonic()
        before = await off_loop(heads, url)
        await off_loop(until_all_stand, labs)
        shown(f"all stand {time.monotonic() - began:.2f} s after a standby took over that was behind")
        await fleet.all_are_refused()
        held = [each.version for each in fleet.nodes]
        await fleet.all_are_refused()
        assert [each.version for each in fleet.nodes] == held
        assert await off_loop(heads, url) == before
        await off_loop(partial(labs[0].good, "epoch", "raise", "--root-key", labs[0].roots, "--yes"))
        shown(f"writes {await writer.written_after(began):.2f} s after it, the epoch raised by root keys meanwhile")
        for lab in labs:
            await off_loop(lab.until_ready)
        await fleet.all_run(writer.last, epoch=2)
        await off_loop(gateway.until, lambda: gateway.status["head"]["authority_epoch"] == 2)
        writer.acknowledged = [each for each in writer.acknowledged if each[0] <= kept or each[1] > promoted]
        await fleet.all_are_given_the_same()
        assert [lab.process.pid for lab in labs] == processes

        shown(
            f"{writer.last} writes, {len(fleet.ledger.said)} contents at {NODES} nodes, each under a number of its own"
        )
        shown(f"the head of no node was nearer to its end than {fleet.view_left_s:.0f} s of {LIFETIME_S}")

"""What a refusal costs in half a simulated hour, and in any: no pause grows longer by then. For each reaction, and for
each way in which a service or a store keeps a document out, as an increment and as a whole. Requests, runs of the
validator and commits of the store are counted while heads go on coming, some of them ten in a second; afterwards the
next good version is taken at once. tests/journeys/test_refused_for_days.py has a fortnight of it.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

import pytest
import trio

from agent.base.commands import run_command
from agent.services import validators
from agent.update import second_look
from tests.agent.bench import bench
from tests.fakes.clock import THRESHOLD_S, HoldingLimiter
from tests.fakes.cluster import HOUR, NOW, key
from tests.fakes.damage import flipped
from tests.journeys.lab import ROUTES, SELDOM, lab
from wire.backoff import LEAST_S

WHILE_S = HOUR / 2
HEAD_EVERY_S = WHILE_S / 4
NOTHING = "sha256:" + "0" * 64


@dataclass(frozen=True)
class Case:
    """`members` of the document's envelope that make it bad; `says` what the validator does with it."""

    name: str
    reason: str
    members: tuple[tuple[str, object], ...] = ()
    content: object = ("bad",)
    says: str = ""
    requests: int = 80  # most of them
    runs: int = 0


NEXT_SOURCE = Case("next_source", "")
FULL_RESYNC = Case("full_resync", "base_mismatch", (("base_content_hash", NOTHING),))
REFRESH_TRUST = Case("refresh_trust", "unknown_key", requests=50)
GIVE_UP = Case("give_up", "bad_validity", (("refresh_after", NOW - HOUR),), requests=30)
ALARM = Case("alarm", "raw_secret", content={"password": "not in the clear"}, requests=30)
REFUSED = Case("a validator says no", "validator_refused", says="exit 1", requests=2, runs=1)
KILLED = Case("a validator is killed", "validator_refused", says="kill -9 $$", requests=30, runs=15)
NOT_STARTED = Case("a validator is not there", "validator_refused", says="exit 127", requests=30, runs=15)
TOO_MUCH = Case("the store is full", "", content=["x" * 60_000] * 40)

EITHER = [NEXT_SOURCE, TOO_MUCH]
"""The others are judged by what a document says, after it has come: one form each, and both are among them."""
CASES = [
    *((case, form) for case in EITHER for form in ("increment", "whole")),
    *((case, "increment") for case in (FULL_RESYNC, REFRESH_TRUST, GIVE_UP, REFUSED, NOT_STARTED)),
    *((case, "whole") for case in (ALARM, KILLED)),
]


@pytest.fixture
def held_by_commands(mock_clock, monkeypatch):
    """While a command runs the clock stands still: what a process does takes no time."""

    async def run(*arguments, **named):
        HoldingLimiter.working += 1
        mock_clock.autojump_threshold = math.inf
        try:
            return await run_command(*arguments, **named)
        finally:
            HoldingLimiter.working -= 1
            if not HoldingLimiter.working:
                mock_clock.autojump_threshold = THRESHOLD_S

    monkeypatch.setattr(validators, "run_command", run)


def validated(folder, case) -> str:
    """A validator that does so with what is bad; it notes its runs."""
    if not case.says:
        return ""
    script = f"grep -q bad route_policy/*.json && echo x >> {folder}/runs && {case.says}; true"
    return f'\n[[service]]\nname = "web"\nscopes = ["{ROUTES}"]\nvalidate = ["/bin/sh", "-c", "{script}"]\n'


def publish_bad(server, case, form) -> None:
    cluster, members = server.cluster, dict(case.members) | server.times() | dict(case.members)
    signed = {"keys": [key("nobody")]} if case is REFRESH_TRUST else {}
    sections = {"routes": case.content}
    if form == "increment":
        server.publish(cluster.increment(ROUTES, sets=sections, snapshot_id="by-itself", **members, **signed))
    if case is FULL_RESYNC:
        return
    version = cluster.versions[ROUTES] + (form == "whole")
    server.publish(cluster.snapshot(sections, ROUTES, config_version=version, **members, **signed))
    cluster.versions[ROUTES] = version
    if case is NEXT_SOURCE:
        server.spoil = lambda path, data: flipped(data, 8 * 300) if ROUTES in path else data


def counted(one) -> Counter:
    """By what was asked for; heads and reports come as often as they are to."""
    return Counter(
        request for request in one.server.requests if "/v1/head" not in request and "/v1/heartbeat" not in request
    )


def looks() -> int:
    """At trust bundles of whoever else there is: as often, whatever is refused."""
    return int(WHILE_S / (second_look.EVERY_S * (1 - second_look.SHARE))) + 1


def commits(one) -> int:
    with one.node.store.read() as reading:
        return reading.commit_number


async def half_an_hour_goes_by(one) -> None:
    """Heads go on coming; once ten of them in a second."""
    for number in range(int(WHILE_S / HEAD_EVERY_S)):
        await trio.sleep(HEAD_EVERY_S)
        for _ in range(10 if number == 1 else 1):
            one.server.announce()
            await trio.sleep(0.1)


@pytest.mark.parametrize(("case", "form"), CASES, ids=[f"{case.name}, {form}" for case, form in CASES])
async def test_what_is_refused_costs_little_and_the_next_good_one_is_taken_at_once(
    tmp_path, mock_clock, held_by_commands, case, form
):
    """rules S27, S28, S53, X27, P1"""
    async with lab(tmp_path, mock_clock, text=SELDOM + validated(tmp_path, case), for_hours=True) as one:
        limits = replace(one.settings.limits, map_bytes=1 << 20) if case is TOO_MUCH else one.settings.limits
        async with one.agent(limits=limits):
            await one.settled()
            before, first, committed = counted(one), one.cluster.states[ROUTES], commits(one)
            publish_bad(one.server, case, form)
            one.server.announce()
            await half_an_hour_goes_by(one)
            asked = counted(one) - before
            assert 1 <= asked.total() - min(asked["GET /v1/trust"], looks()) <= case.requests, asked
            runs = (tmp_path / "runs").read_text().count("x") if case.says else 0
            assert min(1, case.runs) <= runs <= case.runs
            assert commits(one) - committed < 300
            assert one.version(ROUTES) == 1
            if case.reason:
                assert one.rejected(ROUTES) == case.reason
            one.server.spoil = lambda _, data: data
            if form == "increment":
                one.server.publish_increment(ROUTES, sets={"routes": {"good": {}}}, base=first)
            else:
                one.server.snapshot({"routes": {"good": {}}}, ROUTES)
            one.server.announce()
            version = one.cluster.versions[ROUTES]
            await one.until(lambda: one.version(ROUTES) == version, within_s=5 * LEAST_S)


async def test_a_trust_bundle_that_is_refused_costs_little(tmp_path, mock_clock):
    """threats D-42; rules X27: a head may list what no chain leads to"""
    async with lab(tmp_path, mock_clock, text=SELDOM, for_hours=True) as one:
        async with one.agent():
            await one.settled()
            before = counted(one)
            between = one.cluster.trust_bundle(**one.server.times()).to_bytes()
            one.server.publish(one.cluster.trust_bundle(**one.server.times()))
            one.server.announce()
            await half_an_hour_goes_by(one)
            asked = counted(one) - before
            assert 1 <= asked["GET /v1/trust"] <= 35, asked
            one.server.bundles.insert(1, between)
            one.server.publish(one.cluster.trust_bundle(**one.server.times()))
            one.server.announce()
            await one.until(lambda: one.node.holdings.bundle.version == 4, within_s=5 * LEAST_S)


async def test_who_wakes_in_a_loop_gets_one_attempt_a_second(one, mock_clock):
    """rules P14, J44: a signal that is sent all the time, for a document that nobody has"""
    async with bench(one) as made:
        await made.settle()
        made.server.snapshot({"routes": {"south": {}}}, ROUTES)
        made.server.announce()
        gone = dict(made.server.documents)
        made.server.documents.clear()
        await made.outside.refresh.ask(made.coordinator)
        before = counted(one)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.outside.update.run)
            for _ in range(1000):
                made.outside.wake()
                await trio.sleep(0.01)
            asked = counted(one) - before
            assert 2 <= asked[f"GET /v1/documents/{ROUTES}-2"] <= 11, asked
            made.server.documents.update(gone)
            made.outside.wake()
            await one.until(lambda: one.version(ROUTES) == 2, within_s=5 * LEAST_S)
            nursery.cancel_scope.cancel()

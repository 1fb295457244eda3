"""New content on probation: services are asked, and the node goes back by itself (rules S67, S68, L34)."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trio

from agent.config.configuration import ServiceTable
from agent.services.notifiers import Told
from agent.services.probation_terms import ANSWERED_S, probation_terms
from snapshot.identifiers import HEAD
from store.base.records import ProbationTerms
from tests.fakes.clock import Inline
from tests.fakes.cluster import DAY, HOUR, listing
from tests.journeys.lab import ROUTES, lab
from tests.world import elapsed

WEB = "service_assignment/web"
LASTS_S = 60
SERVICE = """
[[service]]
name = "proxy"
scopes = ["route_policy"]
check_http = "unix:{socket}:/health"
check_interval_s = 5
"""
OF_TWO = """
[[service]]
name = "restarted"
scopes = ["route_policy", "qos_policy"]
check_http = "unix:{socket}:/health"
check_interval_s = 5
"""
GOOD, BAD, OTHER = ({"routes": {name: {"via": "a"}}} for name in ("good", "bad", "other"))


@dataclass
class Health:
    """A service's own word, on a socket: what it says from when on."""

    socket: Path
    status: str = "200 OK"
    asked: list[float] = field(default_factory=list)
    refused: int = 0

    @asynccontextmanager
    async def running(self):
        listening = trio.socket.socket(trio.socket.AF_UNIX)
        await listening.bind(str(self.socket))
        listening.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._answer, [trio.SocketListener(listening)])
            yield self
            nursery.cancel_scope.cancel()

    async def _answer(self, stream):
        await stream.receive_some(4096)
        self.asked.append(trio.current_time())
        self.refused += self.status.startswith("5")
        if self.status == "hangs":
            await trio.sleep_forever()
        await stream.send_all(f"HTTP/1.1 {self.status}\r\ncontent-length: 2\r\n\r\nok".encode())
        await stream.aclose()


@asynccontextmanager
async def proxied(tmp_path, mock_clock, text=SERVICE):
    """A node with a proxy that says how it is; version 1 of its routes is good."""
    health = Health(tmp_path / "health.sock")
    async with health.running(), lab(tmp_path, mock_clock, text=text.format(socket=health.socket)) as one:
        yield one, health


def roll_out(one, *documents, probation_s=LASTS_S, **more):
    """A head whose entries of these are of a change, with a probation."""
    scopes = {scope: listing(document) for scope, document in one.cluster.published.items() if scope != HEAD}
    for document in documents:
        scope = document.envelope.scope
        scopes[scope] = replace(scopes[scope], change="c-1", probation_s=probation_s, **more)
    one.server.announce(scopes=scopes)


def probation(one, scope=ROUTES):
    return one.node.holdings.kept.probations.get(scope)


def good(one, scope=ROUTES):
    with one.node.store.read() as reading:
        return reading.trial(scope).good


def report_of(heartbeat, scope=ROUTES):
    return heartbeat.scopes[scope]


async def on_probation(one, content=BAD, **more):
    document = one.server.snapshot(content, ROUTES)
    roll_out(one, document, **more)
    await one.until_active(ROUTES, document.envelope.config_version)
    return document


# ---- the way of a change


async def test_what_stays_well_is_good_when_its_time_is_over(tmp_path, mock_clock):
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            assert good(one) == one.node.store.active(ROUTES).content_hash
            before, started = good(one), trio.current_time()
            document = await on_probation(one, GOOD)
            assert (good(one), probation(one).lasts_s) == (before, LASTS_S)
            await one.until(lambda: probation(one) is None)
            assert elapsed.since(started) == pytest.approx(LASTS_S, abs=2)
            assert good(one) == document.envelope.content_hash
            assert len(health.asked) == 11, "each five seconds, once it was told"
            assert [event.event for event in one.node.store.journal.events(0)][-1] == "probation_passed"
            report = report_of(await one.server.wait_heartbeat())
            assert (report.good, report.probation_until, report.reverted) == (good(one), None, None)
        assert one.version(ROUTES) == 2


@pytest.mark.parametrize("ill", ["503 Service Unavailable", "hangs", "302 Found", "gone"])
async def test_one_no_takes_it_back_within_a_second(tmp_path, mock_clock, ill):
    """... and the consumers read what was good before, with nobody else's help"""
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            before = good(one)
            await on_probation(one)
            await trio.sleep(22)
            one.server.down = True
            health.status = ill
            if ill == "gone":
                health.socket.unlink()
            began = trio.current_time()
            await one.until_active(ROUTES, 1)
            assert elapsed.since(began) <= 5 + (5 if ill == "hangs" else 0) + 1
            assert (good(one), probation(one)) == (before, None)
            assert one.mark(ROUTES) == (1, 2)
            assert one.state == "active", "it serves what it is to serve in such a case"
            file = tmp_path / "run" / "active" / "route_policy" / "routes.json"
            await one.until(lambda: file.read_text() == '{"north":{"via":"a"}}')
            assert one.node.counters.all()["probations_failed"] == 1


async def test_what_was_tried_is_told_and_not_tried_again(tmp_path, mock_clock):
    """ "Tried B, went back to A" is told apart from "never got B"; a head that goes on listing it is put up with"""
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            document = await on_probation(one)
            health.status = "503 Service Unavailable"
            await one.until_active(ROUTES, 1)
            health.status = "200 OK"
            told = report_of(await one.server.wait_heartbeat(lambda one: report_of(one).reverted is not None))
            assert (told.active.config_version, told.attempted.config_version) == (1, 2)
            assert (told.reverted.content_hash, told.reverted.check) == (document.envelope.content_hash, "proxy")
            assert "503" in told.reverted.detail
            asked = one.server.requests.count(f"GET /v1/documents/{document.envelope.snapshot_id}")
            await trio.sleep(HOUR / 8)
            assert one.server.requests.count(f"GET /v1/documents/{document.envelope.snapshot_id}") == asked
            assert one.rejected(ROUTES) == "quarantined"
            assert (one.version(ROUTES), one.state) == (1, "active")
            refused = (await one.status())["refused"][ROUTES]
            assert (refused["reason"], refused["runs"], refused["refused"]) == ("quarantined", "1.1", "1.2")
            # The old content under a new version is a renewal; other content begins anew.
            renewed = one.server.snapshot({"routes": {"north": {"via": "a"}}}, ROUTES)
            roll_out(one, renewed)
            await one.until_active(ROUTES, 3)
            assert probation(one) is None
            await on_probation(one, OTHER)
            assert probation(one) is not None
            await one.until(lambda: probation(one) is None)
            assert one.version(ROUTES) == 4


async def test_a_cleared_quarantine_lets_it_be_tried_again(tmp_path, mock_clock):
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            document = await on_probation(one)
            health.status = "503 Service Unavailable"
            await one.until_active(ROUTES, 1)
            health.status = "200 OK"
            await trio.sleep(HOUR / 8)
            await one.clear_quarantine(ROUTES)
            await one.until_active(ROUTES, 2)
            assert probation(one) is not None
            await one.until(lambda: probation(one) is None)
            assert good(one) == document.envelope.content_hash


async def test_all_of_a_change_goes_back_together(tmp_path, mock_clock):
    """rules X17: a scope that no check is about goes with the one that fails; another change stays"""
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            one.server.snapshot({"qos": {}}, "qos_policy")
            one.server.announce()
            await one.until_active("qos_policy", 1)
            documents = [one.server.snapshot({"qos": {"x": 1}}, "qos_policy"), one.server.snapshot(BAD, ROUTES)]
            roll_out(one, *documents)
            await one.until_active(ROUTES, 2)
            assert probation(one, "qos_policy").began == probation(one).began
            health.status = "503 Service Unavailable"
            await one.until_active(ROUTES, 1)
            assert one.version("qos_policy") == 1


async def test_without_any_check_time_passes_it(one, mock_clock):
    async with one.agent():
        await one.settled()
        await on_probation(one)
        await one.until(lambda: probation(one) is None)
        assert (one.version(ROUTES), good(one)) == (2, one.node.store.active(ROUTES).content_hash)


async def test_with_nothing_to_go_back_to_it_stays_and_says_so(tmp_path, mock_clock):
    """Any configuration is better for a service than none."""
    async with proxied(tmp_path, mock_clock, text=SERVICE + "probation_s = 30\n") as (one, health):
        health.status = "503 Service Unavailable"
        async with one.agent():
            await one.until_active(ROUTES, 1)
            told = report_of(await one.server.wait_heartbeat(lambda one: report_of(one).reverted is not None))
            assert (told.good, told.attempted) == (None, None)
            assert told.reverted.content_hash == told.active.content_hash
            assert one.version(ROUTES) == 1
            assert [event.event for event in one.node.store.journal.events(0)][-1] == "nothing_to_go_back_to"
            health.status = "200 OK"
            one.server.snapshot(GOOD, ROUTES)
            one.server.announce()
            await one.until_active(ROUTES, 2)
            await one.until(lambda: probation(one) is None)
            assert good(one) == one.node.store.active(ROUTES).content_hash


async def test_what_was_never_asked_is_asked_before_it_is_good(tmp_path, mock_clock):
    """A probation that is shorter than the interval between two questions"""
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            health.status = "503 Service Unavailable"
            await on_probation(one, probation_s=2)
            await one.until_active(ROUTES, 1)
            assert len(health.asked) == 1


@pytest.mark.parametrize("text", ["", SERVICE])
async def test_what_the_files_cannot_show_is_not_good(tmp_path, mock_clock, text):
    """Nobody could read it, nor be told of it; and whoever is asked whether it is well has not seen it"""
    async with proxied(tmp_path, mock_clock, text=text) as (one, health):
        async with one.agent():
            await one.settled()
            link, away = tmp_path / "run" / "active", tmp_path / "run" / "was"
            await one.until((link / "route_policy" / "routes.json").exists)
            link.rename(away)
            link.mkdir()
            document = await on_probation(one, GOOD)
            asked = len(health.asked)
            await one.until_active(ROUTES, 1)
            told = report_of(await one.server.wait_heartbeat(lambda one: report_of(one).reverted is not None))
            assert (told.reverted.content_hash, told.reverted.check) == (document.envelope.content_hash, "files")
            assert told.reverted.detail.startswith("not_ours: ") and "no symlink of ours" in told.reverted.detail
            assert len(health.asked) == asked
            link.rmdir()
            await on_probation(one, OTHER)
            await one.until(lambda: probation(one) is None)
            assert one.version(ROUTES) == 3
            assert (link / "route_policy" / "routes.json").read_text() == '{"other":{"via":"a"}}'


@dataclass(frozen=True)
class Restart:
    """A service that is away for as long as it is told."""

    health: Health

    async def tell(self, service, generation):
        self.health.status = "503 Service Unavailable"
        await trio.sleep(20)
        self.health.status = "200 OK"
        return Told(True)


async def test_a_no_while_it_is_told_is_asked_again(tmp_path, mock_clock, monkeypatch):
    """A restart takes its time, also one that another scope has brought."""
    async with proxied(tmp_path, mock_clock, text=OF_TWO) as (one, health):
        monkeypatch.setattr("agent.local.local._notifier", lambda *_: Restart(health))
        async with one.agent():
            await one.settled()
            await trio.sleep(30)
            document = await on_probation(one, GOOD, probation_s=120)
            await trio.sleep(40)
            one.server.snapshot({"qos": {"x": 1}}, "qos_policy")
            roll_out(one, document, probation_s=120)
            await one.until_active("qos_policy", 1)
            await one.until(lambda: probation(one) is None)
            assert one.version(ROUTES) == 2
            assert health.refused > 0, "it was asked in between"


@dataclass(frozen=True)
class SlowReload:
    """A service that goes on with what was before while it is told; it can live with the first content alone."""

    health: Health
    told: list[int] = field(default_factory=list)

    async def tell(self, service, generation):
        self.told.append(generation)
        await trio.sleep(20)
        self.health.status = "503 Service Unavailable" if len(self.told) == 2 else "200 OK"
        return Told(True)


@pytest.mark.parametrize("probation_s", [2, 10])
async def test_a_yes_before_it_was_told_is_of_what_was_before(tmp_path, mock_clock, monkeypatch, probation_s):
    """Also where the time of the probation is over by then"""
    async with proxied(tmp_path, mock_clock) as (one, health):
        monkeypatch.setattr("agent.local.local._notifier", lambda *_, slow=SlowReload(health): slow)
        async with one.agent():
            await one.settled()
            await trio.sleep(30)
            await on_probation(one, probation_s=probation_s)
            await one.until_active(ROUTES, 1)
            assert health.refused == 1


# ---- starts, clocks


async def test_a_reboot_in_the_middle_goes_on_counting(tmp_path, mock_clock):
    async with proxied(tmp_path, mock_clock) as (one, _):
        async with one.agent():
            await one.settled()
            await on_probation(one, GOOD)
            await trio.sleep(20)
        await trio.sleep(5)
        one.clock.reboot()
        async with one.agent():
            assert one.version(ROUTES) == 2
            began = trio.current_time()
            await one.until(lambda: probation(one) is None)
            assert elapsed.since(began) == pytest.approx(LASTS_S - 25, abs=2)
            assert one.version(ROUTES) == 2


async def test_a_check_that_fails_after_the_reboot(tmp_path, mock_clock):
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            await on_probation(one)
            await trio.sleep(10)
        one.clock.reboot()
        one.server.down = True
        health.status = "503 Service Unavailable"
        async with one.agent():
            await one.until_active(ROUTES, 1)
        async with one.agent():
            assert one.version(ROUTES) == 1


class LateTable(Inline):
    """What services were told before is read when everything else of a start is over."""

    async def read(self, operation, *arguments, **named):
        if getattr(operation, "__name__", "") == "items":
            await trio.sleep(1)
        return await super().read(operation, *arguments, **named)


async def test_what_was_told_before_is_asked_of_also_where_that_is_read_late(tmp_path, mock_clock):
    """A restart while nobody else is there: nothing else happens that would have it look again"""
    async with proxied(tmp_path, mock_clock) as (one, health):
        async with one.agent():
            await one.settled()
            await on_probation(one, probation_s=DAY)
            await trio.sleep(10)
        one.server.down = True
        one.threads = LateTable
        health.asked.clear()
        async with one.agent():
            await trio.sleep(15)
            assert len(health.asked) == 2


async def test_a_crash_loop_goes_back_at_the_start(tmp_path, mock_clock):
    """The agent dies of what it holds again and again: nobody is there to ask, so the start itself goes back."""
    async with proxied(tmp_path, mock_clock) as (one, _):
        async with one.agent():
            await one.settled()
            await on_probation(one)
        for _ in range(2):
            async with one.agent():
                assert one.version(ROUTES) == 2
        async with one.agent():
            assert one.version(ROUTES) == 1
            failed = one.node.store.standing().quarantine
            assert failed.keys() == {ROUTES}
            told = report_of(await one.server.wait_heartbeat(lambda one: report_of(one).reverted is not None))
            assert (told.reverted.check, told.reverted.detail) == ("start", "the agent ended 3 times without order")


async def test_two_reboots_without_order_go_back_at_the_start(tmp_path, mock_clock):
    async with proxied(tmp_path, mock_clock) as (one, _):
        async with one.agent():
            await one.settled()
            await on_probation(one)
        one.clock.reboot()
        async with one.agent():
            assert one.version(ROUTES) == 2
        one.clock.reboot()
        async with one.agent():
            assert one.version(ROUTES) == 1


@pytest.mark.parametrize("offset_s", [30 * DAY, -30 * DAY])
async def test_a_wall_clock_that_jumps_changes_nothing(tmp_path, mock_clock, offset_s):
    async with proxied(tmp_path, mock_clock) as (one, _):
        one.clock.synchronised = False
        async with one.agent():
            await one.settled()
            began = trio.current_time()
            await on_probation(one, GOOD)
            await trio.sleep(10)
            one.clock.wall_offset_s = offset_s
            await trio.sleep(LASTS_S - 15)
            assert probation(one) is not None
            await one.until(lambda: probation(one) is None)
            assert elapsed.since(began) == pytest.approx(LASTS_S, abs=3)


# ---- the way to the coordinators


WAY = "check_coordinator = true\n"


async def test_a_change_that_cuts_the_node_off_goes_back(tmp_path, mock_clock):
    """Where a service says that the way depends on it: when its time is over, and nobody is there any more"""
    async with proxied(tmp_path, mock_clock, text=SERVICE + WAY) as (one, _):
        async with one.agent():
            await one.settled()
            await on_probation(one)
            assert probation(one).way
            one.server.hang = "GET /v1/head"
            await one.until_active(ROUTES, 1)
            with one.node.store.read() as reading:
                assert reading.failure(ROUTES).check == "coordinator"


async def test_a_coordinator_that_says_no_takes_nothing_back(tmp_path, mock_clock):
    """Who says no is there, and so is the way to it (test_way.py)."""
    async with proxied(tmp_path, mock_clock, text=SERVICE + WAY) as (one, _):
        async with one.agent():
            await one.settled()
            await on_probation(one, GOOD)
            one.server.down = True
            await one.until(lambda: probation(one) is None)
            assert one.version(ROUTES) == 2


async def test_an_outage_takes_nothing_back_that_leads_nowhere(tmp_path, mock_clock):
    """Of a change that cannot cut the node off, the silence of all coordinators is no consequence."""
    async with proxied(tmp_path, mock_clock) as (one, _):
        async with one.agent():
            await one.settled()
            await on_probation(one, GOOD)
            assert not probation(one).way
            one.server.hang = "GET /v1/head"
            await one.until(lambda: probation(one) is None)
            assert one.version(ROUTES) == 2


def service(**more):
    return ServiceTable(name="s", scopes=("route_policy",), **more)


@pytest.mark.parametrize(
    ("listed", "services", "ago", "expected"),
    [
        (None, [], 1, None),
        (0, [], 1, None),
        (30, [], 1, ProbationTerms(30.0)),
        (30, [service()], 1, ProbationTerms(30.0)),
        (30, [service(probation_s=60)], 1, ProbationTerms(60.0)),
        (60, [service(probation_s=10)], 1, ProbationTerms(10.0)),
        (60, [service(probation_s=10), service()], 1, ProbationTerms(60.0)),
        (60, [service(probation_s=0)], 1, None),
        (None, [service(probation_s=10)], 1, ProbationTerms(10.0)),
        (30, [service(check_coordinator=True)], ANSWERED_S, ProbationTerms(30.0, way=True)),
        (30, [service(check_coordinator=True)], ANSWERED_S + 1, ProbationTerms(30.0)),
        (30, [service(check_coordinator=True)], float("inf"), ProbationTerms(30.0)),
    ],
)
def test_the_terms(listed, services, ago, expected):
    assert probation_terms("route_policy", listed, services, ago) == expected


def test_where_coordinators_are_leads_out_by_itself():
    assert probation_terms("node_bootstrap", 30, [], 5) == ProbationTerms(30.0, way=True)
    assert probation_terms("node_bootstrap", None, [], 5) is None

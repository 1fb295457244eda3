"""Reports: what they say, what they deliver, and what an answer changes."""

import itertools

import trio

from tests.agent.bench import bench
from tests.fakes.cluster import HOUR
from tests.journeys.lab import lab
from tests.world import elapsed
from wire.messages import HEARTBEAT_BYTES, Recorded, ScopeLimits, Vote

ROUTES = "route_policy"
HASH = "sha256:" + "0" * 64


async def test_a_report_says_what_is_active(one, mock_clock):
    """rules S30, K44, L38"""
    async with one.agent():
        await one.settled()
        await trio.sleep(1)  # a report that was written before has come
        report = await one.server.wait_heartbeat(lambda report: ROUTES in report.scopes)
        active = report.scopes[ROUTES].active
        document = one.cluster.published[ROUTES].envelope
        assert (active.authority_epoch, active.config_version) == document.version
        assert active.content_hash == document.state_hash
        assert report.incarnation == one.node.store.incarnation
        assert report.head.generation == 1
        assert report.trust_bundle_version == 1
        assert (report.state, report.mode, report.degraded_since) == ("active", "normal", None)
        (url,) = one.settings.coordinator.urls
        origin = report.scopes[ROUTES].origin
        assert (origin.way, origin.source, origin.snapshot_id) == ("coordinator", url, active.snapshot_id)
        assert report.relay is None, "nobody is there to keep anything for"
        assert report.interval_s == one.settings.intervals.heartbeat_interval_s


async def test_reports_come_at_their_interval_with_jitter(one, mock_clock):
    """rules J42; Numbers: 30 s, 20 %"""
    async with one.agent():
        await one.settled()
        await one.server.wait_heartbeat()
        before = len(one.server.heartbeats)
        await trio.sleep(1200)
        sent = [report.sent_at for report in one.server.heartbeats[before:]]
        pauses = [later - earlier for earlier, later in itertools.pairwise(sent)]
        assert 1200 / 36 - 2 <= len(sent) <= 1200 / 24 + 2
        assert min(pauses) < 28 and max(pauses) > 32, "spread over 24 to 36 s: a fleet does not report in one breath"


async def test_an_activation_is_reported_soon(one, mock_clock):
    """protocol.md 3"""
    async with one.agent():
        await one.settled()
        await trio.sleep(100)
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        start = trio.current_time()
        await one.server.wait_heartbeat(lambda report: report.scopes[ROUTES].active.config_version == 2)
        assert elapsed.since(start) < 5


async def test_what_happens_at_once_is_one_report(one, mock_clock):
    """protocol.md 3: agents that tests start as processes report sooner than this (tests/world/fork_server.py)"""
    async with one.agent():
        await one.settled()
        await trio.sleep(100)
        await one.server.wait_heartbeat()  # the next one is far away
        await trio.sleep(2)
        before, start = len(one.server.heartbeats), trio.current_time()
        for _ in range(4):
            one.node.tell_news()
            await trio.sleep(0.2)
        await one.server.wait_heartbeat()
        assert elapsed.since(start) >= 1
        await trio.sleep(3)
        assert len(one.server.heartbeats) == before + 1


async def test_events_are_sent_until_they_are_acknowledged(for_hours, mock_clock):
    """rules A13; protocol.md 3"""
    one = for_hours
    async with one.agent():
        await one.settled()
        await one.server.wait_heartbeat(lambda report: not report.journal)
        one.server.down = True
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        await trio.sleep(HOUR)
        one.server.down = False
        report = await one.server.wait_heartbeat()
        said = [event.detail for event in report.journal if event.event == "state_changed"]
        assert "active -> degraded: head_expired" in said
        numbers = [event.sequence for event in report.journal]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        await one.server.wait_heartbeat(lambda report: not report.journal)


async def test_a_report_is_bounded_whatever_has_happened(one, mock_clock):
    """rules K53: NUL and control characters are escaped; what does not fit comes next time"""
    async with one.agent():
        await one.settled()

        def much() -> None:
            for number in range(900):
                one.node.store.journal.record("noise", one.node.now(), "", f"{number}\0\n" + "\x1b\ud800" * 100)

        await one.node.threads.write(much)
        one.server.heartbeats.clear()
        await one.server.wait_heartbeat(lambda report: not report.journal)
        sizes = [len(report.to_bytes()) for report in one.server.heartbeats]
        assert max(sizes) <= HEARTBEAT_BYTES
        seen = [event.sequence for report in one.server.heartbeats for event in report.journal]
        assert seen == sorted(set(seen)), "each once, in order"
        assert sum(event.event == "noise" for report in one.server.heartbeats for event in report.journal) == 900


async def test_a_failing_report_changes_nothing(one, mock_clock):
    """rules P23, S70"""
    async with one.agent():
        await one.settled()
        before = one.node.holdings
        one.server.refuse = "not_ready"
        await trio.sleep(300)
        assert one.node.holdings is before
        assert one.state == "active"


async def test_what_was_recorded_below_is_no_news(one, mock_clock):
    """rules K41"""
    async with one.agent():
        await one.settled()
        one.server.recorded = {ROUTES: Recorded(1, 1)}
        await one.server.wait_heartbeat()
        await one.server.wait_heartbeat()  # the answer to the first has been read
        assert one.node.check_in.behind == {}
        one.server.recorded = {ROUTES: Recorded(1, 9), "node_bootstrap": Recorded(1, 2)}
        await one.until(lambda: set(one.node.check_in.behind) == {ROUTES, "node_bootstrap"})
        one.server.recorded = {}
        await one.until(lambda: one.state == "active")


async def test_what_was_recorded_of_a_scope_that_the_head_does_not_list_is_no_news(one, mock_clock):
    """rules A7, K41, S3: it was withdrawn; a node that was installed again is not to have it"""
    async with one.agent():
        await one.settled()
        one.server.recorded = {"storage_directory": Recorded(1, 4), "trust_bundle": Recorded(1, 1)}
        await one.server.wait_heartbeat()
        await one.server.wait_heartbeat()
        assert (one.node.check_in.behind, one.state) == ({}, "active")
        one.server.snapshot({"directory": {}}, "storage_directory")
        one.server.announce()
        await one.until(lambda: set(one.node.check_in.behind) == {"storage_directory"})
        assert one.cause == "node_behind"


async def test_what_was_recorded_of_a_scope_is_forgotten_once_it_is_withdrawn(one, mock_clock):
    """rules A7, K41, S3"""
    async with one.agent():
        await one.settled()
        one.server.recorded = {ROUTES: Recorded(1, 9)}
        await one.until(lambda: one.cause == "node_behind")
        one.server.cluster.published.pop(ROUTES)
        one.server.announce()
        await one.until(lambda: one.state == "active")
        await one.server.wait_heartbeat()
        await one.server.wait_heartbeat()
        assert (one.node.check_in.behind, one.state) == ({}, "active")


async def test_a_vote_is_reported_soon_and_as_long_as_it_is_listed(one, mock_clock):
    """protocol.md 3"""
    async with one.agent():
        await one.settled()
        assert (await one.server.wait_heartbeat()).votes is None
        await trio.sleep(100)
        document = one.server.propose({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        start = trio.current_time()
        report = await one.server.wait_heartbeat(lambda report: report.votes)
        assert elapsed.since(start) < 3
        (vote,) = report.votes
        assert (vote.scope, vote.snapshot_id, vote.verdict) == (ROUTES, document.envelope.snapshot_id, "accepted")
        assert report.scopes[ROUTES].active.config_version == 1
        assert (await one.server.wait_heartbeat()).votes == (vote,)
        one.server.coming.clear()
        one.server.announce()
        assert (await one.server.wait_heartbeat(lambda report: report.head.generation == 3)).votes is None


async def test_a_vote_waits_for_a_coordinator_that_takes_it(one, mock_clock):
    """judged while it is away: another one, or the same one later, is told the same"""
    async with one.agent():
        await one.settled()
        one.server.propose({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until(lambda: one.node.store.candidates().by_scope)
        one.server.refuse = "not_ready"
        before = len(one.server.heartbeats)
        await trio.sleep(600)
        assert one.server.heartbeats[before:] == []
        one.server.refuse = ""
        report = await one.server.wait_heartbeat()
        assert [vote.verdict for vote in report.votes] == ["accepted"]


async def test_limits_and_validators_are_reported(tmp_path, mock_clock):
    """protocol.md 3: of the scopes of which something is said"""
    text = """
    [[service]]
    name = "web"
    scopes = ["route_policy", "qos_policy"]
    validate = ["/bin/true"]
    limits = {entries = 200}
    [[service]]
    name = "db"
    scopes = ["route_policy"]
    limits = {entries = 300, removed_percent = 0}
    """
    async with lab(tmp_path, mock_clock, text=text) as one, bench(one) as found:
        await found.settle()
        report = await found.outside.reporting.compose()
        assert report.limits == {ROUTES: ScopeLimits(entries=200, bytes=None, removed_percent=0)}
        assert {name for name, scope in report.scopes.items() if scope.has_validator} == {ROUTES}
        one.server.propose({"qos": {}}, "qos_policy")
        one.server.announce()
        await found.outside.refresh.ask(found.coordinator)
        assert set((await found.outside.reporting.compose()).limits) == {ROUTES, "qos_policy"}
    (tmp_path / "other").mkdir()
    async with lab(tmp_path / "other", mock_clock) as one, bench(one) as found:
        await found.settle()
        report = await found.outside.reporting.compose()
        assert report.limits is None
        assert {scope.has_validator for scope in report.scopes.values()} == {None}


async def test_votes_that_have_no_room_in_one_report_come_with_the_next(one, mock_clock):
    """a no before a yes, what nobody has heard of before the rest, and each report within its bounds"""
    votes = [
        Vote(
            long_scope(number),
            "s" * 64,
            HASH,
            *(("refused", 12, "x", "y") if number % 4 else ("accepted", None, "", "")),
        )
        for number in range(1024)
    ]
    async with bench(one) as found:
        await found.settle()
        one.server.propose({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await found.outside.refresh.ask(found.coordinator)
        reporting = found.outside.reporting
        reporting.votes = lambda: votes
        sent = []
        for _ in range(4):
            assert await reporting.report()
            sent.append(one.server.heartbeats[-1].votes)
            assert len(one.server.heartbeats[-1].to_bytes()) <= HEARTBEAT_BYTES
        heard = list(itertools.chain(*sent))[:1024]
        assert sorted(heard, key=str) == sorted(votes, key=str), "each once, before any is said again"
        assert [vote.verdict for vote in heard] == ["refused"] * 768 + ["accepted"] * 256
        assert not reporting._has_more
        votes.append(Vote("qos_policy", "new", HASH, "accepted", None, "", ""))
        assert await reporting.report()
        assert one.server.heartbeats[-1].votes[0].snapshot_id == "new"


def long_scope(number: int) -> str:
    return "route_policy/" + ",".join(f"{index:02}-{number:04}-{'r' * 30}" for index in range(60))

"""What a node lives through: restarts, lost networks, disks and clocks put back, revocation, rotation, liars."""

import shutil

import pytest
import trio

from snapshot.bundle import RETIRING
from snapshot.manifest import Revocations
from tests.fakes.cluster import DAY, HOUR, NODE_ID
from tests.journeys.lab import POLICY, SELDOM, lab
from wire.certificate import Certificate

ROUTES = "route_policy"
POLICY_SCOPE = "degraded_mode_policy"


async def test_a_start_without_a_network_serves_what_is_on_the_disk(one, mock_clock):
    """rules A10, A12, A15, K28, P2, L14: ready, active while the head lasts, and unconfirmed says so"""
    async with one.agent():
        await one.settled()
    one.server.down = True
    async with one.agent():
        assert one.state == "active", "from its first moment"
        found = await one.get("v1", "scopes", ROUTES, "sections", "routes")
        assert found == {"north": {"via": "a"}}
        assert (await one.status())["rollback_check"] == "unconfirmed"


async def test_a_start_with_an_expired_head_needs_leave(for_hours, mock_clock):
    """rules A15: FENCED, since the policy does not allow an unconfirmed start; a valid head ends it (J41)"""
    one = for_hours
    async with one.agent():
        await one.settled()
    one.server.down = True
    await trio.sleep(HOUR)
    async with one.agent():
        assert (one.state, one.cause) == ("fenced", "unconfirmed_start")
        assert (await one.status())["state"] == "fenced", "a fenced node still serves its status"
        one.server.down = False
        one.server.announce()
        await one.until(lambda: one.state == "active" and one.node.check_in.confirmed)
        assert (await one.status())["rollback_check"] == "confirmed"


async def test_a_start_with_an_expired_head_goes_on_where_the_policy_allows(for_hours, mock_clock):
    """rules A15, J38: DEGRADED, and the time that the agent was down counts"""
    one = for_hours
    one.server.snapshot({"policy": POLICY | {"allow_unconfirmed_start": True}}, POLICY_SCOPE)
    one.server.announce()
    async with one.agent():
        await one.settled()
    one.server.down = True
    await trio.sleep(HOUR)
    async with one.agent():
        assert one.state == "degraded"
        assert one.node.gate_facts().head_expired_for_s == pytest.approx(HOUR - one.server.head_lifetime_s, abs=60)
        await one.until(lambda: one.state == "fenced", within_s=3 * HOUR)
        assert one.cause == "degraded_limit"


async def test_a_lost_store_is_filled_again_from_pinned_roots(one, mock_clock):
    """rules L31, L33, S64, L38: identity, roots and marks are not lost with it, so there is no second first use"""
    async with one.agent():
        await one.settled()
        enrolled = one.node.store.enrolment
        incarnation = one.node.store.incarnation
    shutil.rmtree(one.folder / "state" / "clusters" / "raven-1" / "store")
    async with one.agent():
        await one.settled()
        assert one.node.store.enrolment == enrolled
        assert one.node.store.incarnation != incarnation
        assert one.server.joins == 1, "a member is one without its store, too"
        assert one.mark(ROUTES) == (1, 1)


async def test_without_a_token_nobody_is_asked(for_hours, mock_clock):
    """rules X5, K29, A2, P14: and a token that is put there later is found"""
    one = for_hours
    (one.folder / "join.token").rename(one.folder / "elsewhere")
    async with one.agent():
        await trio.sleep(HOUR)
        assert (one.state, one.cause) == ("unenrolled", "not_enrolled")
        assert one.server.requests == []
        assert (await one.may("start_service"))["reason"] == "not_enrolled"
        one.server.announce()
        (one.folder / "elsewhere").rename(one.folder / "join.token")
        await one.settled()


async def test_a_refused_join_shows_its_code_and_is_tried_again(one, mock_clock):
    """rules A3, J5"""
    one.server.refuse = "unauthorized_peer"
    async with one.agent():
        await one.until(lambda: one.cause == "unauthorized_peer")
        assert one.state == "unenrolled"
        one.server.refuse = ""
        await one.settled()


async def test_no_token_leaves_where_the_chain_is_not_the_configured_ones(one, tmp_path, mock_clock):
    """rules K15: the handshake fails before a byte of the request"""
    other = tmp_path / "other"
    other.mkdir()
    async with lab(other, mock_clock) as stranger:
        one.server.ca_file.write_bytes(stranger.server.ca_file.read_bytes())
        async with one.agent():
            await one.until(lambda: one.node.counters.of("joins_failed") > 0)
            assert one.server.requests == []
            assert not one.node.membership.is_member


async def test_a_token_of_another_cluster_waits(one, mock_clock):
    """rules K27, A4: the store is one cluster's, the token says another; nothing new is authorised"""
    async with one.agent():
        await one.settled()
    (one.folder / "join.token").write_text("e30.eyJjbHVzdGVyIjoiZWxzZXdoZXJlIn0.c2ln")
    async with one.agent():
        assert (one.state, one.cause) == ("waiting", "token_of_another_cluster")
        assert not (await one.may("open_route", scope=ROUTES, resource="north"))["allowed"]


async def test_a_withdrawn_scope_goes_and_its_mark_stays(one, mock_clock):
    """rules S3: and when it is listed again at the same version, it comes again"""
    async with one.agent():
        await one.settled()
        gone = one.cluster.published.pop(ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, None)
        assert one.mark(ROUTES) == (1, 1)
        assert one.state == "active"
        await one.until(lambda: not (one.folder / "run" / "active" / ROUTES).exists())
        one.cluster.published[ROUTES] = gone
        one.server.announce()
        await one.until_active(ROUTES, 1)


async def test_a_scope_of_an_unknown_type_blinds_nobody(one, mock_clock):
    """rules S14"""
    async with one.agent():
        await one.settled()
        listed = one.cluster.published[ROUTES]
        one.cluster.published["weather_policy"] = listed
        one.server.announce()
        with trio.fail_after(HOUR):
            while (await one.status())["passed_over"] != ["weather_policy"]:  # noqa: ASYNC110 - a status has no event
                await trio.sleep(1)
        assert one.state == "active"
        del one.cluster.published["weather_policy"]


async def test_a_frozen_head_degrades_though_somebody_answers(for_hours, mock_clock):
    """threats T23, D-18; rules A6, S62: the same head for ever is an answer, and no freshness"""
    one = for_hours
    one.server.head_lifetime_s = HOUR // 2
    one.server.announce()
    async with one.agent():
        await one.settled()
        await one.until(lambda: one.state == "degraded")
        assert len(one.server.heartbeats) > 5, "the coordinator has answered all the while"
        report = await one.server.wait_heartbeat(lambda report: report.mode == "degraded")
        assert report.degraded_since is not None
        assert report.head.grade == "expired"


async def test_a_head_of_an_old_generation_is_not_followed(one, mock_clock):
    """rules X30, K32, J40"""
    async with one.agent():
        await one.settled()
        old = one.server.announce()
        newer = one.server.announce()
        await one.until(lambda: one.node.holdings.held_head == newer.envelope.version)
        one.server.say(old)
        one.server._generation = (1, 10**6)
        await one.until(lambda: one.rejected("head") == "rollback")
        assert one.node.holdings.held_head == newer.envelope.version


async def test_a_revoked_node_lets_everything_go_but_what_proves_it(for_hours, mock_clock):
    """rules A9, K22, S61: by a head; still so after a restart, and after a head that names nobody"""
    one = for_hours
    async with one.agent():
        await one.settled()
        one.server.announce(revocations=Revocations(version=1, node_ids=frozenset({NODE_ID})))
        await one.until(lambda: one.state == "revoked" and one.version(ROUTES) is None)
        assert set(one.node.holdings.scopes) == {"trust_bundle"}
        assert one.mark(ROUTES) == (1, 1)
        assert one.node.store.enrolment is not None
        assert (await one.may("continue_services"))["reason"] == "revoked"
        await one.until(lambda: not (one.folder / "run" / "active" / ROUTES).exists())
    one.server.announce(revocations=Revocations(version=2))
    async with one.agent():
        await trio.sleep(HOUR / 4)
        assert one.state == "revoked"
        assert one.version(ROUTES) is None


async def test_a_node_that_was_revoked_while_it_was_away_lets_go_as_soon_as_it_hears(one, mock_clock):
    """rules A9, K22, S60, J40: it starts with what it holds, hears of it by the first head, and tells its services"""
    async with one.agent():
        await one.settled()
        trusted, marks = one.node.holdings.bundle.version, one.node.holdings.kept.marks
    one.server.announce(revocations=Revocations(version=1, node_ids=frozenset({NODE_ID})))
    async with one.agent():
        await one.until(lambda: one.state == "revoked" and one.version(ROUTES) is None)
        kept = one.node.holdings
        assert kept.bundle.version == trusted
        assert {name: kept.kept.marks[name] for name in marks if name != "head"} == {
            name: mark for name, mark in marks.items() if name != "head"
        }
        assert (await one.may("continue_services"))["reason"] == "revoked"
        await one.until(lambda: not (one.folder / "run" / "active" / ROUTES).exists())


async def test_an_unsigned_revocation_stops_nothing_and_a_signed_one_does(for_hours, mock_clock):
    """rules A8, A9, J40, K22: who has a coordinator's TLS key says `revoked` to everybody; services go on as without a
    coordinator, also over a restart, and at once as ever when the genuine one is back
    """
    one = for_hours
    async with one.agent():
        await one.settled()
        one.server.refuse = "revoked"
        one.server.wake()
        await one.until(lambda: one.node.check_in.claimed_revoked != "")
        assert (one.state, one.version(ROUTES)) == ("active", 1)
        await one.until(lambda: one.state == "degraded")
        assert (await one.may("continue_services"))["reason"] != "revoked"
    async with one.agent():
        assert one.state != "revoked"
        assert one.version(ROUTES) == 1
        one.server.refuse = ""
        one.server.announce()
        await one.until(lambda: one.state == "active")
        one.server.announce(revocations=Revocations(version=1, node_ids=frozenset({NODE_ID})))
        await one.until(lambda: one.state == "revoked" and one.version(ROUTES) is None)


async def test_three_rotations_missed_are_walked(one, mock_clock):
    """rules S36, S44; threats D-14: bundles 2 to 4 while the node was away; the middle ones have expired"""
    async with one.agent():
        await one.settled()
    now = int(one.clock.true)
    short = one.server.times() | {"refresh_after": now + 60, "expires_at": now + 120}
    for number in (2, 3):
        one.cluster.trust(f"config-new-{number}")
        one.server.publish(one.cluster.trust_bundle(**short))
    await trio.sleep(DAY)
    one.cluster.trust("config-1", status=RETIRING)
    one.cluster.trusted = {name: one.cluster.trusted[name] for name in one.cluster.trusted if name != "config-1"}
    one.server.publish(one.cluster.trust_bundle(**one.server.times()))
    for scope in ("node_bootstrap", POLICY_SCOPE, ROUTES):
        one.server.snapshot({"policy": POLICY} if scope == POLICY_SCOPE else {"node": {}}, scope)
    one.server.announce()
    async with one.agent():
        await one.until(lambda: one.node.holdings.bundle.version == 4)
        await one.until_active(ROUTES, 2)
        await one.until(lambda: one.state == "active")


async def test_a_disk_put_back_is_found_by_its_floors(one, mock_clock):
    """rules L32, P18, X12: the store of yesterday beside the floors of today"""
    store = one.folder / "state" / "clusters" / "raven-1" / "store"
    async with one.agent():
        await one.settled()
    shutil.copytree(store, one.folder / "yesterday")
    one.server.snapshot({"routes": {"south": {}}}, ROUTES)
    one.server.announce()
    async with one.agent():
        await one.until_active(ROUTES, 2)
    shutil.rmtree(store)
    shutil.copytree(one.folder / "yesterday", store)
    one.server.down = True
    async with one.agent():
        assert (one.state, one.cause) == ("recovering", "store_regressed")
        assert one.mark(ROUTES) == (1, 2), "the floor holds"
        one.server.down = False
        await one.until_active(ROUTES, 2)
        await one.until(lambda: one.state == "active")


async def test_a_whole_disk_put_back_is_found_by_the_coordinators_record(one, mock_clock):
    """rules K41, P18, A7: RECOVERING until what was recorded is held again"""
    from wire.messages import Recorded

    async with one.agent():
        await one.settled()
        one.server.recorded = {ROUTES: Recorded(1, 2)}
        await one.until(lambda: one.state == "recovering")
        assert one.cause == "node_behind"
        assert one.version(ROUTES) == 1, "the last verified active serves on"
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        await one.until(lambda: one.state == "active")


async def test_a_clock_that_goes_back_fences_until_it_is_right(one, mock_clock):
    """rules A16, A18, P27: nothing that has expired comes back to life"""
    async with one.agent():
        await one.settled()
        one.server.down = True
        one.clock.wall_offset_s = -DAY
        await one.until(lambda: one.state == "fenced")
        assert one.cause == "clock_regressed"
        assert one.node.now() >= one.server.times()["issued_at"] - HOUR
        one.clock.wall_offset_s = 0.0
        await one.until(lambda: one.state == "active")


async def test_a_clock_of_2020_after_a_reboot_does_not_go_below_the_floor(one, mock_clock):
    """threats V21; rules P27, A17, A18: and a check-in shows that the floor is right"""
    async with one.agent():
        await one.settled()
        floor = one.node.store.time_floor.time
    one.clock.reboot()
    one.clock.wall_offset_s = -7 * 365 * DAY
    one.server.down = True
    async with one.agent():
        assert one.cause == "clock_regressed"
        assert one.node.now() >= floor
        one.server.down = False
        await one.until(lambda: one.state == "active")


async def test_a_clock_that_runs_ahead_expires_early_and_is_forgotten(one, mock_clock):
    """rules A19, P27: set right, what was valid is valid"""
    async with one.agent():
        await one.settled()
        one.server.down = True
        one.clock.wall_offset_s = 30 * DAY
        await one.until(lambda: one.state == "fenced")
        one.clock.wall_offset_s = 0.0
        await one.until(lambda: one.state == "active")
        assert one.node.store.time_floor.time < one.clock.true + HOUR


async def test_what_is_valid_tomorrow_waits_in_its_slot(one, mock_clock):
    """rules X26: pending, shown, verified again whole at its time"""
    async with one.agent():
        await one.settled()
        start = int(one.clock.true) + 600
        one.server.snapshot({"routes": {"later": {}}}, ROUTES, valid_from=start)
        one.server.announce()
        report = await one.server.wait_heartbeat(
            lambda report: ROUTES in report.scopes and report.scopes[ROUTES].pending is not None
        )
        assert report.scopes[ROUTES].pending.config_version == 2
        assert one.version(ROUTES) == 1
        await one.until_active(ROUTES, 2)
        assert one.clock.true >= start - 0.001  # two sums of floats


async def test_scopes_of_one_head_become_active_together(one, mock_clock):
    """threats A12; rules X17, S67: one generation; and a refused one leaves the others alone (S16)"""
    async with one.agent():
        await one.settled()
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.snapshot({"policy": POLICY | {"max_duration_s": 60}}, POLICY_SCOPE)
        bad = one.cluster.snapshot({"qos": {"token": "abc"}}, "qos_policy", **one.server.times())
        one.server.publish(bad)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        scopes = one.node.holdings.view.scopes
        assert scopes[ROUTES].record.generation == scopes[POLICY_SCOPE].record.generation
        assert one.rejected("qos_policy") == "raw_secret"


async def test_a_recovery_goes_back_once(one, mock_clock):
    """rules S31, S87, S65, S86"""
    async with one.agent():
        await one.settled()
        first = one.cluster.published[ROUTES]
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        one.server.publish(one.cluster.recovery(first, **one.server.times()))
        one.cluster.published[ROUTES] = first
        one.server.announce()
        await one.until_active(ROUTES, 1)
        assert one.mark(ROUTES) == (1, 2), "the version given up never returns"
        await one.until(lambda: one.state == "active")
    async with one.agent():
        assert one.version(ROUTES) == 1
        assert one.state == "active"


async def test_after_a_recovery_a_lost_store_is_filled_with_what_it_led_to(one, mock_clock):
    """rules S87, L31, L32: what was given up is not taken again, though it stands at the mark, and what was held is"""
    async with one.agent():
        await one.settled()
        first = one.cluster.published[ROUTES]
        given_up = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        one.server.publish(one.cluster.recovery(first, **one.server.times()))
        one.cluster.published[ROUTES] = first
        one.server.announce()
        await one.until_active(ROUTES, 1)
    shutil.rmtree(one.folder / "state" / "clusters" / "raven-1" / "store")
    one.server.recoveries.clear()
    one.cluster.published[ROUTES] = given_up
    one.server.announce()
    async with one.agent():
        await one.until(lambda: one.rejected(ROUTES) == "rollback")
        assert one.version(ROUTES) is None
        one.cluster.published[ROUTES] = first
        one.server.announce()
        await one.until_active(ROUTES, 1)
        await one.until(lambda: one.state == "active")
    async with one.agent():
        assert (one.version(ROUTES), one.mark(ROUTES), one.state) == (1, (1, 2), "active")
        one.server.snapshot({"routes": {"west": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 3)


async def test_an_epoch_comes_with_its_bundle(one, mock_clock):
    """rules S24, X6: an increment does not carry one, a snapshot does"""
    async with one.agent():
        await one.settled()
        one.cluster.authority_epoch = 2
        one.server.publish(one.cluster.trust_bundle(**one.server.times()))
        for scope in ("node_bootstrap", POLICY_SCOPE, ROUTES):
            one.server.snapshot({"policy": POLICY} if scope == POLICY_SCOPE else {"node": {}}, scope)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        assert one.mark(ROUTES) == (2, 2)
        await one.until(lambda: one.state == "active")


async def test_the_network_is_gone_for_an_hour(for_hours, mock_clock):
    """rules P1: liveness stays good, no task ends, all recovers"""
    one = for_hours
    async with one.agent():
        await one.settled()
        one.server.down = True
        await trio.sleep(HOUR)
        assert await one.get("probe", "liveness") == {"alive": True}
        one.server.down = False
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        await one.until(lambda: one.state == "active")
        assert one.node.counters.of("task_faults") == 0


async def test_a_certificate_is_renewed_in_time(tmp_path, mock_clock):
    """rules K48, P13: over a connection of the old one, with the proof by the new key"""
    text = f"{SELDOM}[trust]\nroot_threshold = 1\n"
    async with lab(tmp_path, mock_clock, text=text, for_hours=True) as one:
        object.__setattr__(one.settings.node, "certificate_lifetime_s", 2 * HOUR)
        async with one.agent():
            await one.settled()
            before = one.server.pins.of_node(NODE_ID)
            assert len(before) == 1
            with trio.fail_after(DAY):
                while len(one.server.pins.of_node(NODE_ID)) == 1:
                    await trio.sleep(600)
                    one.server.announce()
            made = [Certificate.read(pin.der) for pin in one.server.pins.of_node(NODE_ID)]
            one.server.pins.remove(before[0].fingerprint)
            assert len({certificate.fingerprint for certificate in made}) == 2
            await one.server.wait_heartbeat()
            one.server.announce()
            await one.until(lambda: one.state == "active")

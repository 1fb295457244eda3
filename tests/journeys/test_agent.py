"""The agent as a whole: a node in process, its store on disk, its coordinator over real TLS, time moved by the test.

The thirteen cases of seed 001, section 15, each by name; then what a node lives through.
"""

import trio

from snapshot.bundle import REVOKED
from tests.fakes.cluster import DAY, key

ROUTES = "route_policy"
POLICY_SCOPE = "degraded_mode_policy"


def held(one):
    """What must not change: active documents, marks, trust."""
    kept = one.node.holdings.kept
    active = {name: document.envelope_hash for name, document in kept.active.items() if name != "head"}
    marks = {name: mark for name, mark in kept.marks.items() if name != "head"}
    return active, marks, kept.used_nonces


async def refuses(one, document, reason, *, scope=ROUTES):
    """Listed as it is by the next head: refused for this reason, nothing changed; the next good one applies (S53)."""
    before = held(one)
    one.server.publish(document)
    one.cluster.published[scope] = document
    one.server.announce()
    await one.until(lambda: one.rejected(scope) == reason)
    assert held(one) == before
    report = await one.server.wait_heartbeat(
        lambda report: scope in report.scopes and report.scopes[scope].last_rejected is not None
    )
    assert report.scopes[scope].last_rejected.reason == reason
    good = one.server.snapshot({"routes": {"south": {"via": "b"}}}, scope)
    one.server.announce()
    await one.until_active(scope, good.envelope.config_version)


# The thirteen cases


async def test_a_valid_snapshot_applies(one, mock_clock):
    """rules S71, S67, A3, A5, J15"""
    async with one.agent():
        await one.settled()
        found = await one.get("v1", "scopes", ROUTES, "sections", "routes")
        assert found == {"north": {"via": "a"}}
        report = await one.server.wait_heartbeat(lambda report: ROUTES in report.scopes)
        assert report.scopes[ROUTES].active.config_version == 1
        assert report.state == "active"


async def test_an_invalid_signature_is_refused(one, mock_clock):
    """rules S72, S28"""
    async with one.agent():
        await one.settled()
        good = one.cluster.snapshot(scope=ROUTES, **one.server.times())
        signatures = tuple((name, bytes([data[0] ^ 1]) + data[1:]) for name, data in good.signatures)
        bad = type(good)(good.envelope, good.envelope_bytes, signatures, good.manifest_bytes, good.sections)
        await refuses(one, bad, "bad_signature")


async def test_a_wrong_cluster_is_refused(one, mock_clock):
    """rules S73, S42"""
    async with one.agent():
        await one.settled()
        await refuses(one, one.cluster.snapshot(cluster_id="elsewhere", **one.server.times()), "wrong_cluster")


async def test_a_wrong_node_is_refused(one, mock_clock):
    """rules S74"""
    async with one.agent():
        await one.settled()
        await refuses(one, one.cluster.snapshot(subject_node_id="node-b", **one.server.times()), "wrong_node")


async def test_an_expired_snapshot_is_refused_and_an_active_one_authorises_nothing_new(one, mock_clock):
    """rules S75, S29, S16, S57"""
    async with one.agent():
        await one.settled()
        now = int(one.clock.true)
        times = {"issued_at": now - 900, "valid_from": now - 900, "refresh_after": now - 300, "expires_at": now - 1}
        await refuses(one, one.cluster.snapshot(**times), "expired")
        soon = one.server.snapshot({"routes": {"west": {}}}, ROUTES, refresh_after=now + 300, expires_at=now + 500)
        one.server.announce()
        await one.until_active(ROUTES, soon.envelope.config_version)
        assert (await one.may("open_route", scope=ROUTES, resource="west"))["allowed"]
        await one.until(lambda: one.clock.true > now + 500)
        assert (await one.may("open_route", scope=ROUTES, resource="west"))["reason"] == "scope_expired"
        await one.until(lambda: one.cause == "scope_expired")
        assert one.state == "recovering", "it is said, and closes nothing: one scope's expiry changes no other"
        assert (await one.may("report_degraded"))["allowed"]


async def test_a_rollback_is_refused(one, mock_clock):
    """rules S76, S86: an entry below the mark is not followed, and reported"""
    async with one.agent():
        await one.settled()
        first = one.cluster.published[ROUTES]
        second = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, second.envelope.config_version)
        before = held(one)
        one.cluster.published[ROUTES] = first
        one.server.announce()
        await one.until(lambda: one.rejected(ROUTES) == "rollback")
        assert held(one) == before
        third = one.server.snapshot({"routes": {"east": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, third.envelope.config_version)


async def test_a_version_gap_triggers_a_full_resync(one, mock_clock):
    """rules K46, S77, S27: the increment at hand starts elsewhere, so the whole is asked for at once"""
    async with one.agent():
        await one.settled()
        base = one.cluster.states[ROUTES]
        one.server.snapshot({"routes": {"missed": {}}}, ROUTES)
        made = one.server.publish_increment(ROUTES, sets={"more": {"a": 1}})
        # The coordinator hands it out for our version, though it starts at the one that we have missed.
        one.server.increments[ROUTES, base.config_version] = made.to_bytes()
        one.server.announce()
        await one.until_active(ROUTES, made.envelope.config_version)
        assert one.rejected(ROUTES) == "base_mismatch"
        whole = one.cluster.published[ROUTES]
        assert f"GET /v1/documents/{whole.envelope.snapshot_id}" in one.server.requests
        assert set(one.node.holdings.kept.active[ROUTES].sections) == {"routes", "more"}
        await one.until(lambda: one.state == "active")


async def test_a_raw_secret_is_refused(one, mock_clock):
    """rules S78"""
    async with one.agent():
        await one.settled()
        bad = one.cluster.snapshot({"vpn": {"password": "hunter2"}}, **one.server.times())
        await refuses(one, bad, "raw_secret")


async def test_unrelated_organization_data_is_refused(one, mock_clock):
    """rules S79"""
    async with one.agent():
        await one.settled()
        bad = one.cluster.snapshot({"routes": {"north": {"organization_id": "umber"}}}, **one.server.times())
        await refuses(one, bad, "unrelated_organization")


async def test_a_wrong_role_is_refused(one, mock_clock):
    """rules S80, S17: `core_mesh` alone holds no service assignment"""
    async with one.agent():
        await one.settled()
        one.server.snapshot({"services": {"web": {}}}, "service_assignment/web")
        one.server.announce()
        await one.until(lambda: one.rejected("service_assignment/web") == "role_not_allowed")
        assert one.version("service_assignment/web") is None
        good = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, good.envelope.config_version)


async def test_an_increment_applies_to_its_base_only(one, mock_clock):
    """rules X15, S81, S25: from the base as an increment, and from nothing else"""
    async with one.agent():
        await one.settled()
        made = one.server.publish_increment(
            ROUTES, patches={"routes": [{"op": "add", "path": "/south", "value": {"via": "b"}}]}
        )
        one.server.announce()
        await one.until_active(ROUTES, made.envelope.config_version)
        assert one.node.holdings.kept.active[ROUTES].kind == "increment"
        assert f"GET /v1/increments/{ROUTES}" in one.server.requests
        assert f"GET /v1/documents/{made.envelope.snapshot_id}" not in one.server.requests
        found = await one.get("v1", "scopes", ROUTES, "sections", "routes")
        assert found == {"north": {"via": "a"}, "south": {"via": "b"}}


async def test_a_revoked_signer_is_refused_and_what_it_signed_is_marked(one, mock_clock):
    """rules S82, S60, S61: by a trust bundle"""
    async with one.agent():
        await one.settled()
        one.cluster.trust("config-1", status=REVOKED)
        one.server.publish(one.cluster.trust_bundle(**one.server.times()))
        for scope in ("node_bootstrap", POLICY_SCOPE):
            one.server.snapshot({"policy": {}} if scope == POLICY_SCOPE else {"node": {}}, scope)
        one.server.announce()
        await one.until(lambda: one.node.holdings.bundle.version == 2)
        await one.until(lambda: one.version(POLICY_SCOPE) == 2)
        assert one.node.holdings.scopes[ROUTES].signer_revoked
        assert (await one.may("open_route", scope=ROUTES, resource="north"))["reason"] == "signer_revoked"
        assert await one.get("v1", "scopes", ROUTES, "sections", "routes") == {"north": {"via": "a"}}
        await refuses(one, one.cluster.snapshot(keys=[key("config-1")], **one.server.times()), "key_revoked")
        assert not one.node.holdings.scopes[ROUTES].signer_revoked


async def test_forbidden_actions_are_blocked_in_degraded_mode(for_hours, mock_clock):
    """rules S83, A6, S57, S55, S55f; threats A17: and what was decided is told when the coordinator is back."""
    one = for_hours
    async with one.agent():
        await one.settled()
        one.server.down = True
        await one.until(lambda: one.state == "degraded")
        assert one.cause == "head_expired"
        for action in ("approve_enrolment", "rotate_trust_root", "fetch_unrelated_secret", "promote_partition"):
            assert (await one.may(action))["reason"] == "forbidden_in_degraded"
        assert not (await one.may("open_route", scope=ROUTES, resource="north"))["allowed"], "nothing new"
        assert (await one.may("preserve_routes", scope=ROUTES, resource="north"))["allowed"]
        await one.until(lambda: one.state == "fenced", within_s=DAY)
        assert one.cause == "degraded_limit"
        events = one.node.store.journal.events()
        decided = {event.sequence: event.detail for event in events if event.event == "decided"}
        assert sum("forbidden_in_degraded" in detail for detail in decided.values()) == 4
        one.server.down = False
        one.server.announce()
        await one.until(lambda: one.state == "active")
        with trio.fail_after(DAY):
            while not decided.keys() <= delivered(one):  # perhaps with the report before this one
                await one.server.wait_heartbeat()


def delivered(one):
    """The numbers of the events that reports have brought."""
    return {event.sequence for report in one.server.heartbeats for event in report.journal}

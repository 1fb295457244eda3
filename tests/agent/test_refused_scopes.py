"""What a node has refused and what it runs, in words and figures; what has expired."""

import json
from dataclasses import replace

import pytest

from agent.services.refused_scopes import expired_scopes, refused_scopes, warnings
from snapshot.degraded import GateFacts, HeldScope
from snapshot.identifiers import format_time
from snapshot.manifest import ScopeVersion
from store.base.records import Rejection
from tests.agent.lab import DAY, NOW, Periphery, serving
from tests.agent.test_local_api import ask
from tests.holdfast.lab import holdfast

ROUTES = "route_policy"
CONTENT = "sha256:" + "ab" * 32
LISTED = ScopeVersion(1, 7, CONTENT, "doc-7")


def refused(periphery: Periphery, **changes: object) -> Rejection:
    """Version 7, by the validator of `web`, an hour ago."""
    one = Rejection(NOW - 3600, ROUTES, "validator_refused", 12, True, "web: no port", "doc-7", 7, "web", CONTENT)
    periphery.node.store.rejections.record(replace(one, **changes))
    periphery.of_head_wanted = {ROUTES: LISTED}
    return one


@pytest.fixture
async def api(periphery):
    async with serving(periphery):
        yield periphery


def found(periphery: Periphery, now: float = NOW):
    return refused_scopes(periphery.views.all(), periphery.of_head_wanted, periphery.node.store.rejections.last, now)


def test_what_was_refused_what_runs_and_until_when(periphery):
    periphery.route(6, {"routes": {}})
    refused(periphery)
    (one,) = found(periphery)
    assert (one.refused, one.runs, one.reason, one.source) == ("1.7", "1.6", "validator_refused", "web")
    assert one.sentence() == (
        f"route_policy has refused 1.7 since {format_time(int(NOW) - 3600)} (validator_refused by web), "
        f"runs 1.6, good until {format_time(one.expires_at)}"
    )


def test_it_is_urgent_in_the_last_third_and_after(periphery):
    periphery.route(6, {"routes": {}})
    refused(periphery)
    expires_at = found(periphery)[0].expires_at
    life = expires_at - NOW
    assert [found(periphery, NOW + share * life)[0].soon for share in (0.0, 0.5, 0.7, 1.1)] == [
        False,
        False,
        True,
        True,
    ]
    assert warnings(found(periphery)) == []
    assert len(warnings(found(periphery, expires_at + 1))) == 1


def test_what_is_not_listed_any_more_is_no_refusal(periphery):
    periphery.route(6, {"routes": {}})
    refused(periphery)
    periphery.of_head_wanted = {ROUTES: replace(LISTED, config_version=8)}
    assert found(periphery) == []
    periphery.of_head_wanted = {}
    assert found(periphery) == []


def test_a_scope_that_never_was_active(periphery):
    refused(periphery)
    (one,) = found(periphery)
    assert (one.runs, one.expires_at, one.soon) == (None, None, True)
    assert one.sentence().endswith("(validator_refused by web), runs nothing of it")


def test_what_has_expired():
    scopes = {name: HeldScope(expires_at=int(NOW) + left, authority_epoch=1) for name, left in (("a", 0), ("b", 1))}
    assert expired_scopes(GateFacts(scopes=scopes), NOW) == ["a"]


async def test_readiness_and_status_and_metrics(api):
    """rules H20, S29: an assigned scope that has expired is no readiness, and it is said why"""
    api.route(6, {"routes": {}})
    refused(api)
    ready = await ask(api, "/probe/readiness")
    assert (ready.status, json.loads(ready.body)["warnings"]) == (200, [])
    status = json.loads((await ask(api, "/v1/status")).body)
    assert (status["refused"][ROUTES]["refused"], status["refused"][ROUTES]["runs"], status["expired"]) == (
        "1.7", "1.6", [],
    )  # fmt: skip
    assert (
        b'holdfast_scope_refused{reason="validator_refused",scope="route_policy"} 1.0'
        in (await ask(api, "/metrics")).body
    )

    api.at = NOW + 8 * DAY
    over = {ROUTES: HeldScope(expires_at=int(NOW) + 7 * DAY, authority_epoch=1)}
    api.given = GateFacts(head_expires_at=int(api.at) + 1800, scopes=over)
    ready = await ask(api, "/probe/readiness")
    said = json.loads(ready.body)
    assert (ready.status, said["cause"], said["expired"]) == (503, "scope_expired", [ROUTES])
    assert said["warnings"][0].startswith("route_policy has refused 1.7 since")
    assert json.loads((await ask(api, "/v1/status")).body)["expired"] == [ROUTES]


async def test_on_the_screen(api):
    api.route(6, {"routes": {}})
    refused(api)
    until = format_time(found(api)[0].expires_at)
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert (
        f"route_policy has refused 1.7 since {format_time(int(NOW) - 3600)} (validator_refused by web), "
        f"runs 1.6, good until {until}: "
    ) in words
    api.at = NOW + 6 * DAY
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert f"EXPIRES SOON: {until}" in words
    api.at = NOW + 8 * DAY
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert f"expired {until}" in words and "route_policy has expired" in words


async def test_a_document_that_cannot_be_read_is_refused_as_what_the_head_lists(one, mock_clock):
    """An older agent and a newer schema: the report names the version all the same, so that it can be answered for."""
    async with one.agent():
        await one.settled()
        one.server.snapshot({"routes": {"south": {}}}, ROUTES, schema_version=2)
        one.server.announce()
        await one.until(lambda: one.rejected(ROUTES) != "")
        last = one.node.store.rejections.last(ROUTES)
        assert (last.reason, last.config_version) == ("unsupported_schema", 2)
        await one.until(lambda: one.node.holdings.head.scopes[ROUTES].config_version == 2)  # it waits for nothing now
        status = await one.status()
        assert status["refused"][ROUTES]["refused"] == "1.2"
        assert status["scopes"][ROUTES]["last_rejected"]["config_version"] == 2

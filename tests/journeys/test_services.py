"""Services of one node, each with a scope of its own: what one refuses or loses is no matter of the others."""

import pytest
import trio
from trio.testing import MockClock

from tests.journeys.lab import lab
from wire.client import ClientError

WEB, DB = "service_assignment/web", "service_assignment/db"
FOLLOWED = """
[[service]]
name = "all"
scopes = ["service_assignment/*"]

[[service]]
name = "web"
scopes = ["service_assignment/web"]
"""
JUDGED = (
    FOLLOWED
    + """\
validate = ["/bin/sh", "-c", "! grep -q forbidden service_assignment@web/services.json"]
"""
)


@pytest.fixture
def running_clock():
    """It runs: a validator is a process of its own, and takes its time."""
    return MockClock(rate=1.0)


def assign(one, scope, settings="first", **members):
    service_id = scope.rpartition("/")[2]
    one.server.snapshot({"services": {service_id: {"settings": {"say": settings}}}}, scope, **members)


async def with_two(one, **of_web):
    """Version 1 of both."""
    await one.settled()
    one.server.snapshot({"node": {}}, "node_runtime", roles=["core_mesh", "egress_service"])
    assign(one, WEB, **of_web)
    assign(one, DB)
    one.server.announce()
    await one.until_active(WEB, 1)
    await one.until_active(DB, 1)


async def may(one, service):
    return (await one.may("continue_services", resource=service))["reason"]


async def test_what_one_service_refuses_keeps_nothing_from_another(tmp_path, running_clock):
    """rules S67, S53: of one head web's version stays out and db's goes in; web goes on with what it has"""
    async with lab(tmp_path, running_clock, text=JUDGED) as one:
        async with one.agent():
            await with_two(one)
            assign(one, WEB, "forbidden")
            assign(one, DB, "second")
            one.server.announce()
            await one.until_active(DB, 2)
            await one.until(lambda: one.rejected(WEB) == "validator_refused")
            assert (one.version(WEB), one.mark(WEB), one.rejected(DB)) == (1, (1, 1), "")
            assert (await one.get("v1", "scopes", WEB))["sections"]["services"]["web"]["settings"] == {"say": "first"}
            assert (await one.get("v1", "scopes", DB))["sections"]["services"]["db"]["settings"] == {"say": "second"}
            assert [await may(one, each) for each in ("web", "db")] == ["ok", "ok"]
            assign(one, WEB, "third")
            one.server.announce()
            await one.until_active(WEB, 3)
            assert one.version(DB) == 2


async def test_the_gate_finds_the_scope_of_a_service(tmp_path, mock_clock):
    """rules S55, S57: by the resource alone, by the type of the scope, and by its name; and by nobody else's"""
    async with lab(tmp_path, mock_clock, text=FOLLOWED) as one:
        async with one.agent():
            await with_two(one)
            for scope, service, reason in (
                ("service_assignment", "web", "ok"),
                ("service_assignment", "db", "ok"),
                ("service_assignment", "mail", "not_in_policy"),
                (WEB, "web", "ok"),
                (WEB, "db", "not_in_policy"),
            ):
                answer = await one.may("continue_services", scope=scope, resource=service)
                assert answer["reason"] == reason, (scope, service)
            assert (await one.may("continue_services", scope="service_assignment"))["allowed"]


async def test_one_service_expires_and_another_goes_on(tmp_path, mock_clock):
    """rules S57, S29: its answers are refused, what it had stays readable as expired; the other is as it was"""
    async with lab(tmp_path, mock_clock, text=FOLLOWED) as one:
        async with one.agent():
            soon = int(one.clock.true) + 600
            await with_two(one, expires_at=soon, refresh_after=soon - 300)
            services = (await one.status())["services"]
            assert services["web"]["ready"] and services["all"]["ready"]
            await trio.sleep(700)
            one.server.announce()
            await one.until(lambda: one.mark("head") == (1, 3))
            assert [await may(one, each) for each in ("web", "db")] == ["scope_expired", "ok"]
            with pytest.raises(ClientError) as refused:
                await one.get("v1", "scopes", WEB)
            assert refused.value.code == "expired"
            assert (await one.get("v1", "scopes", DB))["sections"]
            services = (await one.status())["services"]
            assert (services["web"]["reason"], services["all"]["reason"]) == ("scope_expired", "scope_expired")
            assign(one, WEB, "renewed")
            one.server.announce()
            await one.until_active(WEB, 2)
            assert await may(one, "web") == "ok"


async def test_a_service_that_is_taken_away_leaves_the_other(tmp_path, mock_clock):
    """rules S3: the head lists one of two; the other's files and grants go, and no more; it comes back above itself"""
    async with lab(tmp_path, mock_clock, text=FOLLOWED) as one:
        async with one.agent():
            await with_two(one)
            active = tmp_path / "run" / "active"
            await one.until((active / "service_assignment@web" / "services.json").exists)
            one.cluster.published.pop(WEB)
            one.server.announce()
            await one.until_active(WEB, None)
            await one.until(lambda: not (active / "service_assignment@web").exists())
            assert (active / "service_assignment@db" / "services.json").exists()
            assert (one.version(DB), one.mark(WEB)) == (1, (1, 1))
            assert [await may(one, each) for each in ("web", "db")] == ["not_in_policy", "ok"]
            services = (await one.status())["services"]
            assert services["web"]["reason"] == "scope_missing" and services["all"]["ready"]
            assign(one, WEB, "again")
            one.server.announce()
            await one.until_active(WEB, 2)
            assert await may(one, "web") == "ok"

"""`holdfast quarantine`: what failed its probation here, and leave to try it again."""

import json
import os

from store.base.records import FailedContent
from tests.holdfast.lab import holdfast
from tests.store.cluster import NOW

HASH = "sha256:" + "a" * 64
ROUTES = FailedContent("route_policy", 1, 7, HASH, "s-7", "proxy", "exit 1: it\x1b[2J is broken", NOW)
QOS = FailedContent("qos_policy", 1, 4, HASH, "s-4", "start", "", NOW + 60)


async def test_what_is_in_it_is_listed_the_oldest_first(api):
    done = await holdfast("quarantine", "list", at=api)
    assert (done.status, done.out) == (0, "nothing is in quarantine\n")
    api.quarantine = [QOS, ROUTES]
    done = await holdfast("quarantine", "list", at=api)
    assert done.out.splitlines() == [
        "route_policy 1.7, since 2030-03-17T17:46:40Z: proxy: exit 1: it\\x1b[2J is broken",
        "qos_policy 1.4, since 2030-03-17T17:47:40Z: start",
    ]
    done = await holdfast("quarantine", "list", "--json", at=api)
    assert [entry["scope"] for entry in json.loads(done.out)["quarantine"]] == ["route_policy", "qos_policy"]


async def test_it_is_cleared_for_one_scope_and_by_whom(api):
    api.quarantine = [QOS, ROUTES]
    done = await holdfast("quarantine", "clear", "route_policy", at=api)
    assert (done.status, done.out.startswith("cleared: route_policy 1.7")) == (0, True)
    assert api.cleared == [("route_policy", f"uid {os.geteuid()}")]
    assert api.quarantine == [QOS]
    done = await holdfast("quarantine", "clear", "route_policy", at=api)
    assert (done.status, done.out) == (0, "nothing of route_policy is in quarantine\n")


async def test_no_scope_is_refused_and_clears_nothing(api):
    api.quarantine = [ROUTES]
    done = await holdfast("quarantine", "clear", "../x", at=api)
    assert done.status != 0
    assert "bad_request" in done.err
    assert api.cleared == []


async def test_it_is_for_root_and_the_agents_own_account(api, monkeypatch):
    api.quarantine = [ROUTES]
    monkeypatch.setattr("agent.local.quarantine_answers.may_administer", lambda _: False)
    for words in (["list"], ["clear", "route_policy"]):
        done = await holdfast("quarantine", *words, at=api)
        assert done.status != 0
        assert "forbidden" in done.err
    assert (api.cleared, api.quarantine) == ([], [ROUTES])

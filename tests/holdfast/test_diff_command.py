"""`holdfast diff`."""

import json

from tests.agent.lab import DAY, NOW
from tests.holdfast.lab import holdfast


async def test_against_the_version_before(api):
    assert (await holdfast("diff", "active", "previous", "route_policy", at=api)).status == 4
    api.route(2, {"routes": {"north": {"ttl_s": 90}}, "settings": {"a": 1}, "more": {}})
    done = await holdfast("diff", "active", "previous", "route_policy", at=api)
    assert done.status == 1
    lines = done.out.splitlines()
    assert [line for line in lines if line.startswith("section")] == ["section more", "section routes"]
    assert '-    "ttl_s": 60' in lines
    assert '+    "ttl_s": 90' in lines
    assert "--- version 1" in lines
    assert "+++ version 2" in lines
    told = await holdfast("diff", "active", "previous", "route_policy", "--json", at=api)
    assert (told.status, json.loads(told.out)) == (1, {
        "scope": "route_policy",
        "versions": {"older": 1, "newer": 2},
        "sections": {
            "more": {"newer": {}},
            "routes": {"older": {"north": {"ttl_s": 60}}, "newer": {"north": {"ttl_s": 90}}},
        },
    })  # fmt: skip


async def test_against_what_waits(api):
    document = api.node.cluster.snapshot(
        2, {"routes": {}, "settings": {"a": 1}}, valid_from=NOW + 600, refresh_after=NOW + DAY
    )
    api.node.download(document).wait(NOW + 600)
    done = await holdfast("diff", "active", "pending", "route_policy", at=api)
    assert done.status == 1
    assert "+++ version 2" in done.out
    assert '-  "north": {' in done.out


async def test_the_same_is_nothing(api):
    document = api.node.cluster.snapshot(
        2, {"routes": {"north": {"ttl_s": 60}}, "settings": {"a": 1}}, valid_from=NOW + 600, refresh_after=NOW + DAY
    )
    api.node.download(document).wait(NOW + 600)
    done = await holdfast("diff", "active", "pending", "route_policy", at=api)
    assert (done.status, done.out) == (0, "")
    told = await holdfast("diff", "active", "pending", "route_policy", "--json", at=api)
    assert (told.status, json.loads(told.out)["sections"]) == (0, {})
    assert (await holdfast("diff", "active", "other", "route_policy", at=api)).status == 2

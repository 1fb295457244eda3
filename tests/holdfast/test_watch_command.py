"""`holdfast watch`."""

import json

from tests.holdfast.lab import holdfast


async def test_one_line_a_change(api):
    after = api.node.store.watch.generation
    api.route(2, {"routes": {}, "settings": {"a": 1}})
    await api.watching.seen.wait_above(after)
    done = await holdfast("watch", "route_policy", "--after", after, "--count", 1, at=api)
    assert (done.status, done.out) == (0, f"{after + 1}  route_policy  routes\n")
    as_json = await holdfast("watch", "--json", "--after", after, "--count", 1, at=api)
    assert json.loads(as_json.out) == {
        "generation": after + 1, "scopes": {"route_policy": ["routes"]}, "source": "agent",
    }  # fmt: skip


async def test_usage(api):
    assert (await holdfast("watch", "--count", "0", at=api)).status == 2
    assert (await holdfast("watch", "--after", "-1", at=api)).status == 2

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


async def test_a_scope_that_is_not_there_is_not_waited_for(api):
    """Exit 4, as the help says; who waits for it to come says after which generation."""
    for words in (["nosuch"], ["route_policy", "nosuch"], ["qos_policy"]):
        done = await holdfast("watch", *words, at=api)
        assert (done.status, done.out) == (4, "")
        assert f"{words[-1]} is not active here, or not for you: see holdfast status" in done.err
    after = api.node.store.watch.generation
    api.apply(api.node.cluster.snapshot(1, {"policies": {}}, scope="qos_policy"))
    await api.watching.seen.wait_above(after)
    done = await holdfast("watch", "qos_policy", "--after", after, "--count", 1, at=api)
    assert (done.status, done.out) == (0, f"{after + 1}  qos_policy  policies\n")

"""`holdfast explain`."""

from store.records import Rejection
from tests.agent.lab import NOW
from tests.holdfast.lab import holdfast


async def test_where_it_comes_from_why_one_was_refused_and_what_comes_next(api):
    api.node.store.rejections.record(
        Rejection(NOW - 120, "route_policy", "bad_signature", 5, False, "", "route-9", 9, "https://c:1")
    )
    api.sources = [{"kind": "coordinator", "url": "https://c:1", "error": "timed_out", "failures": 3}]
    done = await holdfast("explain", "route_policy", at=api)
    assert done.status == 0
    words = " ".join(done.out.split())
    assert "holds version 1 of epoch 1, fresh" in words
    assert f"signed by {api.node.cluster.config.key_id}" in words
    assert "last refused version 9 2 min ago, at step 5" in words
    assert "because bad_signature. No signature by a trusted" in words
    assert "asks https://c:1 (coordinator): timed_out" in words
    assert "the head expires in 6 d" in words
    assert "then it expires in 6 d" in words


async def test_a_scope_of_which_nothing_has_come(api):
    done = await holdfast("explain", "qos_policy", at=api)
    assert done.status == 4
    assert "there are: node_bootstrap, route_policy, trust_bundle" in done.err

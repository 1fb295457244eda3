"""`holdfast explain`."""

import json

from store.base.records import Rejection
from tests.agent.lab import NOW, asked_source
from tests.holdfast.lab import holdfast
from tests.holdfast.test_status_command import coming
from wire.local.node_status import AskedSource, AwaitedVersion
from wire.messages import DocumentOrigin


async def test_where_it_comes_from_why_one_was_refused_and_what_comes_next(api):
    api.node.store.rejections.record(
        Rejection(NOW - 120, "route_policy", "bad_signature", 5, False, "it lacks one", "route-9", 9, "https://c:1")
    )
    api.sources = [asked_source(error="timed_out", failures=3, again_in_s=40)]
    held = api.node.store.active("route_policy").envelope.snapshot_id
    api.origins = {"route_policy": DocumentOrigin(held, "https://c:1", "increment")}
    api.awaited = {"route_policy": AwaitedVersion(1, 9, "route-9", below_accepted=False, again_in_s=75)}
    done = await holdfast("explain", "route_policy", at=api)
    assert done.status == 0
    words = " ".join(done.out.split())
    assert "holds version 1 of epoch 1, fresh" in words
    assert f"signed by {api.node.cluster.config.key_id}" in words
    assert "last refused version 9 2 min ago, at step 5" in words
    assert "because bad_signature. No signature by a trusted" in words
    assert "it said it lacks one" in words
    assert "asks https://c:1 (coordinator): timed_out; again in 40 s" in words
    assert "came from https://c:1, as an increment" in words
    assert "awaited version 9 is what the head lists; it is asked for in 1 min 15 s" in words
    assert "the head expires in 23 h" in words
    assert "then it expires in 6 d" in words
    told = json.loads((await holdfast("explain", "route_policy", "--json", at=api)).out)
    assert told["report"]["active"]["signer_key_id"] == api.node.cluster.config.key_id
    assert (told["report"]["active"]["snapshot_id"], told["envelope"]["snapshot_id"]) == (held, held)
    assert (told["rejections"][0]["reason"], told["rejections"][0]["detail"]) == ("bad_signature", "it lacks one")
    assert DocumentOrigin(**told["origin"]) == api.origins["route_policy"]
    assert AwaitedVersion(**told["awaited"]) == api.awaited["route_policy"]
    assert [AskedSource(**source) for source in told["sources"]] == api.sources


async def test_what_is_to_come_and_whether_this_node_could_run_it(api):
    api.candidates = {"qos_policy": coming("awaited"), "route_policy": coming("accepted", change=None)}
    words = " ".join((await holdfast("explain", "qos_policy", at=api)).out.split())
    assert "holds nothing that is active to come version 9 with c-41; it is not judged here yet" in words
    words = " ".join((await holdfast("explain", "route_policy", at=api)).out.split())
    assert "to come version 9; this node could run it" in words
    api.candidates = {"route_policy": coming("refused", 5, "bad_signature", "at signatures; found none")}
    done = await holdfast("explain", "route_policy", at=api)
    assert "could not be run here: bad_signature: at signatures; found none." in " ".join(done.out.split())
    told = json.loads((await holdfast("explain", "route_policy", "--json", at=api)).out)
    assert told["candidate"]["reason"] == "bad_signature"


async def test_a_scope_of_which_nothing_has_come(api):
    done = await holdfast("explain", "qos_policy", at=api)
    assert done.status == 4
    assert "there are: node_bootstrap, route_policy, trust_bundle" in done.err


async def test_what_is_listed_and_has_never_arrived(api):
    """rules S86, K38: when it is asked for, or what somebody has to do"""
    api.awaited = {
        "qos_policy": AwaitedVersion(1, 2, "q-2", below_accepted=False, again_in_s=0),
        "peer_directory": AwaitedVersion(1, 2, "p-2", below_accepted=True, again_in_s=0),
        "storage_directory": AwaitedVersion(1, 2, "s-2", below_accepted=False, again_in_s=None),
    }
    api.refresh_required = ["qos_policy"]
    done = await holdfast("explain", "qos_policy", at=api)
    words = " ".join(done.out.split())
    assert done.status == 0
    assert "holds nothing that is active" in words
    assert "awaited version 2 is what the head lists; it is asked for now" in words
    assert "systemctl reload holdfast-agent" in words
    below = await holdfast("explain", "peer_directory", at=api)
    assert "not followed without a recovery" in below.out
    kept_out = await holdfast("explain", "storage_directory", at=api)
    assert "a service keeps it out until the head lists another" in " ".join(kept_out.out.split())

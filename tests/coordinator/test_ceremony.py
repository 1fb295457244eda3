"""Key ceremonies: any walk of wishes gives bundles that nodes follow (format.md 8; rules S36, S40; threats D-62)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.publishing.signing_context import usable_keys
from coordinator.trust import ceremony
from coordinator.trust.ceremony import Add, Carry, RaiseEpoch, Remove, Restore, Retire, Revoke, Threshold
from snapshot.bundle import CONFIG, RETIRING, REVOKED, ROOT
from snapshot.container import ChunkParts
from snapshot.manifest import Revocations
from snapshot.reasons import Reason, Rejected
from snapshot.verify import Verified, verify
from tests.coordinator.ceremonies import ROLLOUT_S, YEARS, Ceremonies, public
from tests.examples import examples
from tests.fakes.cluster import DAY


def refusal(function, *arguments) -> Refused:
    with pytest.raises(Refused) as caught:
        function(*arguments)
    assert caught.value.code is Code.CONTRADICTION
    assert caught.value.remedy, "every refusal says what to do"
    return caught.value


def accepts(holder, document, now) -> bool:
    return isinstance(verify(ChunkParts(document.chunks()), holder, kind="snapshot", now=now), Verified)


def reason(holder, document, now) -> Reason:
    with pytest.raises(Rejected) as caught:
        verify(ChunkParts(document.chunks()), holder, kind="snapshot", now=now)
    return caught.value.reason


# --- any walk


def wishes_of(cluster: Ceremonies, draw) -> list:
    """One or two wishes, sensible or not."""
    names = sorted(cluster.trust.keys)
    made = []
    for _ in range(draw(st.integers(1, 2))):
        some_key = draw(st.sampled_from(names))
        number = draw(st.integers(1, 3))
        kind = draw(
            st.sampled_from(["add root", "add config", "retire", "remove", "revoke", "root n", "epoch", "carry"])
        )
        match kind.split():
            case ["add", purpose]:
                made.append(Add(public(cluster.new_key()), purpose, cluster.now + YEARS))
            case ["retire"]:
                made.append(Retire(some_key))
            case ["remove"]:
                made.append(Remove(some_key))
            case ["revoke"]:
                made.append(Revoke(some_key))
            case ["root", _]:
                made.append(Threshold(ROOT, number))
            case ["epoch"]:
                made.append(RaiseEpoch())
            case _:
                key_ids = frozenset({some_key}) if number == 1 else frozenset()
                made.append(Carry(Revocations(key_ids=key_ids, node_ids=frozenset({f"n{number + 1}"}))))
    return made


@examples(40)
@given(st.data())
def test_every_walk_can_be_followed_from_everywhere(data) -> None:
    """rules S36: whatever was wished, a node that stayed away since any bundle walks to the last one, whichever of the
    keys that may sign have signed; and threats D-14: there is always a next one.
    """
    cluster = Ceremonies(roots=data.draw(st.integers(1, 3)), threshold=1)
    shuffled = data.draw(st.randoms(use_true_random=False)).shuffle
    for _ in range(data.draw(st.integers(1, 8))):
        before, count = cluster.trust, len(cluster.containers)
        try:
            cluster.lead(*wishes_of(cluster, data.draw), order=shuffled)
        except Refused as refused:
            assert refused.remedy
            assert (cluster.trust, len(cluster.containers)) == (before, count)
        cluster.now += data.draw(st.integers(0, 45)) * DAY
    cluster.lead(order=shuffled)  # a plain renewal is always possible
    for version in range(1, len(cluster.containers) + 1):
        assert cluster.followed(cluster.node_at(version)).bundle.version == len(cluster.containers)


@examples(40)
@given(st.data())
def test_some_key_signs_every_scope_after_any_walk(data) -> None:
    """rules S40: what signs is active, enough, and neither retiring nor revoked nor gone."""
    cluster = Ceremonies(roots=1, threshold=1)
    for _ in range(data.draw(st.integers(1, 6))):
        try:
            cluster.lead(*wishes_of(cluster, data.draw))
        except Refused:
            continue
    bundle = cluster.followed(cluster.joined()).bundle
    held = tuple(cluster.keys.values())
    for scope in ceremony.CONFIG_SCOPES:
        able = usable_keys(held, bundle, Revocations(), "prod", scope, cluster.now)
        assert len(able) >= bundle.thresholds[CONFIG]
        assert {bundle.keys[one.key_id].status for one in able} == {"active"}


# --- a rotation, as it is meant


def test_a_config_key_is_rolled_over_and_every_node_goes_on() -> None:
    """rules S36, S39, threats D-62: add, both sign, retire, remove; nodes that know either key go on."""
    cluster = Ceremonies()
    old = cluster.config_key()
    new = cluster.add()
    stayed, went = cluster.node_at(1), cluster.node_at(2)
    both = cluster.snapshot(old, new)
    assert accepts(stayed, both, cluster.now)
    assert accepts(went, both, cluster.now)
    cluster.lead(Retire(old))
    assert cluster.trust.keys[old].status == RETIRING
    assert cluster.trust.keys[old].not_after == cluster.now + ROLLOUT_S
    assert accepts(cluster.node_at(3), both, cluster.now), "what it has signed stays good"
    alone = cluster.snapshot(new)
    assert accepts(went, alone, cluster.now)
    assert reason(stayed, alone, cluster.now) is Reason.UNKNOWN_KEY
    assert accepts(cluster.followed(stayed), alone, cluster.now), "it walks the bundles and ends equal"
    cluster.now += ROLLOUT_S
    cluster.lead(Remove(old))
    last = cluster.followed(cluster.node_at(1))
    assert set(last.bundle.keys) == set(cluster.of(ROOT)) | {new}
    assert reason(last, cluster.snapshot(old), cluster.now) is Reason.UNKNOWN_KEY


def test_a_node_that_was_away_for_three_rotations_ends_equal() -> None:
    """rules S36"""
    cluster = Ceremonies()
    away = cluster.joined()
    for _ in range(3):
        (old,) = [name for name in cluster.of(CONFIG) if cluster.trust.keys[name].status == "active"]
        cluster.add()
        cluster.lead(Retire(old))
        cluster.now += ROLLOUT_S
        cluster.lead(Remove(old))
    assert cluster.followed(away) == cluster.node_at(len(cluster.containers))
    assert accepts(cluster.followed(away), cluster.snapshot(cluster.config_key()), cluster.now)


def test_all_roots_are_replaced_and_every_node_follows() -> None:
    """rules S36, threats D-14: the old roots vouch for the new ones, then sign nothing."""
    cluster = Ceremonies()
    old = cluster.of(ROOT)
    made = [cluster.new_key() for _ in range(3)]
    cluster.lead(*(Add(public(one), ROOT, cluster.now + YEARS) for one in made), *(Retire(name) for name in old))
    cluster.now += 2 * ROLLOUT_S
    request = cluster.lead(*(Remove(name) for name in old))
    assert set(request.envelope.signers) == {one.key_id for one in made}
    assert set(cluster.followed(cluster.joined()).bundle.keys) == {one.key_id for one in made} | {cluster.config_key()}


def test_signatures_of_retired_roots_do_not_count_for_the_bundle_that_retires_them() -> None:
    """A node that comes back after their end would not find its threshold met (format.md 8)."""
    cluster = Ceremonies()
    first, second, third = cluster.of(ROOT)
    made = cluster.new_key()
    request = cluster.request(Add(public(made), ROOT, cluster.now + YEARS), Retire(first))
    request = request.with_signature(cluster.keys[first]).with_signature(cluster.keys[second])
    assert request.missing() == ceremony.Missing(of_present=0, of_next=1)
    cluster.accept(request.with_signature(cluster.keys[third]))
    cluster.now += 2 * ROLLOUT_S
    cluster.lead()
    assert cluster.followed(cluster.joined()).bundle.version == 3


def test_a_stolen_key_is_revoked_and_replaced_in_one_bundle() -> None:
    """rules S37, S61"""
    cluster = Ceremonies()
    old, new = cluster.config_key(), cluster.new_key()
    cluster.lead(Revoke(old), Add(public(new), CONFIG, cluster.now + YEARS))
    node = cluster.followed(cluster.joined())
    assert reason(node, cluster.snapshot(old), cluster.now) is Reason.KEY_REVOKED
    assert accepts(node, cluster.snapshot(new.key_id), cluster.now)


def test_an_epoch_is_announced_by_roots_alone() -> None:
    """threats T16, T17: a stolen key runs versions up; the next epoch is above them all."""
    cluster = Ceremonies()
    config = cluster.config_key()
    highest = cluster.snapshot(config, version=2**53 - 1)
    node = cluster.joined()
    assert accepts(node, highest, cluster.now)
    node = replace(node, marks={**node.marks, "route_policy": verify_mark(node, highest, cluster.now)})
    assert reason(node, cluster.snapshot(config, version=2, epoch=2), cluster.now) is Reason.EPOCH_AHEAD
    cluster.lead(RaiseEpoch())
    after = replace(cluster.followed(node), marks=node.marks)
    assert accepts(after, cluster.snapshot(config, version=1, epoch=2), cluster.now)


def verify_mark(holder, document, now):
    return verify(ChunkParts(document.chunks()), holder, kind="snapshot", now=now).mark


def test_what_heads_revoked_is_carried_into_the_bundle() -> None:
    """rules K54, S60, S61: nodes, roles, services, endpoints and config keys; never a root key."""
    cluster = Ceremonies()
    cluster.add()
    stolen = cluster.of(CONFIG)[0]
    named = {
        "node_ids": frozenset({"n7"}),
        "role_assignments": frozenset({"n8/ingress"}),
        "service_ids": frozenset({"mail"}),
        "endpoints": frozenset({"https://old.example:443"}),
    }
    cluster.lead(Carry(Revocations(version=4, key_ids=frozenset({stolen, cluster.of(ROOT)[0]}), **named)))
    bundle = cluster.followed(cluster.joined()).bundle
    assert bundle.revocations == Revocations(**named)
    assert [name for name, one in bundle.keys.items() if one.status == REVOKED] == [stolen]
    cluster.lead(Carry(Revocations(node_ids=frozenset({"n9"}))), Restore("node_ids", "n7"))
    assert cluster.trust.revocations.node_ids == {"n9"}
    assert cluster.trust.revocations.service_ids == {"mail"}, "it stays revoked until somebody says otherwise"


# --- wishes at odds


def test_wishes_at_odds_are_refused_with_the_remedy() -> None:
    """rules S36: nothing is made that could not be followed or signed for."""
    cluster = Ceremonies(roots=2, threshold=2)
    config, root = cluster.config_key(), cluster.of(ROOT)[0]
    new = public(cluster.new_key())
    end = cluster.now + YEARS
    odd = {
        "the only config key": [Retire(config)],
        "its successor was not announced": [Add(new, CONFIG, end), Retire(config)],
        "one root too few": [Retire(root)],
        "one root revoked": [Revoke(root)],
        "threshold above the keys": [Threshold(ROOT, 3)],
        "no threshold": [Threshold(ROOT, 0)],
        "an active key removed": [Remove(config)],
        "an unknown key": [Retire("sha256:" + "0" * 64)],
        "a key twice": [Add(public(cluster.keys[root]), ROOT, end)],
        "over before it began": [Add(new, CONFIG, cluster.now)],
        "a scope that config keys never sign": [Add(new, CONFIG, end, ("trust_bundle",))],
        "an epoch that goes back": [RaiseEpoch(1)],
        "an epoch beyond all numbers": [RaiseEpoch(2**53)],
        "all config keys revoked": [Carry(Revocations(key_ids=frozenset({config})))],
        "restored without being revoked": [Restore("node_ids", "n1")],
        "a key restored": [Restore("key_ids", config)],
    }
    for name, wishes in odd.items():
        assert refusal(cluster.lead, *wishes).detail, name
        assert len(cluster.containers) == 1, name
    cluster.lead(Add(new, CONFIG, end))
    assert cluster.followed(cluster.joined()).bundle.version == 2


def test_a_key_that_left_does_not_come_back() -> None:
    """rules P29, of keys"""
    cluster = Ceremonies()
    old = cluster.config_key()
    cluster.add()
    cluster.lead(Retire(old))
    assert "until" in refusal(cluster.lead, Remove(old)).detail
    cluster.now += ROLLOUT_S
    cluster.lead(Remove(old))
    again = Add(public(cluster.keys[old]), CONFIG, cluster.now + YEARS)
    assert "left" in refusal(cluster.lead, again).detail


def test_a_weak_key_is_never_announced() -> None:
    """threats D-40, D-10"""
    cluster = Ceremonies()
    small_order = bytes.fromhex("302a300506032b6570032100") + bytes([1]) + bytes(31)
    weak = ceremony.PublicKey("ed25519", small_order)
    refusal(cluster.lead, Add(weak, CONFIG, cluster.now + YEARS))
    assert len(cluster.containers) == 1


def test_a_bundle_has_no_more_keys_than_readers_take() -> None:
    cluster = Ceremonies(roots=1, threshold=1)
    many = [Add(public(cluster.new_key()), CONFIG, cluster.now + YEARS) for _ in range(63)]
    assert "64" in refusal(cluster.lead, *many).remedy
    cluster.lead(*many[:62])
    assert len(cluster.followed(cluster.joined()).bundle.keys) == 64

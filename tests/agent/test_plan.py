"""What a head asks for, compared with what is held."""

from dataclasses import replace
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from agent.state.held_state import Holdings
from agent.state.plan import FIRST, MOST_BEYOND, WantedScope, in_turns, plan
from agent.state.view import View
from snapshot.manifest import Head, Revocations, ScopeVersion
from snapshot.verifier_state import Mark, VerifierState
from store.store import HolderState

HASHES = {version: "sha256:" + f"{version:064x}" for version in range(20)}


def listed(version, epoch=1):
    return ScopeVersion(epoch, version, HASHES[version], f"s{version}")


def document(version, epoch=1):
    return SimpleNamespace(version=(epoch, version), content_hash=HASHES[version])


def holdings(listing, active=(), marks=None, lost=(), *, returned=None, floor_lost=False, bundle=None, beyond=0):
    active = dict(active)
    found = {name: Mark(*one.version, one.content_hash) for name, one in active.items()} | (marks or {})
    kept = HolderState(1, found, active, (), frozenset(), frozenset(lost), returned or {})
    holder = VerifierState(
        "c", "n", bundle=SimpleNamespace(version=bundle, passed_over=("/delegations",) * beyond) if bundle else None
    )
    head = None if listing is None else Head(1, 15, Revocations(), dict(listing))
    scopes = dict.fromkeys(active)
    return Holdings(View(1, {}, None), kept, holder, head, scopes=scopes, floor_lost=floor_lost)


def test_without_a_head_nothing_is_asked_for_and_nothing_goes():
    assert plan(holdings(None, {"route_policy": document(1)})) == plan(holdings(None))


def test_what_is_held_is_not_asked_for():
    assert plan(holdings({"route_policy": listed(3)}, {"route_policy": document(3)})).wanted == ()


def test_an_increment_starts_at_the_active_version():
    """rules S25"""
    (wanted,) = plan(holdings({"route_policy": listed(3)}, {"route_policy": document(2)})).wanted
    assert wanted == WantedScope("route_policy", listed(3), base=2)


def test_the_whole_is_asked_for_where_no_increment_can_do():
    """rules S24; threats D-24"""
    asked = {"route_policy": listed(3)}
    assert plan(holdings(asked)).wanted[0].base is None
    assert plan(holdings({"route_policy": listed(3, 2)}, {"route_policy": document(2)})).wanted[0].base is None
    damaged = holdings(asked, {"route_policy": document(2)}, lost=["route_policy"])
    assert plan(damaged).wanted[0].base is None
    assert plan(holdings(asked, {"route_policy": document(2)}, floor_lost=True)).wanted[0].base is None


def test_an_entry_below_the_mark_needs_a_recovery():
    """rules S86"""
    (wanted,) = plan(holdings({"route_policy": listed(2)}, {"route_policy": document(5)})).wanted
    assert wanted.below
    gone_back = holdings({"route_policy": listed(2)}, {"route_policy": document(2)}, {"route_policy": Mark(1, 5, "h")})
    assert plan(gone_back).wanted == (), "a recovery was used: it is where it should be"


def test_what_a_recovery_led_to_needs_no_second_one_once_it_is_lost():
    """rules S87: exactly that, and only where it was lost"""
    marks, back = {"route_policy": Mark(1, 5, "h")}, {"route_policy": Mark(1, 2, HASHES[2])}
    lost = holdings({"route_policy": listed(2)}, marks=marks, lost=["route_policy"], returned=back)
    assert plan(lost).wanted == (WantedScope("route_policy", listed(2)),)
    other = holdings({"route_policy": listed(1)}, marks=marks, lost=["route_policy"], returned=back)
    assert plan(other).wanted[0].below


def test_a_lost_scope_is_asked_for_at_its_own_version():
    """rules S63, L33"""
    mark = {"route_policy": Mark(1, 3, HASHES[3])}
    (wanted,) = plan(holdings({"route_policy": listed(3)}, marks=mark, lost=["route_policy"])).wanted
    assert not wanted.below


def test_what_is_listed_no_more_is_dropped_and_trust_never_is():
    """rules S3"""
    active = {"route_policy": document(1), "trust_bundle": document(1)}
    assert plan(holdings({"node_bootstrap": listed(1)}, active)).dropped == ("route_policy",)


def test_unknown_types_are_passed_over():
    """rules S14"""
    found = plan(holdings({"weather_policy/a": listed(1), "route_policy": listed(1)}))
    assert found.passed_over == ("weather_policy/a",)
    assert [one.scope for one in found.wanted] == ["route_policy"]


def test_what_head_and_bundle_say_beyond_this_release_is_reported():
    """format.md 1: passed over, and told; a bounded number of each."""
    kept = holdings({"route_policy": listed(1)}, bundle=2, beyond=100)
    head = replace(kept.head, passed_over=tuple(f"/later-{number}" for number in range(100)))
    found = plan(replace(kept, head=head)).passed_over
    assert len(found) == 2 * MOST_BEYOND
    assert {"/later-0", "/delegations"} <= set(found)


def test_newer_trust_comes_first():
    assert plan(holdings({"trust_bundle": listed(3)}, bundle=2)).trust
    assert not plan(holdings({"trust_bundle": listed(3)}, bundle=3)).trust
    assert plan(holdings({"trust_bundle": listed(3)})).trust


@given(st.sets(st.sampled_from(["route_policy", "peer_directory", "node_runtime", "qos_policy/a", "node_bootstrap"])))
def test_what_establishes_roles_comes_before_the_rest(scopes):
    order = [one.scope for one in plan(holdings(dict.fromkeys(scopes, listed(1)))).wanted]
    first = [scope for scope in FIRST if scope in scopes]
    assert order[: len(first)] == first
    assert set(order) == scopes


def test_only_what_was_listed_meets_it():
    """rules S86"""
    wanted = WantedScope("route_policy", listed(3))
    good = SimpleNamespace(version=(1, 3), state_hash=HASHES[3])
    assert wanted.is_met_by(good)
    for changed in ({"version": (1, 2)}, {"version": (2, 3)}, {"state_hash": HASHES[4]}):
        assert not wanted.is_met_by(SimpleNamespace(**{**vars(good), **changed}))
    assert replace(wanted, base=2).is_met_by(good)


def test_a_newcomer_knows_its_peers_before_it_asks_for_the_rest():
    """rules L19: what the relay has goes over the link no second time; who runs on something changes at once"""
    names = ("node_bootstrap", "node_runtime", "peer_directory", "route_policy", "qos_policy")
    scopes = dict.fromkeys(names, listed(1))

    def turns(active, scopes=scopes):
        held = holdings(scopes, dict.fromkeys(active, document(0)))
        return [{each.scope for each in turn} for turn in in_turns(plan(held).wanted, held)]

    first = {"node_bootstrap", "node_runtime", "peer_directory"}
    assert turns([]) == turns(["node_bootstrap"]) == [first, {"route_policy", "qos_policy"}]
    assert turns(["route_policy"]) == turns(["peer_directory"]) == [set(scopes)]
    without = {scope: entry for scope, entry in scopes.items() if scope != "peer_directory"}
    assert turns([], without) == [set(without)]
    alone = {"peer_directory": listed(1)}
    assert turns([], alone) == [{"peer_directory"}]
    assert turns([], {}) == [set()]

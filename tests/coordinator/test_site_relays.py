"""Relays of a site and their neighbours: pairs that both ends are told of, bounded and steady (rules K1, K5, X21)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import peers, site_relays
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.kinds import DEFAULT_PEERS, Node, PeerPolicy, Selector
from coordinator.declared.model import MemberEntry, Model, is_thin, may_know, most, policy_of
from coordinator.declared.next_model import next_model
from coordinator.declared.views import VIEWS, holds, sections
from snapshot.identifiers import Scope
from snapshot.roles import THIN_PEERS
from tests.coordinator.models import model
from tests.examples import examples

ROLES = ("core_mesh",)
DIRECTORY = Scope("peer_directory")
SITES = ["ulm", "bonn"]


def member(node: Node) -> MemberEntry:
    return MemberEntry(node.id, node.kind, node.site, (node.id.encode(),))


def fleet(*resources) -> Model:
    """Each at the site that it is declared at."""
    return model(*resources, members={each.id: member(each) for each in resources if isinstance(each, Node)})


def site(count: int, relays: int, *, name: str = "ulm", **said: object) -> list[Node]:
    given_ = {"roles": ROLES, "organizations": ("acme",), "site": name} | said
    return [Node(f"{name}-{number}", relay=number < relays, **given_) for number in range(count)]


def directories(state: Model) -> dict[str, tuple[str, ...]]:
    return {node_id: peers.chosen_ids(state, subject) for node_id, subject in state.subjects.items()}


def relays(state: Model) -> dict[str, tuple[str, ...]]:
    return {node_id: site_relays.relays_of(state, subject) for node_id, subject in state.subjects.items()}


def entries(state: Model, node_id: str) -> dict[str, dict[str, object]]:
    """Of its directory; empty of one that is given none."""
    if not holds(state, state.subjects[node_id], DIRECTORY):
        return {}
    parts = sections(state, node_id, DIRECTORY).values()
    return {peer: entry for part in parts for peer, entry in part.items()}


@st.composite
def fleets(draw) -> Model:
    """Members of two sites, of several tenants or none, some of them relays, thin, draining, or known to few."""
    organizations = st.sampled_from([(), ("acme",), ("umbrella",), ("acme", "umbrella")])
    roles = st.sampled_from([ROLES, ROLES, (*ROLES, "thin"), ("thin",), ()])
    nodes = [
        Node(
            f"m{number}",
            roles=draw(roles),
            organizations=draw(organizations),
            site=draw(st.sampled_from(SITES)),
            labels=draw(st.sampled_from([{}, {"rack": "a"}])),
            relay=draw(st.sampled_from([True, False, False])),
        )
        for number in range(draw(st.integers(2, 40)))
    ]
    policies = [
        PeerPolicy(
            f"p{number}",
            applies_to=draw(st.sampled_from([Selector(), Selector(labels={"rack": "a"})])),
            peers=draw(st.sampled_from([Selector(), Selector(), Selector(labels={"rack": "a"})])),
            most=draw(st.integers(1, 6)),
        )
        for number in range(draw(st.integers(0, 2)))
    ]
    members = {node.id: member(node) for node in nodes}
    for node_id in draw(st.lists(st.sampled_from(sorted(members)), max_size=3)):
        members[node_id] = replace(members[node_id], keeps=frozenset())
    return model(*nodes, *policies, members=members)


def may_be_pair(state: Model, one: str, other: str) -> bool:
    """As it is promised, in other words than the code's."""
    a, b = state.subjects[one], state.subjects[other]
    if one == other or a.member.site_id != b.member.site_id or not a.roles or not b.roles:
        return False
    tenants = set(a.organizations) & set(b.organizations) or not (a.organizations or b.organizations)
    known = [may_know(policy_of(state, x), y) for x, y in ((a, b), (b, a))]
    return bool(tenants) and all(known)


@given(fleets())
@examples(150)
def test_every_member_of_a_site_with_relays_knows_one_and_is_known_to_it(state) -> None:
    """rules K1, K5, X27: two where there are two, within what its policy allows; and nobody is told of more"""
    chosen = directories(state)
    for node_id, found in relays(state).items():
        subject = state.subjects[node_id]
        possible = [other for other in state.subjects if state.subjects[other].declared.relay]
        possible = [other for other in possible if may_be_pair(state, node_id, other)]
        allowed = most(policy_of(state, subject), subject)
        if not any(is_thin(state.subjects[other]) for other in possible):
            assert len(found) == min(2, allowed, len(possible))
        assert set(found) <= set(possible)
        for relay in found:
            assert relay in chosen[node_id]
            assert node_id in chosen[relay], "let in by whom it asks"
            assert node_id in site_relays.neighbours_of(state, state.subjects[relay])
        neighbours = site_relays.neighbours_of(state, subject)
        assert len(set(chosen[node_id]) - set(neighbours)) <= allowed
        if is_thin(subject):
            assert len(chosen[node_id]) <= THIN_PEERS


@given(fleets(), fleets())
@examples(120)
def test_whoever_is_told_otherwise_is_named(before, after) -> None:
    """rules K21: joins, leaves, other relays, other policies; and a model that was made from another says the same"""
    touched = affected_scopes(before, after)
    for node_id in before.members.keys() & after.members.keys():
        old, new = (entries(state, node_id) for state in (before, after))
        assert old == new or (node_id, DIRECTORY) in touched


@given(fleets(), st.sampled_from([Selector(), Selector(labels={"rack": "a"})]), st.integers(1, 6))
@examples(150)
def test_of_another_policy_alone_both_ends_of_a_pair_are_told(state, known, most_) -> None:
    """rules K21: who asks a relay may be let in no more, and the relay's own policy is as it was"""
    directories(state)
    policy = PeerPolicy("p0", applies_to=Selector(labels={"rack": "a"}), peers=known, most=most_)
    after = Model("prod", {**state.resources, policy.key: policy}, state.members)
    for node_id in state.members:
        if entries(state, node_id) != entries(after, node_id):
            assert (node_id, DIRECTORY) in affected_scopes(state, after)


@given(fleets(), st.data())
@examples(150)
def test_a_few_changed_members(state, data) -> None:
    """rules K21: what is taken over says what is worked out anew"""
    directories(state), relays(state)
    node_id = data.draw(st.sampled_from(sorted(state.members)))
    node, at = state.resources["Node", node_id], state.members[node_id]
    other = replace(node, relay=data.draw(st.booleans()), labels=data.draw(st.sampled_from([{}, {"rack": "a"}])))
    moved = replace(at, site_id=data.draw(st.sampled_from(SITES)))
    entry = data.draw(st.sampled_from([None, at, moved]))
    after = next_model(state, {node.key: other}, {node_id: entry})
    fresh = Model("prod", dict(after.resources), dict(after.members))
    assert directories(after) == directories(fresh)
    assert relays(after) == relays(fresh)
    for each in state.members.keys() & after.members.keys() - {node_id}:
        if entries(state, each) != entries(after, each):
            assert (each, DIRECTORY) in affected_scopes(state, after)


def test_forty_nodes_with_one_relay() -> None:
    """A few peers each, by default: the relay is one of them for each, and knows all."""
    state = fleet(*site(40, 1))
    chosen = directories(state)
    assert all(
        "ulm-0" in found and len(found) == DEFAULT_PEERS for node_id, found in chosen.items() if node_id != "ulm-0"
    )
    assert len(chosen["ulm-0"]) == 39
    assert entries(state, "ulm-7")["ulm-0"]["relay"] is True
    assert "relay" not in entries(state, "ulm-0")["ulm-7"]
    assert peers.shown_relays(state, state.subjects["ulm-0"]) == frozenset()
    said = VIEWS["peer_directory"].detail(state, state.subjects["ulm-0"])
    assert said.endswith("and 39 of its site, whose relay it is"), "as `holdfastctl explain` prints it"


def test_a_relay_that_does_not_know_a_member_is_no_relay_to_it() -> None:
    """Of three each member has two. The third may be its peer as others are: it need not let it in."""
    state = fleet(*site(40, 3))
    for number in range(3, 40):
        shown = entries(state, f"ulm-{number}")
        assert len(shown) == DEFAULT_PEERS
        assert [peer for peer, entry in sorted(shown.items()) if "relay" in entry] == sorted(
            site_relays.relays_of(state, state.subjects[f"ulm-{number}"])
        )


def test_a_join_changes_two_relays_directories_and_few_others() -> None:
    """rules K21, X21: and another relay takes its share alone"""
    nodes = site(200, 3)
    before, after = fleet(*nodes[:-1]), fleet(*nodes)
    old, new = relays(before), relays(after)
    assert {node_id: new[node_id] for node_id in old} == old
    told = directories(after)
    changed = {node_id for node_id, found in directories(before).items() if told[node_id] != found}
    assert len(changed & {"ulm-0", "ulm-1", "ulm-2"}) == 2
    fourth = relays(fleet(*nodes, replace(nodes[0], id="ulm-relay")))
    stays = sum(set(fourth[node_id]) == set(found) for node_id, found in new.items())
    assert 60 <= stays <= 140, "a half of the pairs' owners"
    for node_id, found in new.items():
        assert set(fourth[node_id]) - {"ulm-relay"} <= set(found)


def test_load_is_spread_and_bounded() -> None:
    """rules X21: however many stand at a site; whoever has a first choice keeps it"""
    state = fleet(*site(1_500, 8))
    counts = [len(site_relays.neighbours_of(state, state.subjects[f"ulm-{number}"])) for number in range(8)]
    assert max(counts) <= site_relays.MOST_NEIGHBOURS
    assert all(len(found) >= 1 for found in relays(state).values())
    assert max(map(len, directories(state).values())) <= site_relays.MOST_NEIGHBOURS + DEFAULT_PEERS
    many = fleet(*site(600, 600))
    total = sum(map(len, directories(many).values()))
    assert total <= 600 * DEFAULT_PEERS + site_relays.MOST_RELAYS * site_relays.MOST_NEIGHBOURS


@pytest.mark.parametrize("count", [300])
def test_who_finds_no_room_comes_in_when_somebody_leaves(count) -> None:
    """rules K21: one relay, and more members than it takes; the first that is passed over is named with the change"""
    state = fleet(*site(count, 1))
    relay = state.subjects["ulm-0"]
    directories(state)
    taken = site_relays.neighbours_of(state, relay)
    assert len(taken) == site_relays.MOST_NEIGHBOURS
    after = next_model(state, {}, {taken[5]: None})
    came = set(site_relays.neighbours_of(after, after.subjects["ulm-0"])) - set(taken)
    assert len(came) == 1
    assert (came.pop(), DIRECTORY) in affected_scopes(state, after)


def test_a_relay_that_is_draining_is_the_last_choice() -> None:
    """rules J30"""
    nodes = site(20, 3)
    state = fleet(*nodes)
    entry = replace(state.members["ulm-0"], keeps=frozenset())
    after = model(*nodes, members={**state.members, "ulm-0": entry})
    assert {relay for found in relays(after).values() for relay in found} == {"ulm-0", "ulm-1", "ulm-2"}
    assert all(relays(after)[f"ulm-{number}"] in [("ulm-1", "ulm-2"), ("ulm-2", "ulm-1")] for number in range(3, 20))

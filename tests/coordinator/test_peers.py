"""Who may have chosen a member as a peer: all who have, and few besides (rules K21)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import peers
from coordinator.declared.kinds import DEFAULT_PEERS, Node, PeerPolicy, Selector
from coordinator.declared.model import Model
from coordinator.declared.references import faults_of
from coordinator.declared.views import sections
from snapshot.identifiers import Scope
from tests.coordinator.models import model, models
from tests.examples import examples

ROLES = ("core_mesh",)


def choosers(state: Model) -> dict[str, set[str]]:
    """By member, who has chosen it."""
    found: dict[str, set[str]] = {node_id: set() for node_id in state.subjects}
    for node_id, subject in state.subjects.items():
        for chosen in peers.chosen_ids(state, subject):
            found[chosen].add(node_id)
    return found


def named(state: Model) -> dict[str, set[str]]:
    return {node_id: peers.possible_choosers(state, subject) for node_id, subject in state.subjects.items()}


@st.composite
def crowds(draw) -> Model:
    """Members of several organizations, or of none, so many that a ring has more of them than somebody may know."""
    organizations = st.sampled_from([(), ("acme",), ("umbrella",), ("acme", "umbrella")])
    roles = st.sampled_from([ROLES, ROLES, (*ROLES, "thin")])
    count = draw(st.integers(8, 60))
    ids = draw(st.permutations([f"m{number}" for number in range(80)]))[:count]
    nodes = [Node(id_, roles=draw(roles), organizations=draw(organizations)) for id_ in ids]
    return model(*nodes, PeerPolicy("few", most=draw(st.integers(1, 6))))


@given(st.one_of(models(), crowds()))
@examples(150)
def test_never_one_too_few(state) -> None:
    for node_id, found in choosers(state).items():
        assert found <= named(state)[node_id]


def test_of_a_fleet_few_are_named_who_have_not_chosen_it() -> None:
    """rules K21: whoever is named is asked, so what a join costs follows from it."""
    state = model(*(Node(f"n{number}", roles=ROLES) for number in range(600)))
    found, said = choosers(state), named(state)
    assert sum(map(len, found.values())) == 600 * DEFAULT_PEERS
    assert sum(map(len, said.values())) <= 1.2 * 600 * DEFAULT_PEERS


HUBS, LEAVES = Selector(labels={"part": "hub"}), Selector(labels={"part": "leaf"})
FLEET = [
    *(Node(f"hub-{number}", roles=ROLES, labels={"part": "hub"}) for number in range(3)),
    *(Node(f"leaf-{number}", roles=ROLES, labels={"part": "leaf"}) for number in range(3)),
]


def directory(state: Model, node_id: str) -> dict[str, dict[str, object]]:
    """All parts of it."""
    parts = sections(state, node_id, Scope("peer_directory")).values()
    return {peer: entry for part in parts for peer, entry in part.items()}


def test_a_policy_says_who_fetches_and_what_may_start_unattended() -> None:
    """rules K6, K7: `pull` at the leaves, `allow-pull` at the hubs; nothing is written where nothing is said"""
    state = model(
        *FLEET,
        PeerPolicy("leaves", applies_to=LEAVES, peers=HUBS, fetch="pull", automatic_refresh="yes"),
        PeerPolicy("hubs", applies_to=HUBS, peers=LEAVES, fetch="allow-pull"),
    )
    assert list(faults_of(state)) == []
    for entry in directory(state, "leaf-1").values():
        assert (entry["type"], entry["automatic_refresh"]) == ("pull", True)
    for entry in directory(state, "hub-1").values():
        assert entry["type"] == "allow-pull"
        assert "automatic_refresh" not in entry
    for entry in directory(model(*FLEET, PeerPolicy("usual", most=3)), "hub-1").values():
        assert entry.keys() == {"site_id", "addresses", "url", "certificates"}


@pytest.mark.parametrize(
    "policies",
    [
        [PeerPolicy("all", automatic_refresh="yes")],
        [
            PeerPolicy("leaves", applies_to=LEAVES, peers=HUBS, automatic_refresh="yes"),
            PeerPolicy("hubs", applies_to=HUBS, automatic_refresh="yes"),
        ],
        [PeerPolicy("leaves", applies_to=LEAVES, peers=HUBS, fetch="allow-pull", automatic_refresh="yes")],
    ],
)
def test_a_map_with_both_sides_automatic_is_refused(policies) -> None:
    """rules K7: when it is declared; both nodes and the other policy are named"""
    found = [fault for _, fault in faults_of(model(*FLEET, *policies))]
    assert found
    assert {fault.path for fault in found} == {("spec", "automatic_refresh")}


def test_one_side_is_enough() -> None:
    """rules K7: the leaves refresh from the hubs, and the hubs from nobody unattended"""
    policies = [
        PeerPolicy("leaves", applies_to=LEAVES, peers=HUBS, automatic_refresh="yes"),
        PeerPolicy("hubs", applies_to=HUBS, automatic_refresh="no"),
    ]
    state = model(*FLEET, *policies)
    assert list(faults_of(state)) == []
    assert all(entry["automatic_refresh"] is False for entry in directory(state, "hub-1").values())

"""Who may have chosen a member as a peer: all who have, and few besides (rules K21)."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import peers
from coordinator.declared.kinds import DEFAULT_PEERS, Node, PeerPolicy
from coordinator.declared.model import Model
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
@examples(300)
def test_never_one_too_few(state) -> None:
    for node_id, found in choosers(state).items():
        assert found <= named(state)[node_id]


def test_of_a_fleet_few_are_named_who_have_not_chosen_it() -> None:
    """rules K21: whoever is named is asked, so what a join costs follows from it."""
    state = model(*(Node(f"n{number}", roles=ROLES) for number in range(600)))
    found, said = choosers(state), named(state)
    assert sum(map(len, found.values())) == 600 * DEFAULT_PEERS
    assert sum(map(len, said.values())) <= 1.2 * 600 * DEFAULT_PEERS

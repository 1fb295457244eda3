"""Selectors that are found by what a node is: the same as asking every one of them."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared.kinds import Selector
from coordinator.declared.model import selects
from coordinator.declared.selection_index import SelectionIndex
from tests.coordinator.models import models, selectors


@given(models(), st.lists(selectors, max_size=12))
def test_nobody_is_missed_and_the_order_stays(model, listed):
    index = SelectionIndex((selector, number) for number, selector in enumerate(listed))
    for subject in model.subjects.values():
        candidates = index.candidates(subject.node_id, subject.roles, subject.declared.labels)
        assert candidates == sorted(candidates)
        wanted = [number for number, selector in enumerate(listed) if selects(selector, subject)]
        assert [number for number in candidates if selects(listed[number], subject)] == wanted


def test_what_names_others_is_not_asked():
    """A folder of its own for each of many nodes: one is found, and no other looked at."""
    of_nodes = [Selector(nodes=(f"n{number}",)) for number in range(1_000)]
    of_zones = [Selector(labels={"zone": f"z{number}"}, roles=("thin",)) for number in range(1_000)]
    of_roles = [Selector(roles=("egress_service",))]
    selectors = [*of_nodes, *of_zones, *of_roles, Selector()]
    index = SelectionIndex(zip(selectors, selectors, strict=True))
    found = index.candidates("n7", ("ingress",), {"zone": "z9", "rack": "1"})
    assert found == [of_nodes[7], of_zones[9], Selector()]

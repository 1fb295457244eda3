"""A model that was made from another one says what one says that was read whole (rules K21)."""

import gc
from functools import cached_property
from weakref import ref

from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.settings import CoordinatorSettings
from coordinator.declared import peers, views
from coordinator.declared.change_impact import affected_scopes, scopes_on_the_way
from coordinator.declared.foresight import warnings
from coordinator.declared.kinds import Node, Selector, Service, Site
from coordinator.declared.model import Model
from coordinator.declared.next_model import FEW, INDEXES, next_model
from coordinator.declared.references import faults_of
from tests.coordinator.models import changes, entry, model
from tests.examples import examples

OF_NODES = {"by_kind", "subjects", "declared_subjects"}
NAMES = {name for name, value in vars(Model).items() if isinstance(value, cached_property)}


def difference(before: Model, after: Model) -> tuple[dict, dict]:
    resources, members = (
        {key: new.get(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        for old, new in ((before.resources, after.resources), (before.members, after.members))
    )
    return resources, members


def said(state: Model) -> dict[str, object]:
    """All that is worked out of a model; so it also knows all of it from then on."""
    return {
        **{name: getattr(state, name) for name in NAMES - {"configs_by_selector"}},
        "order": list(state.subjects),
        "kinds": {kind: dict(found) for kind, found in state.by_kind.items() if found},
        "sections": {node_id: views.all_sections(state, node_id) for node_id in state.members},
        "chosen": {node_id: peers.chosen_ids(state, subject) for node_id, subject in state.subjects.items()},
        "choosers": {node_id: peers.possible_choosers(state, subject) for node_id, subject in state.subjects.items()},
        "faults": list(faults_of(state)),
        "warnings": warnings(state, CoordinatorSettings()),
        "by_kind": None,
    }


def fresh(state: Model) -> Model:
    return Model(state.cluster_id, dict(state.resources), dict(state.members))


def made_sound(state: Model) -> Model:
    """Without what does not hold together."""
    while faulty := {resource.key for resource, _ in faults_of(state)}:
        state = Model(state.cluster_id, {k: v for k, v in state.resources.items() if k not in faulty}, state.members)
    return state


@examples(160)
@given(changes(), changes(), st.booleans())
def test_it_says_what_a_model_says_that_was_read_whole(change, later, is_sound) -> None:
    """Also where that was made from another one itself, and of both together."""
    before = first = made_sound(change[0]) if is_sound else change[0]
    states = [first]  # or what lies between is forgotten
    said(before)
    for wanted in (change[1], later[0], later[1]):
        after = next_model(before, *difference(before, wanted))
        assert affected_scopes(before, after) == affected_scopes(fresh(before), fresh(wanted))
        assert said(after) == said(fresh(wanted))
        touched = affected_scopes(fresh(first), fresh(wanted))
        assert affected_scopes(first, after) == touched <= scopes_on_the_way(first, after)
        states.append(before := after)


def test_every_index_is_taken_over_by_its_kind() -> None:
    assert INDEXES.keys() | OF_NODES == NAMES


def test_what_is_not_another_is_not_made_anew() -> None:
    before = model(*(Node(f"n{number}", roles=("core_mesh",)) for number in range(40)), Service("w", "a", Selector()))
    said(before)
    after = next_model(before, {("Site", "east"): Site("east")}, {"n7": None})
    assert after.services is before.services
    assert after.subjects["n8"] is before.subjects["n8"] and "n7" not in after.subjects
    left = {node_id for node_id in before.subjects if node_id not in after.peers}
    choosers = peers.possible_choosers(before, before.subjects["n7"])
    assert left == {"n7", *choosers} and 0 < len(choosers) < 40


def test_for_many_changed_nodes_all_is_worked_out_anew() -> None:
    before = model(*(Node(f"n{number}", roles=("core_mesh",)) for number in range(40)))
    expected = said(before)
    joined = {f"m{number}": entry(f"m{number}") for number in range(FEW + 1)}
    after = next_model(before, {}, joined)
    assert not after.peers and not after.rings
    assert said(after) == said(fresh(after)) != expected


def test_the_model_before_is_not_changed_and_not_kept() -> None:
    gc.freeze()  # what was there before is not looked at
    before = [model(*(Node(f"n{number}", roles=("core_mesh",)) for number in range(5)))]
    expected = said(before[0])
    after = next_model(before[0], {}, {"m": entry("m")})
    said(after)
    assert said(before[0]) == expected
    gone = ref(before.pop())
    gc.collect()
    assert gone() is None and after.origin is not None and after.origin.before() is None

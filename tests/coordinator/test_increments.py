"""What changed, in the fewest bytes; whatever is said must give the new state again."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared.compiler import entry_of
from coordinator.declared.increments import changes, difference
from snapshot import canonical, manifest, patch

scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("ab~/", max_size=3))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.sampled_from(["a", "b", "~", "/", "a/b"]), inner, max_size=4)
    ),
    max_leaves=20,
)
states = st.dictionaries(st.sampled_from(["one", "two", "three"]), values, max_size=3)


def patched(old: object, new: object) -> object:
    operations = list(difference(old, new))
    if operations and operations[0]["path"] == "":
        return new  # another value as a whole: no patch, the section is set
    return patch.apply(operations, copy.deepcopy(old))


@given(values, values)
def test_the_difference_applied_gives_the_new_value(old: object, new: object) -> None:
    assert canonical.dumps(patched(old, new)) == canonical.dumps(new)


@given(values)
def test_nothing_differs_from_itself(value: object) -> None:
    assert list(difference(value, copy.deepcopy(value))) == []


def test_one_is_not_true() -> None:
    assert list(difference({"a": 1}, {"a": True})) == [{"op": "replace", "path": "/a", "value": True}]


def test_a_long_array_that_loses_one_element_costs_one_operation() -> None:
    old = list(range(100))
    assert list(difference({"a": old}, {"a": [*old[:40], *old[41:]]})) == [{"op": "remove", "path": "/a/40"}]


@given(states, states)
def test_the_changes_of_a_state_lead_to_the_new_one(before: dict, after: dict) -> None:
    """rules S33: the manifest after them hashes to the new state's, and each patch gives its section."""
    old = {name: canonical.dumps(value) for name, value in before.items()}
    new = {name: canonical.dumps(value) for name, value in after.items()}
    entries = {name: entry_of(data) for name, data in old.items()}
    delta = changes(entries, old.__getitem__, new)
    assert manifest.state_after(entries, delta.changes) == {name: entry_of(data) for name, data in new.items()}
    for name, change in delta.changes.items():
        if change.op == "patch":
            applied = patch.apply(canonical.loads(delta.brought[name]), canonical.loads(old[name]))
            assert canonical.dumps(applied) == new[name]
            assert len(delta.brought[name]) < len(new[name])
        elif change.op == "set":
            assert delta.brought[name] == new[name]
        else:
            assert name not in new


def test_a_small_change_of_a_large_section_is_a_patch_and_a_large_one_is_the_section() -> None:
    large = {f"r{number}": {"port": number, "host": "www.example"} for number in range(200)}
    old = {"routes": canonical.dumps(large)}
    entries = {"routes": entry_of(old["routes"])}
    one = {"routes": canonical.dumps({**large, "r7": {"port": 1, "host": "www.example"}})}
    assert changes(entries, old.__getitem__, one).changes["routes"].op == "patch"
    assert len(changes(entries, old.__getitem__, one).brought["routes"]) < 60
    other = {"routes": canonical.dumps({name: {"port": 0, "host": "x"} for name in large})}
    assert changes(entries, old.__getitem__, other).changes["routes"].op == "set"


def test_more_operations_than_a_reader_takes_become_a_section() -> None:
    """format.md 10: at most 1,000 operations."""
    old = {f"m{number}": "x" * 200 for number in range(1_001)}
    new = {name: "y" + value[1:] for name, value in old.items()}
    entries = {"s": entry_of(canonical.dumps(old))}
    assert changes(entries, lambda _: canonical.dumps(old), {"s": canonical.dumps(new)}).changes["s"].op == "set"

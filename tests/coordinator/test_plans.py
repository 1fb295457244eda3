"""What an apply would change, member by member."""

import pytest

from coordinator.declared.kinds import Config, Node, Selector
from coordinator.declared.plans import ResourceChange, differences

OF_TWO_VALUES = [(1, True), (0, False), (1, "1"), (None, ""), ([1], [True]), ("a", "b"), (1.5, 1)]


@pytest.mark.parametrize(("old", "new"), OF_TWO_VALUES)
def test_two_values_of_json_differ(old: object, new: object) -> None:
    """Also where Python takes them for one."""
    assert list(differences({"a": {"b": old}}, {"a": {"b": new}})) == [("spec.a.b", old, new)]


@pytest.mark.parametrize("value", ["", "a", 1, True, None, [1, "a"], 1.5])
def test_one_value_does_not(value: object) -> None:
    assert list(differences({"a": value}, {"a": value})) == []
    assert list(differences({"a": 1}, {"a": 1.0})) == []


def test_what_comes_and_goes_is_a_difference() -> None:
    assert list(differences({"a": "x"}, {"b": "x"})) == [("spec.a", "x", None), ("spec.b", None, "x")]


def test_a_specification_is_written_out_once() -> None:
    """Plan, answer, row and audit ask for it, and a Config may have ten thousand files."""
    change = ResourceChange(None, Config("edge", Selector(roles=("thin",)), {}))
    old, new = change.specs
    assert old is None and change.specs[1] is new
    assert new == {"to": {"nodes": [], "roles": ["thin"], "labels": {}}, "files": {}, "organization": "", "exempt": []}


def test_a_change_of_one_member_is_a_line() -> None:
    before, after = Node("a", site="east"), Node("a", site="west")
    assert list(ResourceChange(before, after).lines()) == ["~ Node a", '    spec.site: "east" -> "west"']

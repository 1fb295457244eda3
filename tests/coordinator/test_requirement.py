"""What an Expectation asks of one value, and what is told of what was found instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared.fields import RequirementForm
from coordinator.expected.requirement import NOTHING, describe, requirement_of
from snapshot import canonical
from tests.examples import examples

KEY = "AKIA" + "A" * 16
MET = [
    ("exists", ["", 0, False, [], {}, "x"]),
    ("absent", [NOTHING, None]),
    ({"equals": 1}, [1, 1.0]),
    ({"equals": "a"}, ["a"]),
    ({"equals": {"a": [1]}}, [{"a": [1]}]),
    ({"at_least": 2}, [2, 2.5, "ab", [0, 0], {"a": 1, "b": 2}]),
    ({"contains": "b"}, ["abc", ["b"], {"b": 0}]),
    ({"contains": 1}, [[1], [0, 1.0]]),
]
UNMET = [
    ("exists", [NOTHING, None]),
    ("absent", ["", 0, False, [], {}]),
    ({"equals": 1}, [True, "1", 2, NOTHING, None]),
    ({"equals": {"a": [1]}}, [{"a": [True]}, {"a": [1], "b": 1}]),
    ({"equals": "a"}, [float("inf"), 1 << 60]),
    ({"at_least": 2}, [1, 1.9, "a", [0], {"a": 1}, True, NOTHING, None]),
    ({"contains": "b"}, ["ac", ["bb"], {"a": "b"}, 1, NOTHING]),
    ({"contains": 1}, [[True], "1", {"1": 1}]),
]


def cases(table):
    return [(asked, value) for asked, values in table for value in values]


@pytest.mark.parametrize(("asked", "value"), cases(MET))
def test_what_meets_a_requirement(asked, value):
    assert requirement_of(asked).is_met(value)


@pytest.mark.parametrize(("asked", "value"), cases(UNMET))
def test_what_does_not(asked, value):
    assert not requirement_of(asked).is_met(value)


@pytest.mark.parametrize("asked", ["exists", "absent", {"equals": "x"}, {"at_least": 0.5}, {"contains": [1]}])
def test_it_stays_as_it_was_written(asked):
    faults = []
    assert RequirementForm().read(asked, ("spec", "is"), faults) == asked
    assert faults == []


@pytest.mark.parametrize(
    ("asked", "path", "remedy"),
    [
        ("there", (), "write exactly one of them"),
        (None, (), "write exactly one of them"),
        ({}, (), "write exactly one of them"),
        ({"equals": 1, "contains": 1}, (), "write exactly one of them"),
        ({"least": 1}, (), "write exactly one of them"),
        ({"at_least": "2"}, ("at_least",), "write {at_least: 1}"),
        ({"at_least": True}, ("at_least",), "write {at_least: 1}"),
        ({"equals": None}, ("equals",), 'for a file that says null write {text: "null"}'),
        ({"contains": "x" * 5_000}, ("contains",), "at most 4096 are allowed"),
    ],
)
def test_bad_requirements(asked, path, remedy):
    faults = []
    assert RequirementForm().read(asked, ("spec", "is"), faults) is None
    assert [(fault.path, fault.remedy) for fault in faults] == [(("spec", "is", *path), remedy)]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (NOTHING, "nothing"),
        (None, "nothing"),
        ("", '""'),
        ("edge", '"edge"'),
        (17, "17"),
        (True, "true"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "an object of 1"),
        ("x" * 65, "a text of 65"),
        ("two\nlines", "a text of 9"),
        (KEY, "a text of 20"),
        (f"key={KEY}", "a text of 24"),
        (float("nan"), "a number"),
        (1 << 80, "a number"),
    ],
)
def test_what_was_found_is_told_without_its_secrets(value, told):
    assert describe(value) == told


def test_under_a_name_of_secrets_nothing_is_shown():
    assert describe("hunter2", "db_password") == "a text of 7"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@examples(300)
@given(VALUES, VALUES)
def test_equals_is_equality_of_canonical_bytes(found, wanted):
    is_same = canonical.dumps(found) == canonical.dumps(wanted)
    assert requirement_of({"equals": wanted}).is_met(found) == (is_same and found is not None)


@examples(300)
@given(VALUES)
def test_what_exists_is_not_absent(found):
    assert requirement_of("exists").is_met(found) is not requirement_of("absent").is_met(found)

"""RFC 6902 as far as an increment may use it (format.md 5)."""

import copy

import pytest

from snapshot.limits import Limits
from snapshot.patch import PatchFailed, apply, same
from tests.known_answers.json_patch import EXAMPLES, REFUSED


def add(path, value=0):
    return {"op": "add", "path": path, "value": value}


def check(path, value):
    return {"op": "test", "path": path, "value": value}


def fails(base, patch):
    with pytest.raises(PatchFailed) as failure:
        apply(patch, copy.deepcopy(base))
    assert len(str(failure.value)) < 200
    return str(failure.value)


@pytest.mark.parametrize(("base", "patch", "result"), EXAMPLES.values(), ids=EXAMPLES)
def test_rfc_6902_appendix_a(base, patch, result):
    if result is REFUSED:
        fails(base, patch)
    else:
        assert same(apply(patch, copy.deepcopy(base)), result)


BASE = {"a": {"b": 1, "": 2}, "list": [1, 2, 3], "": {"": 0}, "x/y": {"~": 1}, "true": True, "null": None, "text": "t"}

NO_PATCH = {
    "object": {},
    "operation-alone": add("/z"),
    "string": "[]",
    "null": None,
    "number": 1,
    "of-arrays": [[]],
    "of-strings": ["add"],
    "of-null": [None],
    "empty-operation": [{}],
}


@pytest.mark.parametrize("patch", NO_PATCH.values(), ids=NO_PATCH)
def test_no_array_of_operations(patch):
    """format.md 7: canonical, but no patch"""
    fails(BASE, patch)


OPERATIONS = {
    "copy": {"op": "copy", "from": "/a", "path": "/z"},
    "move": {"op": "move", "from": "/a", "path": "/z"},
    "upper-case": {"op": "Add", "path": "/z", "value": 1},
    "unknown": {"op": "merge", "path": "/a", "value": 1},
    "op-missing": {"path": "/z", "value": 1},
    "op-null": {"op": None, "path": "/z", "value": 1},
    "op-array": {"op": ["add"], "path": "/z", "value": 1},
    "op-object": {"op": {}, "path": "/z", "value": 1},
    "path-missing": {"op": "add", "value": 1},
    "path-null": {"op": "add", "path": None, "value": 1},
    "path-array": {"op": "add", "path": ["z"], "value": 1},
    "path-number": {"op": "remove", "path": 0},
    "add-without-value": {"op": "add", "path": "/z"},
    "replace-without-value": {"op": "replace", "path": "/a"},
    "test-without-value": {"op": "test", "path": "/null"},
    "remove-with-value": {"op": "remove", "path": "/a", "value": 1},
    "from-beside-it": {"op": "add", "path": "/z", "value": 1, "from": "/a"},
    "extra": {"op": "remove", "path": "/a", "comment": "x"},
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_operations_out_of_form(operation):
    """threats I16"""
    fails(BASE, [operation])


POINTERS = {
    "whole": "",
    "no-slash": "a",
    "fragment": "#/a",
    "tilde-2": "/a~2b",
    "tilde-last": "/a~",
    "tilde-tilde": "/~~0",
    "tilde-letter": "/x~y",
    "through-nothing": "/nothing/b",
    "through-a-string": "/text/0",
    "through-a-number": "/a/b/c",
    "through-null": "/null/a",
    "index-leading-zero": "/list/01",
    "index-plus": "/list/+1",
    "index-minus": "/list/-1",
    "index-space": "/list/ 1",
    "index-newline": "/list/1\n",
    "index-exponent": "/list/1e0",
    "index-name": "/list/length",
    "index-empty": "/list/",
    "index-past-the-end": "/list/4",
    "index-of-eight-digits": "/list/10000000",
    "index-huge": "/list/" + "9" * 5000,
    "index-arabic": "/list/\u0661",
    "index-superscript": "/list/\u00b2",
    "through-dash": "/list/-/a",
}


@pytest.mark.parametrize("path", POINTERS.values(), ids=POINTERS)
@pytest.mark.parametrize("op", ["add", "replace", "test", "remove"])
def test_pointers_that_lead_nowhere(op, path):
    """threats I11, I14, D-28"""
    fails(BASE, [{"op": op, "path": path} | ({} if op == "remove" else {"value": 1})])


@pytest.mark.parametrize("op", ["replace", "test", "remove"])
@pytest.mark.parametrize("path", ["/list/-", "/list/3", "/nothing", "/a/c"])
def test_only_add_makes_new_places(op, path):
    fails(BASE, [{"op": op, "path": path} | ({} if op == "remove" else {"value": 1})])


PLACES = [("/a/b", 1), ("/a/", 2), ("//", 0), ("/x~1y/~0", 1), ("/list/0", 1), ("/list/2", 3), ("/null", None)]


@pytest.mark.parametrize(("path", "value"), PLACES, ids=[path for path, _ in PLACES])
def test_pointers(path, value):
    """RFC 6901"""
    assert apply([check(path, value)], copy.deepcopy(BASE)) == BASE


@pytest.mark.parametrize(("at", "result"), [("0", [9, 1, 2]), ("1", [1, 9, 2]), ("2", [1, 2, 9]), ("-", [1, 2, 9])])
def test_adding_to_an_array(at, result):
    assert apply([add(f"/{at}", 9)], [1, 2]) == result


NOT_SAME = [
    (1, True),
    (0, False),
    (True, 1),
    ("1", 1),
    (None, False),
    (None, 0),
    ([], {}),
    ("", None),
    ([1], [True]),
    ({"a": 0}, {"a": False}),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": 1}, {"b": 1}),
    ([1, 2], [2, 1]),
    ([1], [1, 1]),
    ([[{"a": [1]}]], [[{"a": [True]}]]),
    ("\u00e9", "e\u0301"),
    (1e21, 1e22),
]


@pytest.mark.parametrize(("left", "right"), NOT_SAME, ids=repr)
def test_equality_is_strict(left, right):
    """threats I12"""
    assert not same(left, right)
    assert not same(right, left)
    fails({"v": left}, [check("/v", right)])
    assert same(left, copy.deepcopy(left))
    assert apply([check("/v", left)], {"v": copy.deepcopy(left)})


def test_the_order_of_members_is_none():
    assert same({"a": 1, "b": [2]}, {"b": [2], "a": 1})


def test_the_most_operations():
    """threats I10"""
    assert apply([add("/-")] * 1000, []) == [0] * 1000
    assert "1000 operations" in fails([], [add("/-")] * 1001)


def test_the_longest_pointer():
    """format.md 10: 32 tokens"""
    deep = current = {}
    for _ in range(40):
        current["a"] = current = {}
    assert apply([add("/a" * 32, 1)], copy.deepcopy(deep))
    assert "32 tokens" in fails(deep, [add("/a" * 33, 1)])
    assert "tokens" in fails(deep, [add("/" * 100_000, 1)])


def test_a_limit_may_be_another():
    with pytest.raises(PatchFailed):
        apply([add("/-")] * 3, [], Limits(patch_operations=2))


def test_a_failure_names_the_operation():
    """threats I09, D-55: by its number, and no value."""
    said = fails({"a": "held"}, [add("/b", "brought"), check("/a", "expected")])
    assert said.startswith("operation 1:")
    assert not any(value in said for value in ("held", "brought", "expected"))


def test_values_are_not_shared():
    """threats, fact 8: what one operation brought is changed by a later one in one place alone."""
    value = {"n": 1}
    patch = [add("/a", value), add("/b", copy.deepcopy(value)), {"op": "replace", "path": "/a/n", "value": 2}]
    assert apply(patch, {}) == {"a": {"n": 2}, "b": {"n": 1}}

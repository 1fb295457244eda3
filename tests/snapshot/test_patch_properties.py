"""Patches against another implementation of RFC 6902, where both are defined."""

import copy

import jsonpatch
import jsonpointer
from hypothesis import given
from hypothesis import strategies as st

from snapshot import canonical
from snapshot.patch import PatchFailed, apply, same

NAMES = st.sampled_from(["", "a", "b", "-", "0", "1", "01", "x/y", "~", "~1", "é", "\U0001f600"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, "", "1", "true", 1.5])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
DOCUMENTS = VALUES.filter(lambda value: isinstance(value, (dict, list)))


def places(value, pointer=""):
    """Every pointer into a value, and those just beside it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
        yield f"{pointer}/new"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, f"{pointer}/{index}")
        yield from (f"{pointer}/{len(value)}", f"{pointer}/-", f"{pointer}/{len(value) + 1}")
    if pointer:
        yield from (pointer, f"{pointer}/a")


@st.composite
def patched(draw):
    """A document, and operations that mostly apply to what those before have left."""
    document = draw(DOCUMENTS)
    current, operations = copy.deepcopy(document), []
    for _ in range(draw(st.integers(0, 6))):
        path = draw(st.sampled_from(sorted(places(current))))
        op = draw(st.sampled_from(["add", "add", "replace", "test", "remove"]))
        operation = {"op": op, "path": path}
        if op == "test" and draw(st.integers(0, 9)):
            try:
                operation["value"] = copy.deepcopy(jsonpointer.resolve_pointer(current, path))
            except jsonpointer.JsonPointerException:
                operation["value"] = draw(VALUES)
        elif op != "remove":
            operation["value"] = draw(VALUES)
        operations.append(operation)
        try:
            current = jsonpatch.apply_patch(current, [operation])
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError):
            break
    return document, operations


def other_says(document, operations):
    """Its result, or None. Its `test` takes `true` for 1, so that operation is judged by ours here."""
    current = copy.deepcopy(document)
    try:
        for operation in operations:
            if operation["op"] == "test":
                found = jsonpointer.resolve_pointer(current, operation["path"])
                if not same(found, operation["value"]):
                    return None
            else:
                current = jsonpatch.apply_patch(current, [copy.deepcopy(operation)])
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError):
        return None
    return current


@given(patched())
def test_the_same_result_as_another_implementation(drawn):
    """rules S81"""
    document, operations = drawn
    try:
        ours = apply(copy.deepcopy(operations), copy.deepcopy(document))
    except PatchFailed:
        ours = None
    assert same(ours, other_says(document, operations))


@given(VALUES, VALUES)
def test_same_is_canonical_equality(left, right):
    """threats I12: two values are the same exactly when they have the same bytes."""
    assert same(left, right) == (canonical.dumps(left) == canonical.dumps(right))


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_that_another_implementation_made(before, after):
    patch = list(jsonpatch.make_patch(before, after))
    ours = all(operation["path"] and operation["op"] in ("add", "replace", "remove") for operation in patch)
    if ours:
        assert apply(patch, copy.deepcopy(before)) == after


@given(VALUES, VALUES)
def test_any_value_for_a_patch(patch, document):
    """threats E25, I09: it fails, or it applies."""
    try:
        apply(patch, document)
    except PatchFailed:
        return
    assert isinstance(patch, list)


@given(patched())
def test_a_result_is_no_larger_than_what_made_it(drawn):
    """threats I10"""
    document, operations = drawn
    try:
        result = apply(copy.deepcopy(operations), copy.deepcopy(document))
    except PatchFailed:
        return
    assert len(canonical.dumps(result)) <= len(canonical.dumps(document)) + len(canonical.dumps(operations))

"""RFC 6902, as far as an increment may use it (format.md 5): add, remove, replace, test; never the whole document.

Equality is type-strict: `1` is not `true`. There is no copy and no move, so a result is never larger than the base
and the patch together (threats I10).
"""

import re
from typing import Never

from snapshot.limits import DEFAULT, Limits

_INDEX = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")
_MEMBERS = {
    "add": {"op", "path", "value"},
    "replace": {"op", "path", "value"},
    "test": {"op", "path", "value"},
    "remove": {"op", "path"},
}


class PatchFailed(ValueError):
    """The patch is no patch, or does not apply. The text names operation and pointer, never a value."""


def apply(patch: object, document: object, limits: Limits = DEFAULT) -> object:
    """`document` after the operations of `patch`; it is changed in place, so give it a copy of its own."""
    if not isinstance(patch, list):
        raise PatchFailed("not an array of operations")
    if len(patch) > limits.patch_operations:
        raise PatchFailed(f"more than {limits.patch_operations} operations")
    for number, operation in enumerate(patch):
        try:
            _apply_one(operation, document, limits)
        except PatchFailed as error:
            raise PatchFailed(f"operation {number}: {error}") from None
    return document


def same(left: object, right: object) -> bool:
    """Equality of JSON values, type by type."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def _apply_one(operation: object, document: object, limits: Limits) -> None:
    name, tokens = _operation(operation, limits)
    assert isinstance(operation, dict)  # noqa: S101 - _operation says so
    parent = document
    for token in tokens[:-1]:
        parent = _child(parent, token)
    if isinstance(parent, dict):
        _on_object(name, parent, tokens[-1], operation.get("value"))
    elif isinstance(parent, list):
        _on_array(name, parent, tokens[-1], operation.get("value"))
    else:
        _missing()


def _operation(operation: object, limits: Limits) -> tuple[str, list[str]]:
    if not isinstance(operation, dict):
        raise PatchFailed("not an object")
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(name, str) or name not in _MEMBERS:
        raise PatchFailed("not one of add, remove, replace, test")
    if operation.keys() != _MEMBERS[name]:
        raise PatchFailed(f"{name} has exactly the members {', '.join(sorted(_MEMBERS[name]))}")
    return name, _tokens(path, limits.pointer_tokens)


def _tokens(path: object, most: int) -> list[str]:
    if not isinstance(path, str) or not path.startswith("/") or _BAD_ESCAPE.search(path):
        raise PatchFailed("not a JSON pointer into the section")
    tokens = path[1:].split("/")
    if len(tokens) > most:
        raise PatchFailed(f"a pointer of more than {most} tokens")
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens]


def _child(parent: object, token: str) -> object:
    if isinstance(parent, dict) and token in parent:
        return parent[token]
    if isinstance(parent, list):
        return parent[_index(token, len(parent) - 1)]
    return _missing()


def _on_object(name: str, parent: dict[str, object], token: str, value: object) -> None:
    if name != "add" and token not in parent:
        _missing()
    if name == "test":
        _require_same(parent[token], value)
    elif name == "remove":
        del parent[token]
    else:
        parent[token] = value


def _on_array(name: str, parent: list[object], token: str, value: object) -> None:
    if name == "add":
        parent.insert(len(parent) if token == "-" else _index(token, len(parent)), value)
        return
    index = _index(token, len(parent) - 1)
    if name == "test":
        _require_same(parent[index], value)
    elif name == "remove":
        del parent[index]
    else:
        parent[index] = value


def _require_same(found: object, expected: object) -> None:
    if not same(found, expected):
        raise PatchFailed("the tested value is another one")


def _index(token: str, most: int) -> int:
    if not _INDEX.fullmatch(token) or int(token) > most:
        _missing()
    return int(token)


def _missing() -> Never:
    raise PatchFailed("the pointer leads nowhere")

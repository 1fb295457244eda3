"""How the configuration names scopes: `*` is all, `route_policy/*` a type whatever its ids, `route_policy/a,b` one."""

import difflib
from collections.abc import Collection, Iterable

from snapshot.identifiers import SCOPE_TYPES, parse_scope

EVERY = "*"
FORM = "a scope, <scope type>/* or *"


def matches(patterns: Iterable[str], scope: str) -> bool:
    whole_type = scope.partition("/")[0] + "/*"
    return any(pattern in (EVERY, scope, whole_type) for pattern in patterns)


def checked(value: object, types: Collection[str] = SCOPE_TYPES) -> str:
    """The pattern; ValueError says what it must be, and the nearest type where there is none of that name.

    One that can never match would take a validator or a rule of access away without a word.
    """
    if value == EVERY:
        return EVERY
    try:
        scope_type, ids = parse_scope(value.removesuffix("/*") if isinstance(value, str) else value)
    except ValueError:
        raise ValueError(f"must be {FORM}, not {value!r}"[:300]) from None
    if scope_type not in types:
        near = difflib.get_close_matches(scope_type, types, 1, cutoff=0.5)
        remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(types))}"
        raise ValueError(f"names no scope type, {scope_type!r}: {remedy}")
    if ids and str(value).endswith("/*"):
        raise ValueError(f"must be {FORM}, not {value!r}: ids have no /*"[:300])
    return str(value)

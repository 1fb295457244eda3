"""How the configuration names scopes: `*` is all, `route_policy` a type with any ids, `route_policy/a,b` that scope."""

from collections.abc import Iterable

from snapshot.identifiers import SCOPE_TYPES, parse_scope

EVERY = "*"


def check_pattern(pattern: str) -> str:
    """The pattern; ValueError with the remedy where it can match nothing."""
    if pattern == EVERY:
        return pattern
    try:
        scope_type, _ = parse_scope(pattern)
    except ValueError:
        raise ValueError(f"{pattern!r} names no scope: write a scope type, a scope, or *") from None
    if scope_type not in SCOPE_TYPES:
        raise ValueError(f"{pattern!r}: the scope types are {', '.join(SCOPE_TYPES)}")
    return pattern


def matches(patterns: Iterable[str], scope: str) -> bool:
    scope_type = scope.partition("/")[0]
    return any(pattern in (EVERY, scope, scope_type) for pattern in patterns)

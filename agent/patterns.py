"""How the configuration names scopes: `*` is all, `route_policy/*` a type whatever its ids, `route_policy/a,b` one."""

from collections.abc import Iterable

EVERY = "*"


def matches(patterns: Iterable[str], scope: str) -> bool:
    whole_type = scope.partition("/")[0] + "/*"
    return any(pattern in (EVERY, scope, whole_type) for pattern in patterns)

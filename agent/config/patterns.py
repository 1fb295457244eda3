"""How the configuration names scopes: `*` is all, `service_assignment/*` all of a type, `service_assignment/web` one.

A type of which each thing has a scope of its own is all of it where it stands alone, too: a pattern that can never
match would take a validator or a rule of access away without a word.
"""

import difflib
from collections.abc import Collection, Iterable

from snapshot.identifiers import ONE_EACH, SCOPE_TYPES, parse_scope, stands_for

EVERY = "*"
FORM = "a scope, <scope type>/* or *"
_ALL = "/*"


def matches(patterns: Iterable[str], scope: str) -> bool:
    whole_type = scope.partition("/")[0] + _ALL
    return any(pattern in (EVERY, whole_type) or stands_for(pattern, scope) for pattern in patterns)


def may_be_of_none(pattern: str) -> bool:
    """Whether it is well when nothing matches: who follows whatever services there are may find none."""
    return pattern == EVERY or pattern.removesuffix(_ALL) in ONE_EACH


def check_pattern(value: object, types: Collection[str] = SCOPE_TYPES) -> str:
    """The pattern; ValueError says what it must be, and the nearest type where there is none of that name."""
    if value == EVERY:
        return EVERY
    try:
        scope_type, ids = parse_scope(value.removesuffix(_ALL) if isinstance(value, str) else value)
    except ValueError:
        raise ValueError(f"must be {FORM}, not {value!r}"[:300]) from None
    if scope_type not in types:
        near = difflib.get_close_matches(scope_type, types, 1, cutoff=0.5)
        remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(types))}"
        raise ValueError(f"names no scope type, {scope_type!r}: {remedy}")
    if ids and str(value).endswith(_ALL):
        raise ValueError(f"must be {FORM}, not {value!r}: ids have no /*"[:300])
    return str(value)

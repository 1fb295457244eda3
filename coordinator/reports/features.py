"""Which scope types a node reads, by the `features` of its heartbeats (format.md 1, "Extension"). Pure.

    unreadable_scopes(scopes, features)    what is kept from a node, and which feature it waits for

A node that has never reported is given all of it: its first head is made before its first heartbeat can come, an older
agent passes over what it does not know, and a new one would wait for nothing. What reports without `features` is older
than the first of them, and reads none. Rejected: asking for the agent's version, which says what was installed and not
what it can do; and keeping what is out already announced to an agent that went back, since it holds nothing of it, and
`fleet` would call it late for ever.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from snapshot.identifiers import CONFIG, Scope


@dataclass(frozen=True)
class Feature:
    """What a node has to read; `since`: the first agent that does."""

    id: str
    since: str

    @property
    def words(self) -> str:
        """Why a scope is held back."""
        return f"its agent does not read it; agents from {self.since} do (feature {self.id})"


CANDIDATES, AUTHORITIES = "candidates", Feature("authorities", "0.1.0")
NEEDED: Mapping[str, Feature] = {
    CONFIG: Feature("config", "0.1.0")
}  # by scope type; the other types, every agent reads
_ASKED = frozenset({CANDIDATES, AUTHORITIES.id, *(feature.id for feature in NEEDED.values())})


def unreadable_scopes(scopes: Iterable[Scope], features: Set[str] | None) -> dict[Scope, Feature]:
    """`features`: as the node reported them last; None of one that has not reported."""
    if features is None:
        return {}
    return {
        scope: NEEDED[scope.type] for scope in scopes if scope.type in NEEDED and NEEDED[scope.type].id not in features
    }


def reads_candidates(features: Set[str] | None) -> bool:
    """Whether it judges what is coming, and says so. One that has not reported may: nobody waits for its word."""
    return features is None or CANDIDATES in features


def reads_authorities(features: Set[str] | None) -> bool:
    """Whether it believes the CAs of a signed list. Who reports what such a list is in, and is not on record as one
    that lacks this, does.
    """
    return features is None or AUTHORITIES.id in features


def missing(features: Set[str] | None) -> frozenset[str]:
    """The features that it lacks of those by which it is told more, or less."""
    return frozenset() if features is None else _ASKED - features


def parse(text: str | None) -> frozenset[str] | None:
    """As the record of a node has them."""
    return None if text is None else frozenset(text.split())


def text(features: Set[str] | None) -> str | None:
    return None if features is None else " ".join(sorted(features))

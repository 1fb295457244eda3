"""Scopes whose increment did not do, so that they have to come whole; until they are active (rules A7, S27).

The fetch notes them. What closes one is that another document of its scope serves, whichever way it became active: an
activation that failed at its commit alone is finished later, by whatever comes next.
"""

from collections.abc import Mapping

from snapshot.frozen import mutable
from store.base.documents import StoredDocument


@mutable
class Gaps:
    """`refresh_required`: of a source that gives whole documents only once an operator asks (rules K38)."""

    scopes: frozenset[str] = frozenset()
    refresh_required: frozenset[str] = frozenset()

    def note(self, scope: str) -> None:
        self.scopes |= {scope}

    def note_refresh_required(self, scope: str) -> None:
        self.refresh_required |= {scope}

    def follow(self, before: Mapping[str, StoredDocument], after: Mapping[str, StoredDocument]) -> None:
        """Of what was active and of what is."""
        self.scopes = _still(self.scopes, before, after)
        self.refresh_required = _still(self.refresh_required, before, after)


def _still(
    scopes: frozenset[str], before: Mapping[str, StoredDocument], after: Mapping[str, StoredDocument]
) -> frozenset[str]:
    return frozenset(scope for scope in scopes if _digest(before.get(scope)) == _digest(after.get(scope)))


def _digest(active: StoredDocument | None) -> bytes | None:
    return active.digest if active is not None else None

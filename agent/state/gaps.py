"""Scopes whose increment did not do, so that they have to come whole; until they are active (rules A7, S27).

The fetch notes them, the swap closes them.
"""

from collections.abc import Collection

from snapshot.frozen import mutable


@mutable
class Gaps:
    """`refresh_required`: of a source that gives whole documents only once an operator asks (rules K38)."""

    scopes: frozenset[str] = frozenset()
    refresh_required: frozenset[str] = frozenset()

    def note(self, scope: str) -> None:
        self.scopes |= {scope}

    def note_refresh_required(self, scope: str) -> None:
        self.refresh_required |= {scope}

    def close(self, scopes: Collection[str]) -> None:
        self.scopes -= set(scopes)
        self.refresh_required -= set(scopes)

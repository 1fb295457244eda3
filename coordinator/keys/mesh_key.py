"""Which of the config keys of a trust bundle is the mesh key: the one that became good last (rules H45, H49).

A set of coordinators brings one that is of this set alone (trust/coordinator_set.py). Pure.
"""

from collections.abc import Iterable

from snapshot import bundle
from snapshot.bundle import KeyRecord


def newest_of(keys: Iterable[KeyRecord]) -> str:
    """Its id, or nothing where no config key is active."""
    config = (key for key in keys if key.purpose == bundle.CONFIG and key.status == bundle.ACTIVE)
    newest = max(config, key=lambda key: (key.not_before, key.not_after, key.key_id), default=None)
    return "" if newest is None else newest.key_id

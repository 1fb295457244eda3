"""The store's format version and the steps from an older one: one transaction, or nothing (rules L37)."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import lmdb

from store.base.errors import StoreError, StoreFault

FORMAT = 1

Step: TypeAlias = Callable[[lmdb.Transaction], None]

# From each older version the step to the next one. There is no older version yet.
STEPS: Mapping[int, Step] = {}


def require_known(found: int, newest: int = FORMAT) -> None:
    """StoreError when a newer version of ours wrote the store: nothing is opened, nothing changed."""
    if found > newest:
        raise StoreError(StoreFault.STORE_FORMAT_NEWER, f"the store has format {found}, we know {newest}")


def migrate(transaction: lmdb.Transaction, found: int, steps: Mapping[int, Step] = STEPS, newest: int = FORMAT) -> None:
    """Take the store from format `found` to the newest inside the caller's one transaction."""
    require_known(found, newest)
    for version in range(found, newest):
        if version not in steps:
            raise StoreError(StoreFault.STORE_CORRUPT, f"no way from store format {version} to {newest}")
        steps[version](transaction)

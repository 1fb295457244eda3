"""The last version of each scope whose documents nodes may share: one counter for all of them (format.md 7, step 3).

A node may come to a shared document from another one, or from one of its own, and has to go forward each time. So their
numbers come from one place, whichever node they are for and whichever form they have. Scopes of the other types are
numbered for each node.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import delete, insert, select

from coordinator.database import schema
from coordinator.database.database import Transaction
from coordinator.database.documents import TRUST_BUNDLE, chunks
from snapshot.identifiers import SHAREABLE


def is_counted(scope: str) -> bool:
    """By its name. Trust bundles have versions of their own (format.md 8)."""
    scope_type = scope.partition("/")[0]
    return scope_type in SHAREABLE and scope_type != TRUST_BUNDLE


def read(transaction: Transaction, scopes: Collection[str]) -> dict[str, int]:
    """By scope; of one that was never published there is none."""
    table = schema.scope_versions
    return {
        row.scope: row.config_version
        for chunk in chunks(sorted(scopes))
        for row in transaction.rows(select(table).where(table.c.scope.in_(chunk)))
    }


def advance(transaction: Transaction, versions: Mapping[str, int]) -> None:
    """To these, which are higher."""
    table = schema.scope_versions
    for chunk in chunks(sorted(versions)):
        transaction.run(delete(table).where(table.c.scope.in_(chunk)))
    rows = [{"scope": scope, "config_version": version} for scope, version in sorted(versions.items())]
    transaction.run(insert(table), rows)

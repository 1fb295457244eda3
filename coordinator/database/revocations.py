"""What heads revoke now, and what can be revoked at all (format.md 5; rules S60, S61)."""

import re
from collections.abc import Mapping

from sqlalchemy import select

from coordinator.database import cluster_state, schema
from coordinator.database.database import Transaction
from snapshot.identifiers import is_endpoint, is_hash, is_id

# The members of a head's `revocations`, and the form of their values.
_ASSIGNMENT = re.compile(r"([^/]+)/([^/]+)", re.ASCII)
CATEGORIES = {
    "key_ids": is_hash,
    "node_ids": is_id,
    "role_assignments": lambda value: (
        (match := _ASSIGNMENT.fullmatch(value)) is not None and is_id(match[1]) and is_id(match[2])
    ),
    "service_ids": is_id,
    "endpoints": is_endpoint,
}


def manifest(transaction: Transaction) -> Mapping[str, object]:
    """The member `revocations` of every head: version and sorted lists."""
    found: dict[str, list[str]] = {category: [] for category in CATEGORIES}
    for row in transaction.rows(select(schema.revocations)):
        found[row.category].append(row.value)
    version = cluster_state.standing(transaction).revocations_version
    return {"version": version, **{category: sorted(values) for category, values in found.items()}}

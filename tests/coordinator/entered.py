"""Entries of further coordinators that were never prepared: as a set leaves them, with keys that a test has chosen."""

from coordinator.database import cluster_state
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database


def add(database: Database, founding: Founding, *, actor: str, now: float) -> None:
    cluster_state.check(founding)
    with database.change(actor=actor, now=now) as transaction:
        cluster_state.enter(transaction, founding)
        transaction.audit("coordinator.set", founding.coordinator_id, None, {"url": founding.url})

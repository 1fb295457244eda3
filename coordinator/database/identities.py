"""The certificates of the coordinators' identities, for those who have only the pins (rules H7, H26).

Each is an object under the hash that the manifest pins, so that nobody has to be believed for it. A coordinator puts
its own there when it starts.
"""

from coordinator.base.refusal import Refused
from coordinator.database import object_store
from coordinator.database.database import Database, Transaction

KIND = "identities"


def publish(database: Database, der: bytes, *, now: float) -> None:
    """No authority, and no link of the history: again is the same."""
    with database.record(now=now) as transaction:
        object_store.put_all(transaction, KIND, [der])


def find(transaction: Transaction, pin: str) -> bytes | None:
    """The certificate (DER) of a pin, `sha256:...`; None where its coordinator has put none there."""
    try:
        return object_store.get(transaction, f"{KIND}/{pin.removeprefix('sha256:')}")
    except Refused:
        return None

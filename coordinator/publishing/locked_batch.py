"""Nodes that were outrun again and again, compiled in the transaction that publishes them: nothing can come in between.

    publish(...)   the first of these nodes, as many as HELD_S allows, one at least -> what was made, and the refusals

A head is swapped against what it was made from (heads.py). Where the state of a batch changes faster than the batch is
compiled, each swap is lost, for ever, and in the end the heads of the whole fleet. Here nothing changes between reading
and writing, since changes are made one at a time (database.py): what is signed is of the state that is committed, with
its revocations, its trust bundle and its halts, and the swap cannot fail.

All other changes wait for that long, on each replica, and on SQLite the reports too. So it is a last resort; few nodes
are compiled at a time, and whoever waits is served before the next. What the state has become since it was read last is
worked out before the lock, as far as it is known by then.

The bound. A due node is tried at each look, in the order in which heads end. It loses its swap MOST_OUTRUN times at
most (publisher.py), rests a second after each, and is then published with the transaction in which it is the first of
those that are left: of `n` such nodes the last one after `n` of these at most, and with about a tenth of them where a
node takes 10 ms. A coordinator that takes over begins to count anew. The lock is held for HELD_S, one node more and the
writing; for longer where a node alone takes long to compile, a key is in a slow device, or a large state of another
coordinator has to be read first.

Example. Forty nodes take 2.5 s to compile on a busy machine, and each 2 s something is declared that touches all of
them. Two batches are lost, of forty nodes and of twenty; then about eight of the forty at a time are published under
the lock, those first whose heads end first, and what is declared meanwhile waits for a tenth of a second.

Rejected:

- Smaller batches alone: one node may take longer than the time between two changes, and then nothing goes out at all.
- Having changes wait while heads are behind: whoever declares something would wait for the whole fleet.
"""

from collections.abc import Callable, Sequence

from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import backlog, heads
from coordinator.publishing.backlog import Backlog, Batch

HELD_S = 0.1  # others wait for this, for the last node that was begun, and for the writing
MOST = 32  # nodes that are given to it; what is known of each is read


class _NothingSigned(Exception):
    """Nothing is to be committed."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.batch = batch


def publish(
    database: Database,
    kept: Backlog,
    keys: Sequence[SigningKey],
    settings: CoordinatorSettings,
    node_ids: Sequence[str],
    *,
    actor: str,
    now: float,
    elapsed_s: Callable[[], float],
) -> tuple[Batch, dict[str, Refused]]:
    """In their order. Unpublishable, Refused: as of backlog.prepare."""
    _read_ahead(database, kept)
    try:
        with database.change(actor=actor, now=now, after_move=True) as transaction:
            ends = elapsed_s() + HELD_S
            batch = backlog.prepare_within(
                transaction, kept, keys, settings, node_ids, now, lambda: elapsed_s() >= ends
            )
            if not batch.drafts:
                raise _NothingSigned(batch)  # noqa: TRY301 - it is what rolls back
            return batch, heads.publish_within(transaction, [draft.publication for draft in batch.drafts])
    except _NothingSigned as nothing:
        return nothing.batch, {}


def _read_ahead(database: Database, kept: Backlog) -> None:
    with database.read() as transaction:
        kept.follow(catalog.load(transaction))

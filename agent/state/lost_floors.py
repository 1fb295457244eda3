"""What confirms lost floors: a head from outside, signed since this start (threats D-24).

Whoever can put back yesterday's disk can take both floor files away, too; the head that lies beside them then says of
itself that it is fresh. So it confirms nothing, nor does any that was signed before the agent started: what was
recorded in the network, or lies on a stick, is no newer than the disk. Rejected: an answer of the coordinator without
news, since nobody has signed it; a new head comes within the life of every other. Until then increments are refused.
"""

from agent.state.held_state import Holdings
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD


@frozen
class AtStart:
    """When the agent opened its store, by its guarded clock, and the head that it found there."""

    at: float
    head_hash: str


def is_confirmed_from_outside(holdings: Holdings, start: AtStart) -> bool:
    """Whether the accepted head is another than the one found, and was signed since."""
    held = holdings.kept.active.get(HEAD)
    return held is not None and holdings.head_hash != start.head_hash and held.envelope.issued_at >= int(start.at)

"""What may wait here for its `valid_from`, and how far ahead that may be (rules X26): this node's own bound.

A verifier says `pending` for any time ahead (format.md 7), and that stays: a document that is refused today is good
when its time is near. What a node keeps until then is for the node to say. Without a bound whoever can sign scopes
leaves in every node what becomes active long after his key is gone from people's minds, and fills it meanwhile; how
many wait, and how much, is bounded in the store (store/base/pending.py).
"""

from snapshot.envelope import SNAPSHOT, Envelope

MOST_AHEAD_S = 7 * 86_400
TOO_FAR_AHEAD, TOO_MANY_WAIT = "valid_from_too_far", "too_many_wait"
STEP = 7


class MayNotWaitError(Exception):
    """A good document whose time has not come, and that is not kept until then; it is asked for again, seldom."""

    def __init__(self, envelope: Envelope, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.envelope = envelope
        self.reason = reason
        self.detail = detail


def refuse_too_far_ahead(envelope: Envelope, now: float) -> None:
    """MayNotWaitError for a snapshot that would wait for more than a week; other kinds never wait."""
    if envelope.kind == SNAPSHOT and envelope.valid_from > now + MOST_AHEAD_S:
        days = (envelope.valid_from - now) / 86_400
        detail = f"it is to be valid in {days:.1f} days; at most {MOST_AHEAD_S // 86_400} are waited for"
        raise MayNotWaitError(envelope, TOO_FAR_AHEAD, detail)

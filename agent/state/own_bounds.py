"""Bounds of a node's own: a good document that it does not take all the same, or not yet.

What may wait here for its `valid_from`, and how far ahead that may be (rules X26), is one of them; what a service can
take (agent/services/service_limits.py) is another; and so is content that failed its probation here, under whichever
version (store/probation.py). That is told in place of step 12, and rests as a validator's "no" does: it is not fetched,
nor asked for again, as long as the head lists it.

A verifier says `pending` for any time ahead (format.md 7), and that stays: a document that is refused today is good
when its time is near. What a node keeps until then is for the node to say. Without a bound whoever can sign scopes
leaves in every node what becomes active long after his key is gone from people's minds, and fills it meanwhile; how
many wait, and how much, is bounded in the store (store/base/pending.py).
"""

from agent.state.held_state import Holdings
from snapshot.envelope import SNAPSHOT, Envelope

MOST_AHEAD_S = 7 * 86_400
TOO_FAR_AHEAD, TOO_MANY_WAIT = "valid_from_too_far", "too_many_wait"
STEP = 7
QUARANTINED, QUARANTINED_STEP = "quarantined", 12  # after all that the verifier asks
QUARANTINED_WORDS = "this content has failed its probation here: holdfast quarantine list"


class OwnRefusalError(Exception):
    """`step` of format.md 7 in whose place it is said; `reason` is a slug (snapshot/codes.py, nodes_own)."""

    def __init__(self, envelope: Envelope, step: int, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.envelope = envelope
        self.step = step
        self.reason = reason
        self.detail = detail


def may_not_wait(envelope: Envelope, reason: str, detail: str) -> OwnRefusalError:
    """Its time has not come, and it is not kept until then; it is asked for again, seldom."""
    return OwnRefusalError(envelope, STEP, reason, detail)


def refuse_too_far_ahead(envelope: Envelope, now: float) -> None:
    """OwnRefusalError for a snapshot that would wait for more than a week; other kinds never wait."""
    if envelope.kind == SNAPSHOT and envelope.valid_from > now + MOST_AHEAD_S:
        days = (envelope.valid_from - now) / 86_400
        detail = f"it is to be valid in {days:.1f} days; at most {MOST_AHEAD_S // 86_400} are waited for"
        raise may_not_wait(envelope, TOO_FAR_AHEAD, detail)


def is_quarantined(scope: str, content_hash: str, holdings: Holdings) -> bool:
    return content_hash in holdings.kept.quarantine.get(scope, frozenset())


def refuse_quarantined(envelope: Envelope, content_hash: str, holdings: Holdings) -> None:
    """OwnRefusalError for content that has failed here."""
    if is_quarantined(envelope.scope, content_hash, holdings):
        raise OwnRefusalError(envelope, QUARANTINED_STEP, QUARANTINED, QUARANTINED_WORDS)

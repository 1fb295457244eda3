"""What a refusal calls for: one table, and no other code interprets reasons (ARCHITECTURE.md; rules S27, S28, S44).

A reason says what is wrong with bytes, a reaction what a node that is given them does next. The two are kept apart so
that the verifier needs to know nothing of sources, and so that this table is all there is to read (and to test: every
reason has a row, which a test holds).

The question that decides a row is whose the fault can be, and so who could do better:

- Whoever passed the document on: damaged or foreign bytes, an old document. Another source may have the right one.
- This node, which may lack a bundle: trust is refreshed, and the same document judged once more.
- The base of an increment: the whole is fetched.
- The coordinator, by its own signature: nobody has a better one. The node keeps what it has, reports, and waits.
- Nobody by mistake: one version with two contents, content for an organization that this node must not know, a secret
  in the clear, a verifier that failed. It keeps what it has as well, counts an alarm, and somebody must look.

Rejected: a retry counter for each reason. How often something is tried follows from its cause (`retry_schedule.py`),
not from the reason; and "try again, perhaps it helps" is no reaction to what was signed.
"""

from collections.abc import Mapping
from enum import StrEnum

from snapshot.reasons import Reason


class Reaction(StrEnum):
    """Active stays in each of them."""

    NEXT_SOURCE = "next_source"  # this source's bytes are bad; another one's may be good
    FULL_RESYNC = "full_resync"  # the scope's full snapshot, at once
    REFRESH_TRUST = "refresh_trust"  # bundles first, then verify again
    GIVE_UP = "give_up"  # it is what the coordinator signed: nothing helps but a newer document
    ALARM = "alarm"  # as GIVE_UP, and somebody must look: an attack, or a bug


REACTION: Mapping[Reason, Reaction] = {
    Reason.TOO_LARGE: Reaction.NEXT_SOURCE,
    Reason.BAD_CONTAINER: Reaction.NEXT_SOURCE,
    Reason.BAD_ENVELOPE: Reaction.NEXT_SOURCE,
    Reason.UNSUPPORTED_SCHEMA: Reaction.GIVE_UP,
    Reason.WRONG_CLUSTER: Reaction.NEXT_SOURCE,
    Reason.WRONG_NODE: Reaction.NEXT_SOURCE,
    Reason.UNKNOWN_SCOPE: Reaction.GIVE_UP,
    Reason.UNKNOWN_KEY: Reaction.REFRESH_TRUST,
    Reason.KEY_EXPIRED: Reaction.REFRESH_TRUST,
    Reason.KEY_REVOKED: Reaction.REFRESH_TRUST,
    Reason.KEY_NOT_FOR_SCOPE: Reaction.REFRESH_TRUST,
    Reason.ALGORITHM_MISMATCH: Reaction.NEXT_SOURCE,
    Reason.TRUST_BUNDLE_TOO_OLD: Reaction.REFRESH_TRUST,
    Reason.BAD_SIGNATURE: Reaction.NEXT_SOURCE,
    Reason.THRESHOLD_NOT_MET: Reaction.REFRESH_TRUST,
    Reason.CONTENT_MISMATCH: Reaction.NEXT_SOURCE,
    Reason.BAD_VALIDITY: Reaction.GIVE_UP,
    Reason.ISSUED_IN_FUTURE: Reaction.NEXT_SOURCE,
    Reason.NOT_YET_VALID: Reaction.GIVE_UP,
    Reason.EXPIRED: Reaction.NEXT_SOURCE,
    Reason.STALE_EPOCH: Reaction.NEXT_SOURCE,
    Reason.EPOCH_AHEAD: Reaction.REFRESH_TRUST,
    Reason.EPOCH_NEEDS_SNAPSHOT: Reaction.FULL_RESYNC,
    Reason.VERSION_CONFLICT: Reaction.ALARM,
    Reason.ROLLBACK: Reaction.NEXT_SOURCE,
    Reason.BASE_MISMATCH: Reaction.FULL_RESYNC,
    Reason.ROLE_NOT_ALLOWED: Reaction.ALARM,
    Reason.ORGANIZATION_NOT_ALLOWED: Reaction.ALARM,
    Reason.BAD_CONTENT: Reaction.GIVE_UP,
    Reason.PATCH_FAILED: Reaction.FULL_RESYNC,
    Reason.RESULT_MISMATCH: Reaction.FULL_RESYNC,
    Reason.UNRELATED_ORGANIZATION: Reaction.ALARM,
    Reason.RAW_SECRET: Reaction.ALARM,
    Reason.VERIFIER_FAULT: Reaction.ALARM,
}

"""What a node makes of a candidate, as it says it: in votes, and in its status."""

from dataclasses import dataclass, replace

from agent.state.candidate_request import CandidateRefusal
from snapshot.identifiers import format_time
from snapshot.manifest import ScopeVersion
from wire.local.node_status import CandidateState
from wire.messages import Vote

ACCEPTED, REFUSED, AWAITED = "accepted", "refused", "awaited"


@dataclass(frozen=True)
class CandidateVerdict:
    """`refusal` None: accepted. `at`: Unix seconds."""

    scope: str
    listed: ScopeVersion
    refusal: CandidateRefusal | None
    at: float

    def since(self, before: "CandidateVerdict | None") -> "CandidateVerdict":
        """The one before, where it says the same."""
        return before if before is not None and replace(before, at=self.at) == self else self

    def to_vote(self) -> Vote:
        listed, why = self.listed, self.refusal or CandidateRefusal(None, "")
        verdict = REFUSED if self.refusal else ACCEPTED
        return Vote(self.scope, listed.snapshot_id, listed.content_hash, verdict, why.step, why.reason, why.detail)


def candidate_state(listed: ScopeVersion, verdict: CandidateVerdict | None) -> CandidateState:
    """Of one that is listed; without a verdict it is awaited."""
    why = verdict.refusal if verdict is not None else None
    said = AWAITED if verdict is None else REFUSED if why is not None else ACCEPTED
    return CandidateState(
        authority_epoch=listed.authority_epoch,
        config_version=listed.config_version,
        content_hash=listed.content_hash,
        snapshot_id=listed.snapshot_id,
        change=listed.change,
        verdict=said,
        step=why.step if why is not None else None,
        reason=str(why.reason) if why is not None else "",
        detail=why.detail if why is not None else "",
        at=format_time(verdict.at) if verdict is not None else None,
    )

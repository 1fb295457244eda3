"""The stable codes of a node in words: what each means, and what a person does about it."""

from snapshot.reasons import Reason
from snapshot.remedies import EXPLANATIONS

# The cause of a state -> what it means and what a person does (rules A2..A9).
CAUSES = {
    "not_enrolled": "This node belongs to no cluster yet: get a token (holdfastctl tokens) and run holdfast join.",
    "joining": "It is being admitted; holdfast status --watch shows when it is.",
    "no_bootstrap": "It is a member and waits for its first configuration: see holdfastctl nodes.",
    "token_of_another_cluster": "The token is of another cluster: get one of this node's.",
    "scope_expired": "A scope that the node cannot do without has expired: bring the coordinator back.",
    "no_degraded_policy": "The head has expired and no policy allows going on: bring the coordinator back.",
    "degraded_limit": "The time that the policy gives without a coordinator is over: bring it back.",
    "unconfirmed_start": "No coordinator was reached since the start, and the policy asks for that.",
    "clock_regressed": "The clock is behind what signed documents prove: set it right.",
    "revoked_by_coordinator": "The coordinator says that this node is revoked: ask its operator.",
    "revoked": "This node was revoked: only its enrolment anew brings it back (holdfast join).",
    "node_behind": "The coordinator has recorded more than this node holds: it is fetching it again.",
    "store_regressed": "The store was put back: what is missing is fetched again.",
    "running_on_previous": "The active version was damaged, the one before serves: it is fetched again.",
    "scope_missing": "A scope that the head lists has not arrived yet: holdfast explain names what was refused.",
    "version_gap": "An increment did not fit: the full document is being fetched.",
    "head_expired": "No coordinator confirms the configuration any more; the policy says what goes on.",
}

# Of the gate, where the state is not to blame (protocol.md 4).
ANSWERS = {
    "not_in_policy": "The degraded_mode_policy does not allow it, or no active scope of this node names the resource.",
    "signer_revoked": "The signer of the scope was revoked: a full document by another signer is needed.",
    "stale_epoch": "The scope is of an earlier authority epoch: a full document of the present one is needed.",
    "forbidden_in_degraded": "No node ever does this by itself: it is for the coordinator and its operators.",
    "unknown_action": "There is no such action: see POST /v1/may.",
    "revoked": "The service, peer, endpoint or role has been revoked: see holdfastctl explain.",
    "scope_expired": "The scope has expired: bring the coordinator back, or import a renewed document.",
}


def meaning(reason: str) -> str:
    """Of a rejection: what it means and what to do."""
    if reason == "validator_refused":
        return f"{reason}. A service's validator did not accept it: holdfast status shows what services said."
    if reason not in set(Reason):
        return reason
    explanation = EXPLANATIONS[Reason(reason)]
    return f"{reason}. {explanation.meaning} {explanation.remedy}"

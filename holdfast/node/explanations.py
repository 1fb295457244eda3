"""The stable codes of a node in words: what each means, and what a person does about it."""

from collections.abc import Mapping
from typing import Any

from snapshot.reasons import Reason
from snapshot.remedies import EXPLANATIONS

# The cause of a state -> what it means and what a person does (rules A2..A9).
CAUSES = {
    "not_enrolled": "This node belongs to no cluster yet: get a token (holdfastctl tokens) and run holdfast join.",
    "not_configured": "agent.toml names no cluster yet: holdfast join FILE, with a file of holdfastctl allow add.",
    "joining": "It is being admitted; holdfast status --watch shows when it is.",
    "no_bootstrap": "It is a member and waits for its first configuration: see holdfastctl nodes.",
    "no_head": "It is a member and waits for its first head, which says what it is to hold: see holdfastctl nodes.",
    "token_of_another_cluster": "The token is of another cluster: get one of this node's.",
    "scope_expired": (
        "A scope that the node is to hold has expired: bring the coordinator back. If it is there, a newer version "
        "was refused, or none could be published: see what is said of the scope here, and holdfastctl fleet."
    ),
    "no_degraded_policy": "The head has expired and no policy allows going on: bring the coordinator back.",
    "degraded_limit": "The time that the policy gives without a coordinator is over: bring it back.",
    "unconfirmed_start": "No coordinator was reached since the start, and the policy asks for that.",
    "clock_regressed": "The clock is behind what signed documents prove: set it right.",
    "revoked": "This node was revoked. Once it is readmitted: holdfast store reset-identity, then holdfast join.",
    "node_behind": "The coordinator has recorded more than this node holds: it is fetching it again.",
    "store_regressed": "The store was restored from an old backup: what is missing is fetched again.",
    "running_on_previous": "The active version was damaged, the one before serves: it is fetched again.",
    "scope_missing": "A scope that the head lists has not arrived yet: holdfast explain SCOPE names what was refused.",
    "version_gap": "An increment did not fit: the full document is being fetched.",
    "head_expired": "No coordinator confirms the configuration any more; the policy says what goes on.",
}

# Why a join did not succeed -> what a person does (rules J7, K15, K26).
JOIN_REMEDIES = {
    "bad_token": "the token is not one of this coordinator's: get a new one (holdfastctl tokens)",
    "token_used": "a token is good for one node, once: get a new one (holdfastctl tokens)",
    "token_expired": "the token is too old: get a new one (holdfastctl tokens)",
    "token_revoked": "the token was taken back: get a new one (holdfastctl tokens)",
    "wrong_site": "the token is for another site: get one for this node's",
    "wrong_cluster": "the coordinator serves another cluster: see cluster_id in agent.toml",
    "unauthorized_peer": "an operator must allow this node first (holdfastctl allow)",
    "kind_mismatch": "this node is allowed as another kind: see kind in agent.toml",
    "identity_conflict": "another certificate is known for this node: get a token bound to it (holdfastctl tokens)",
    "revoked": "this node is revoked: only an operator can admit it again",
    "removed": "this node was removed: only an operator can admit it again",
    "bad_proof": "the proof of the key was not accepted: are the clocks right, and is there a proxy in between?",
    "not_ready": "the coordinator is not ready: see holdfastctl status there",
    "too_many_requests": "too many joins from this address, or documents at once: it is tried again later",
    "tls_failed": "the coordinator's certificate does not lead to coordinator.ca_file, or is for another name",
    "connect_failed": "nobody takes connections there: see coordinator.urls, the network and the coordinator",
    "timed_out": "nobody answers there in time: see coordinator.urls, the network and the coordinator",
    "bad_endpoint": "the address is none to connect to: see coordinator.urls",
    "bad_answer": "what answers there is no coordinator, or one of another version: see coordinator.join_urls",
    "not_granted": "the coordinator's trust bundle is not one that this node believes: see [trust] in agent.toml",
    "roots_not_pinned": (
        "join with a token or a join file of this coordinator's (holdfastctl tokens create, allow add --join-file), "
        "which name the root keys; or say --trust-on-first-use ([trust] trust_on_first_use), and confirm them then"
    ),
    "other_roots": (
        "whoever answers is not the cluster of the token or of [trust] root_key_ids: nothing of it was taken. Find out "
        "who answers at coordinator.join_urls; if it is the right one, get a new token or join file"
    ),
    "bad_token_file": "put the token there as one line, for the agent's account alone (holdfast join does)",
    "bad_identity": "key and certificate do not go together: see the credential, else holdfast store reset-identity",
    "unusable_file": "put the file there, readable for the agent's account",
    "store_full": "free space on the file system of the state directory: what is active stays active",
}

# What a node refuses by a bound of its own, beside format.md 7 (rules X26).
NODES_OWN = {
    "valid_from_too_far": (
        "Its valid_from is more than seven days ahead: it is asked for again, seldom, and kept when it is near. "
        "If nobody meant that, see who has the key that signed it: see Revoke in operating.md."
    ),
    "too_many_wait": (
        "As much waits for its valid_from as this node keeps: it is asked for again, seldom. Very many such documents "
        "are a sign that somebody else has a config key: see Revoke in operating.md."
    ),
}

REFRESH_REQUIRED = (
    "it must be fetched whole, and its source is not asked unattended (automatic_refresh): "
    "systemctl reload holdfast-agent"
)

FIRST_USE = "the root keys are those of the first answer, and nobody has confirmed them"
FIRST_USE_REMEDY = (
    "until then nothing new begins and no service is told. Compare them with holdfastctl trust show, on the "
    "coordinator's machine; what stands there: holdfast trust confirm --threshold N ID...; if it is not the same, this "
    "node belongs to somebody else: stop it, remove its state directory, join by a join file"
)

# Of the gate, where the state is not to blame (protocol.md 4).
ANSWERS = {
    "not_in_policy": "The degraded_mode_policy does not allow it, or no active scope of this node names the resource.",
    "not_seen_running": (
        "This node has not seen the service running while the head was fresh, or its unit is not active now: "
        "what never ran does not begin in an outage. Bring the coordinator back."
    ),
    "signer_revoked": "The signer of the scope was revoked: a full document by another signer is needed.",
    "stale_epoch": "The scope is of an earlier authority epoch: a full document of the present one is needed.",
    "forbidden_in_degraded": "No node ever does this by itself: it is for the coordinator and its operators.",
    "roots_unconfirmed": (
        "The root keys are those of the first answer, and nobody has compared them, so nothing new begins: "
        "holdfast trust confirm, with what holdfastctl trust show says."
    ),
    "unknown_action": "There is no such action: see POST /v1/may.",
    "revoked": "The service, peer, endpoint or role has been revoked: see holdfastctl explain.",
    "scope_expired": "The scope has expired: bring the coordinator back, or import a renewed document.",
}


def failure_text(failure: Mapping[str, Any]) -> str:
    """Of `join` in the status: the code, what was met, and the remedy."""
    code = failure["code"]
    return f"{code}: {failure['detail']}: {JOIN_REMEDIES.get(code, 'see the journal of holdfast-agent')}"


def meaning(reason: str) -> str:
    """Of a rejection: what it means and what to do."""
    if reason == "validator_refused":
        return f"{reason}. A service's validator did not accept it: holdfast explain SCOPE shows what it said."
    if reason in NODES_OWN:
        return f"{reason}. {NODES_OWN[reason]}"
    if reason not in set(Reason):
        return reason
    explanation = EXPLANATIONS[Reason(reason)]
    return f"{reason}. {explanation.meaning} {explanation.remedy}"

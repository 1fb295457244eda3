"""What each code of a coordinator's refusal means, and what its operator does: one row a code, complete by a test.

A peer is told the code alone (rules X20); the audit log and `holdfastctl` have the details of the case.
"""

from typing import NamedTuple

from coordinator.base.refusal import Code


class RefusalExplanation(NamedTuple):
    meaning: str
    remedy: str


EXPLANATIONS: dict[Code, RefusalExplanation] = {
    Code.BAD_PROOF: RefusalExplanation(
        "The join's signature, nonce, certificate or server does not fit; or no client certificate was shown.",
        "Try again. If it stays: something between node and coordinator ends TLS, or join_urls names another server.",
    ),
    Code.WRONG_CLUSTER: RefusalExplanation(
        "The node asks for another cluster than this one.", "Correct node.cluster_id, or the coordinator's URL."
    ),
    Code.REVOKED: RefusalExplanation(
        "The node has been revoked.",
        "If that was wrong: holdfastctl nodes readmit, then enrol the node anew with a new token.",
    ),
    Code.REMOVED: RefusalExplanation(
        "The node has left the cluster: removed, or trimmed after a long silence.",
        "holdfastctl nodes readmit, then a new token.",
    ),
    Code.BAD_TOKEN: RefusalExplanation(
        "The token is cut off, is not one of this cluster's, or is for another node.",
        "Make one for this node: holdfastctl tokens create --node NODE_ID.",
    ),
    Code.TOKEN_REVOKED: RefusalExplanation(
        "The token was taken back.", "Make another one, if the node may still join."
    ),
    Code.TOKEN_EXPIRED: RefusalExplanation("The token's time is over.", "Make another one, and use it in time."),
    Code.TOKEN_USED: RefusalExplanation(
        "Another certificate has joined with this token.",
        "Find out which one: holdfastctl audit. If it was not yours, revoke that node; make another token.",
    ),
    Code.UNAUTHORIZED_PEER: RefusalExplanation(
        "The node is not on the allowlist, or shows another certificate than its entry fixes.",
        "If it may join: holdfastctl allow add NODE_ID.",
    ),
    Code.KIND_MISMATCH: RefusalExplanation(
        "The node wants to join as another kind than it is allowed as.",
        "Correct node.kind, or the allowlist's entry.",
    ),
    Code.IDENTITY_CONFLICT: RefusalExplanation(
        "The node is a member with another certificate, or shows one that belongs to somebody else.",
        "Give each node a name of its own. A member whose disk was lost comes back with a token that is bound to it: "
        "holdfastctl tokens create --node NODE_ID.",
    ),
    Code.WRONG_SITE: RefusalExplanation(
        "The token is for another site than the allowlist says.", "Make a token for the node, or correct its entry."
    ),
    Code.BAD_REQUEST: RefusalExplanation(
        "The request is not of the form that the route takes.", "Correct what the message names."
    ),
    Code.NOT_FOUND: RefusalExplanation(
        "There is nothing of that name, or it is not for who asks.", "List what there is, and ask for that."
    ),
    Code.PERMISSION_DENIED: RefusalExplanation(
        "Who asks may not.", "Ask as root, as the service's own user, or as an operator who was added."
    ),
    Code.LOCAL_ONLY: RefusalExplanation(
        "This is not done over the network.", "Run it on the coordinator's machine, over its admin socket."
    ),
    Code.CERTIFICATE_EXPIRED: RefusalExplanation(
        "The operator's certificate is past its end.",
        "Make a new one with holdfastctl operators key; on the machine, remove the old one and add it.",
    ),
    Code.CONFLICT: RefusalExplanation(
        "What is there already does not go together with the request.",
        "Look at what the message names, then ask again.",
    ),
    Code.HASH_MISMATCH: RefusalExplanation(
        "A stored value is not what its address says: the database was changed or is damaged.",
        "Stop, and restore the database from a backup; then raise the epoch.",
    ),
    Code.TOO_LARGE: RefusalExplanation(
        "A value is beyond its limit.", "Make it smaller, or raise the setting that is named."
    ),
    Code.BAD_KEY: RefusalExplanation(
        "A key of the store is not in its form, or names an object that never changes.",
        "This is a bug, or a hand in the database: look at the log.",
    ),
    Code.ALREADY_INITIALISED: RefusalExplanation(
        "There is a cluster in this database.", "Use it, or name another database."
    ),
    Code.NO_STATE: RefusalExplanation(
        "The database holds no cluster.", "holdfastctl init, or name the right database."
    ),
    Code.DATABASE_MISSING: RefusalExplanation(
        "The keys of a cluster are on this machine, and its database is not: no empty one is made in its place.",
        'holdfastctl restore FILE puts a backup back. Without one: operating.md, "The database is gone".',
    ),
    Code.STORE_FULL: RefusalExplanation(
        "A disk is full: the database's, or the one that a backup goes to. Nothing is lost, and nothing half done.",
        "Free space there; what could not be written is taken again by itself, or when it is asked for again.",
    ),
    Code.BACKUP_FAILED: RefusalExplanation(
        "The backup could not be made, or not be restored; nothing of it was left.", "Correct what the message names."
    ),
    Code.BACKUP_DAMAGED: RefusalExplanation(
        "A backup is cut off, changed, or none: what it holds is not what its manifest says.", "Use another one."
    ),
    Code.STALE_STATE: RefusalExplanation(
        "This replica works on a state that is no longer the latest one.",
        "Wait: it reloads by itself. If it stays, look at its log and at the database.",
    ),
    Code.CLOCK_BEHIND: RefusalExplanation(
        "What was signed last is dated later than this machine's clock says: nodes would refuse whatever came next.",
        "Set the clock right. If it is right, it was ahead before: holdfastctl epoch raise, or wait for that date.",
    ),
    Code.CLOCK_JUMPED: RefusalExplanation(
        "The clock has leapt ahead by more than nodes tolerate; for ten minutes nothing is signed by it.",
        "Set the clock right. If it is right: restart the coordinator, or wait.",
    ),
    Code.CONCURRENT_UPDATE: RefusalExplanation(
        "Another change came first; nothing of this one was done.", "Look at the plan again, and apply it again."
    ),
    Code.IN_USE: RefusalExplanation(
        "Another coordinator works on this database file.", "Stop it, or use PostgreSQL for several coordinators."
    ),
    Code.SCHEMA_TOO_NEW: RefusalExplanation(
        "The database was migrated by a later version.", "Install that version of the coordinator; nothing was changed."
    ),
    Code.INVALID_RESOURCES: RefusalExplanation(
        "Declared files are wrong; nothing was applied.", "Each problem names file, line, field and remedy."
    ),
    Code.INVALID_SETTINGS: RefusalExplanation(
        "The configuration is wrong, or its settings are at odds.", "Correct what the message names."
    ),
    Code.UNKNOWN_SITE: RefusalExplanation("There is no such site.", "Declare the Site first, or leave site_id out."),
    Code.ENDPOINT_IN_USE: RefusalExplanation(
        "A coordinator's endpoint would go, and members have not confirmed a node_bootstrap with one that stays.",
        "Declare the new endpoint beside the old one first, and wait for the members that are named, or remove them; "
        "or say that you mean it: `holdfastctl apply --drop-endpoints`.",
    ),
    Code.CONTRADICTION: RefusalExplanation("Two parts of what is asked for exclude each other.", "Drop one of them."),
}

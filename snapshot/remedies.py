"""What each reason means, and what a person does about it: one row a reason, checked to be complete by a test."""

from typing import NamedTuple

from snapshot.reasons import Reason


class Explanation(NamedTuple):
    meaning: str
    remedy: str


_AGAIN = "Fetch it again, from another source; if it is the same there, publish it anew."
_CLOCK = "Check the clock of this node and that of the coordinator; otherwise publish the document anew."

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.TOO_LARGE: Explanation(
        "A part of the document is, or says that it is, larger than the limits allow.",
        "Split the section, or raise section_bytes or content_bytes on both sides if such content is meant.",
    ),
    Reason.BAD_CONTAINER: Explanation("The file is cut off, damaged, or no Holdfast document.", _AGAIN),
    Reason.BAD_ENVELOPE: Explanation(
        "The envelope is not canonical, has a member too many, too few or out of form, or is of another kind.",
        "Ask for the kind that the document is; otherwise it was made by a faulty signer: publish it anew.",
    ),
    Reason.UNSUPPORTED_SCHEMA: Explanation(
        "The document is of a later format than this program reads.", "Upgrade Holdfast on this node."
    ),
    Reason.WRONG_CLUSTER: Explanation(
        "The document belongs to another cluster.", "Take the document that this node's own coordinator publishes."
    ),
    Reason.WRONG_NODE: Explanation(
        "The document is for another node, or for roles that this node does not have.",
        "Take the document made for this node; `holdfast status` shows its name and roles.",
    ),
    Reason.UNKNOWN_SCOPE: Explanation(
        "The document is of a scope type that this program does not know.", "Upgrade Holdfast on this node."
    ),
    Reason.UNKNOWN_KEY: Explanation(
        "No listed signer is in this node's trust bundle.",
        "Fetch the next trust bundle (`/v1/trust`, or import it from a file), then try again.",
    ),
    Reason.KEY_EXPIRED: Explanation(
        "The signer's key is not valid at this time.",
        "Check this node's clock; otherwise rotate the key (`holdfastctl rotate`) and publish anew.",
    ),
    Reason.KEY_REVOKED: Explanation(
        "The signer's key has been revoked.", "Publish the document anew, signed by a key that is trusted."
    ),
    Reason.KEY_NOT_FOR_SCOPE: Explanation(
        "The signer's key may not sign documents of this scope type.",
        "Sign with a key for this scope type; trust bundles and recoveries need the root keys.",
    ),
    Reason.ALGORITHM_MISMATCH: Explanation(
        "The envelope names another algorithm than the key's own.", "Publish the document anew with a sound signer."
    ),
    Reason.TRUST_BUNDLE_TOO_OLD: Explanation(
        "This node's trust bundle has expired, or is older than the document asks for.",
        "Fetch or import the next trust bundles in order, then try again.",
    ),
    Reason.BAD_SIGNATURE: Explanation(
        "No signature by a trusted, listed signer verifies: the document was changed, or never signed by it.", _AGAIN
    ),
    Reason.THRESHOLD_NOT_MET: Explanation(
        "Fewer signatures count than the trust bundle asks for.", "Have the missing keys sign, then publish anew."
    ),
    Reason.CONTENT_MISMATCH: Explanation("The content is not what the envelope signs.", _AGAIN),
    Reason.BAD_VALIDITY: Explanation("The document's times contradict each other.", "Publish the document anew."),
    Reason.ISSUED_IN_FUTURE: Explanation("The document was issued later than now.", _CLOCK),
    Reason.NOT_YET_VALID: Explanation(
        "The document's time has not come.", "Wait until valid_from: a snapshot that was fetched is kept until then."
    ),
    Reason.EXPIRED: Explanation("The document's time is over.", _CLOCK),
    Reason.STALE_EPOCH: Explanation(
        "The document is of an earlier authority epoch than this node has accepted.",
        "Ask who still signs in the old epoch; publish in the present one.",
    ),
    Reason.EPOCH_AHEAD: Explanation(
        "The document is of a later authority epoch than the trust bundle announces.",
        "Fetch the trust bundle that announces it; if there is none, a config key is being misused: revoke it.",
    ),
    Reason.EPOCH_NEEDS_SNAPSHOT: Explanation(
        "An increment cannot change the epoch.", "Fetch the full snapshot of the scope."
    ),
    Reason.VERSION_CONFLICT: Explanation(
        "Two contents were signed under one version. One of them is not the coordinator's, or there are two.",
        "Treat it as an incident: compare both documents, find who signed, raise the epoch.",
    ),
    Reason.ROLLBACK: Explanation(
        "The document is older than what this node has accepted.",
        "Take the present version; to go back on purpose, make a recovery (`holdfastctl recover`).",
    ),
    Reason.BASE_MISMATCH: Explanation(
        "The document changes another version than the one that is active here.",
        "Fetch the full snapshot; for a trust bundle, all the bundles between, in order.",
    ),
    Reason.ROLE_NOT_ALLOWED: Explanation(
        "No role of this node may hold this.",
        "Assign the role to the node, or take the scope from its head. By file: its head and node_runtime come first.",
    ),
    Reason.ORGANIZATION_NOT_ALLOWED: Explanation(
        "The document is for an organization that this node does not serve.", "Assign the organization to the node."
    ),
    Reason.BAD_CONTENT: Explanation(
        "A section or the manifest is not canonical, not in its form, beyond a limit, or grants what nothing may.",
        "Correct the declared resource that `where` names, and publish anew.",
    ),
    Reason.PATCH_FAILED: Explanation(
        "A patch does not apply to the section that is active here.", "Fetch the full snapshot of the scope."
    ),
    Reason.RESULT_MISMATCH: Explanation(
        "The increment leads to another content than was signed.", "Fetch the full snapshot of the scope."
    ),
    Reason.UNRELATED_ORGANIZATION: Explanation(
        "A section holds data of an organization that the document is not for.",
        "Correct the resource's organization_id, and publish anew.",
    ),
    Reason.RAW_SECRET: Explanation(
        "A section holds a secret itself.",
        'Replace it by {"secret_ref": "<resolver>:<path>"}, publish anew, and change the secret: it has travelled.',
    ),
    Reason.VERIFIER_FAULT: Explanation(
        "The verifier itself failed on this document, which is a bug.", "Keep the file and report it; nothing changed."
    ),
}

"""Why a document is refused: every code of format.md 7, and the one exception that carries it.

Nothing but `Rejected` leaves the verifier.
"""

from enum import StrEnum

MAX_TEXT = 256  # rules, Numbers: rejection text


class Reason(StrEnum):
    # step 0
    TOO_LARGE = "too_large"
    BAD_CONTAINER = "bad_container"
    # step 1
    BAD_ENVELOPE = "bad_envelope"
    UNSUPPORTED_SCHEMA = "unsupported_schema"
    # step 2
    WRONG_CLUSTER = "wrong_cluster"
    # step 3
    WRONG_NODE = "wrong_node"
    UNKNOWN_SCOPE = "unknown_scope"
    # step 4
    UNKNOWN_KEY = "unknown_key"
    KEY_EXPIRED = "key_expired"
    KEY_REVOKED = "key_revoked"
    KEY_NOT_FOR_SCOPE = "key_not_for_scope"
    ALGORITHM_MISMATCH = "algorithm_mismatch"
    TRUST_BUNDLE_TOO_OLD = "trust_bundle_too_old"
    # step 5
    BAD_SIGNATURE = "bad_signature"
    THRESHOLD_NOT_MET = "threshold_not_met"
    # step 6
    CONTENT_MISMATCH = "content_mismatch"
    # step 7
    BAD_VALIDITY = "bad_validity"
    ISSUED_IN_FUTURE = "issued_in_future"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    # step 8
    STALE_EPOCH = "stale_epoch"
    EPOCH_AHEAD = "epoch_ahead"
    EPOCH_NEEDS_SNAPSHOT = "epoch_needs_snapshot"
    # step 9
    VERSION_CONFLICT = "version_conflict"
    ROLLBACK = "rollback"
    BASE_MISMATCH = "base_mismatch"
    # step 10
    ROLE_NOT_ALLOWED = "role_not_allowed"
    ORGANIZATION_NOT_ALLOWED = "organization_not_allowed"
    # step 11
    BAD_CONTENT = "bad_content"
    PATCH_FAILED = "patch_failed"
    RESULT_MISMATCH = "result_mismatch"
    UNRELATED_ORGANIZATION = "unrelated_organization"
    # step 12
    RAW_SECRET = "raw_secret"
    # a bug of ours, in whichever step it happened
    VERIFIER_FAULT = "verifier_fault"


class Rejected(Exception):
    """A document is refused at `step` (0..12) for `reason`.

    `expected` and `found` say what differed, `where` names the member or section (a JSON pointer inside it).
    All three are escaped and bounded (threats D-59), and never hold a secret's value (threats D-55).
    """

    def __init__(
        self, step: int, reason: Reason, *, expected: object = "", found: object = "", where: str = ""
    ) -> None:
        self.step = step
        self.reason = reason
        self.expected = safe_text(expected)
        self.found = safe_text(found)
        self.where = safe_text(where)
        super().__init__(f"step {step}: {reason}")

    @property
    def detail(self) -> str:
        """One bounded line: where, what was expected, what was found."""
        parts = [
            f"{label} {text}"
            for label, text in (("at", self.where), ("expected", self.expected), ("found", self.found))
            if text
        ]
        return "; ".join(parts)[:MAX_TEXT]


def safe_text(value: object) -> str:
    """`value` as one line of at most 256 printable ASCII characters (threats D-59); what is one stays as it is."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(map(_printable, text[:MAX_TEXT]))
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def _printable(character: str) -> str:
    return character if " " <= character <= "~" else character.encode("unicode_escape").decode("ascii")

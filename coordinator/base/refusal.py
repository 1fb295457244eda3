"""The one error of the coordinator: a stable code for the peer, a sentence for the operator (rules P10, X20)."""

import enum
from collections.abc import Iterable

_MOST_LINE = 1_024


class Code(enum.StrEnum):
    # join and check-in, in the order of rules J7
    BAD_PROOF = "bad_proof"
    WRONG_CLUSTER = "wrong_cluster"
    REVOKED = "revoked"
    REMOVED = "removed"
    BAD_TOKEN = "bad_token"
    TOKEN_REVOKED = "token_revoked"
    TOKEN_EXPIRED = "token_expired"
    TOKEN_USED = "token_used"
    UNAUTHORIZED_PEER = "unauthorized_peer"
    KIND_MISMATCH = "kind_mismatch"
    IDENTITY_CONFLICT = "identity_conflict"
    WRONG_SITE = "wrong_site"
    # requests
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    PERMISSION_DENIED = "permission_denied"
    LOCAL_ONLY = "local_only"
    CERTIFICATE_EXPIRED = "certificate_expired"
    # the store and its state
    CONFLICT = "conflict"
    HASH_MISMATCH = "hash_mismatch"
    TOO_LARGE = "too_large"
    BAD_KEY = "bad_key"
    ALREADY_INITIALISED = "already_initialised"
    NO_STATE = "no_state"
    DATABASE_MISSING = "database_missing"
    STORE_FULL = "store_full"
    TIMED_OUT = "timed_out"
    BACKUP_FAILED = "backup_failed"
    BACKUP_DAMAGED = "backup_damaged"
    STALE_STATE = "stale_state"
    UNTRUSTED_HISTORY = "untrusted_history"
    NO_SIGNER = "no_signer"
    NOT_IN_MANIFEST = "not_in_manifest"
    MANIFEST_MISMATCH = "manifest_mismatch"
    BAD_SHARE = "bad_share"
    NOT_AN_OWNER = "not_an_owner"
    WRONG_SEED = "wrong_seed"
    PEERS_READY = "peers_ready"
    PEERS_UNKNOWN = "peers_unknown"
    RECOVERY_MODE = "recovery_mode"
    CLOCK_BEHIND = "clock_behind"
    CLOCK_JUMPED = "clock_jumped"
    CONCURRENT_UPDATE = "concurrent_update"
    IN_USE = "in_use"
    SCHEMA_TOO_NEW = "schema_too_new"
    # a cluster on its way to another coordinator
    MOVED = "moved"
    EXPORT_FAILED = "export_failed"
    EXPORT_DAMAGED = "export_damaged"
    EXPORT_OUTDATED = "export_outdated"
    WRONG_RECIPIENT = "wrong_recipient"
    # what an operator declares or asks for
    INVALID_RESOURCES = "invalid_resources"
    INVALID_SETTINGS = "invalid_settings"
    UNKNOWN_SITE = "unknown_site"
    ENDPOINT_IN_USE = "endpoint_in_use"
    CA_IN_USE = "ca_in_use"
    CONTRADICTION = "contradiction"
    NOT_DRAINING = "not_draining"
    HAS_DEPENDANTS = "has_dependants"
    EXPECTATION_FAILED = "expectation_failed"
    TOO_MUCH_CHANGE = "too_much_change"
    PLAN_DIFFERS = "plan_differs"


class Refused(Exception):
    """A request that is not carried out; nothing of it remains.

    `code` may go to the peer. `detail` and `remedy` are for the audit log and the operator alone (rules H-000-4);
    they are bounded and hold no secret. `lines`: what else is said to the operator.
    """

    def __init__(self, code: Code, detail: str, *, remedy: str = "", lines: Iterable[str] = ()) -> None:
        super().__init__(f"{code}: {detail}" + (f" ({remedy})" if remedy else ""))
        self.code = code
        self.detail = bound_text(detail)
        self.remedy = remedy
        self.lines = tuple(bound_text(line, _MOST_LINE) for line in lines)


def bound_text(text: str, most: int = 256) -> str:
    """Text from outside as it may stand in a log or a record: escaped, at most 256 characters (threats D-59)."""
    shown = text if text.isprintable() else text.encode("unicode_escape", "backslashreplace").decode("ascii")
    return shown if len(shown) <= most else shown[: most - 3] + "..."

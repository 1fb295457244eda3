"""What an attempt to join fails with, as stable codes. Their remedies are in `holdfast.node.explanations`.

The codes of a refusal are the coordinator's (rules J7, K26); the others say how far the attempt came.
"""

from collections.abc import Mapping

from agent.config.token import BadTokenFileError
from agent.state.root_pinning import OtherRootsError, RootsNotPinnedError
from snapshot.reasons import Rejected, safe_text
from store.base.disk import refusal
from store.base.errors import StoreError, StoreFault
from wire.certificate import BadCertificateError
from wire.client import ClientError, ClientFault
from wire.messages import BadMessageError

FORBIDDEN = 403
# With these it is the token that was refused: another one may do, this one will not.
TOKEN_CODES = frozenset({"bad_token", "token_used", "token_expired", "token_revoked", "wrong_site", "roots_not_pinned"})


class NotGrantedError(Exception):
    """The grant is not one: its documents do not lead to a trust bundle that we believe."""


class UnusableFileError(Exception):
    """A file of the configuration cannot be used; the text names it."""


CODES: Mapping[type[Exception], str] = {
    Rejected: "not_granted",
    NotGrantedError: "not_granted",
    RootsNotPinnedError: "roots_not_pinned",
    OtherRootsError: "other_roots",
    BadMessageError: "bad_answer",
    BadTokenFileError: "bad_token_file",
    BadCertificateError: "bad_identity",
    UnusableFileError: "unusable_file",
    OSError: "io",
}
# What an attempt may fail with; anything else is a fault of ours.
EXPECTED: tuple[type[Exception], ...] = (ClientError, StoreError, *CODES)


def code_of(error: Exception) -> str:
    if isinstance(error, ClientError):
        refused = error.reason is ClientFault.REFUSED
        return error.code or f"status_{error.status}" if refused else str(error.reason)
    if isinstance(error, StoreError):
        return str(error.fault)
    if isinstance(error, OSError):
        return _of_the_disk(error)
    return next(code for kind, code in CODES.items() if isinstance(error, kind))


def _of_the_disk(error: OSError) -> str:
    """A full disk has the store's own code, wherever it is met (rules L35)."""
    fault = refusal(error).fault
    return str(fault) if fault is StoreFault.STORE_FULL else CODES[OSError]


def is_refusal(error: Exception) -> bool:
    """Whether somebody has to do something: the coordinator said no, or what lies here cannot be used."""
    if isinstance(error, ClientError):
        return error.status == FORBIDDEN
    return isinstance(error, BadTokenFileError | BadCertificateError | RootsNotPinnedError | UnusableFileError)


def detail_of(error: Exception) -> str:
    """Bounded and escaped: it may hold what the other side said."""
    return safe_text(error.detail if isinstance(error, ClientError) else str(error))

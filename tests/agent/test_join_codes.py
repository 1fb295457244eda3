"""Every way in which an attempt to join fails has a code, and every code words for a person."""

import pytest

from agent.config.token import BadTokenFileError
from agent.state.join_codes import EXPECTED, NotGrantedError, code_of, detail_of, is_refusal
from agent.state.root_pinning import OtherRootsError, RootsNotPinnedError
from store.base.errors import StoreError, StoreFault
from wire.client import ClientError, ClientFault


@pytest.mark.parametrize(
    ("error", "code", "refused"),
    [
        (ClientError(ClientFault.REFUSED, "403 token_used", status=403, code="token_used"), "token_used", True),
        (ClientError(ClientFault.REFUSED, "503 not_ready", status=503, code="not_ready"), "not_ready", False),
        (ClientError(ClientFault.REFUSED, "502", status=502), "status_502", False),
        (ClientError(ClientFault.TLS_FAILED, "self-signed certificate"), "tls_failed", False),
        (NotGrantedError("no bundle"), "not_granted", False),
        (RootsNotPinnedError("none"), "roots_not_pinned", True),
        (OtherRootsError("another's"), "other_roots", False),
        (BadTokenFileError("open"), "bad_token_file", True),
        (StoreError(StoreFault.STORE_FULL, "full"), "store_full", False),
        (PermissionError(13, "no"), "io", False),
        (OSError(28, "No space left on device"), "store_full", False),
        (OSError(122, "Disk quota exceeded"), "store_full", False),
    ],
)
def test_what_an_attempt_fails_with(error, code, refused):
    """rules J7, K15"""
    assert isinstance(error, EXPECTED)
    assert (code_of(error), is_refusal(error)) == (code, refused)


def test_what_the_other_side_said_is_bounded_and_escaped():
    """threats D-59"""
    said = detail_of(ClientError(ClientFault.REFUSED, "\x1b[31m" + "x" * 5000, status=403))
    assert len(said) <= 256
    assert said.isprintable()

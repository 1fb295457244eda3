"""The codes of format.md 7, and what may be said beside one."""

import re

import pytest

from snapshot.reasons import MAX_TEXT, Reason, Rejected, safe_text

# format.md 7's table, and the fault of the verifier itself.
CODES = """
too_large bad_container bad_envelope unsupported_schema wrong_cluster wrong_node unknown_scope
unknown_key key_expired key_revoked key_not_for_scope algorithm_mismatch trust_bundle_too_old
bad_signature threshold_not_met content_mismatch bad_validity issued_in_future not_yet_valid expired
stale_epoch epoch_ahead epoch_needs_snapshot version_conflict rollback base_mismatch
role_not_allowed organization_not_allowed bad_content patch_failed result_mismatch unrelated_organization
raw_secret verifier_fault
"""


def test_the_codes_are_those_of_the_format():
    assert sorted(Reason) == sorted(CODES.split())
    assert f"{Reason.TOO_LARGE}" == "too_large"


HOSTILE = {
    "newline": "a\nb",
    "terminal": "\x1b[2J\x07",
    "right-to-left": "\u202egnp",
    "delete": "\x7f\x85",
    "lone-surrogate": "\ud800",
    "not-ascii": "héllo \U0001f600",
    "long": "x" * 10_000,
    "long-once-escaped": "\U0001f600" * 200,
    "bytes": b"\x00\xff",
    "nested": [[["\n"]]],
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_came_from_outside_is_escaped_and_bounded(text):
    """rules S54; threats D-59"""
    rejected = Rejected(1, Reason.BAD_ENVELOPE, expected=text, found=text, where=str(text))
    for said in (safe_text(text), rejected.expected, rejected.found, rejected.where, rejected.detail):
        assert re.fullmatch(r"[ -~]{1,256}", said)


@pytest.mark.parametrize("text", [*HOSTILE.values(), "C:\\etc\\x41", "a \\ b"])
def test_what_is_escaped_already_is_not_escaped_again(text):
    """It passes several hands: a command's output is text of a refusal, of a record, and of an answer."""
    assert safe_text(safe_text(text)) == safe_text(text)


def test_detail_names_what_differs():
    rejected = Rejected(2, Reason.WRONG_CLUSTER, expected="ours", found="theirs", where="cluster_id")
    assert rejected.detail == "at cluster_id; expected ours; found theirs"
    assert str(rejected) == "step 2: wrong_cluster"


def test_the_edge_of_the_bound():
    assert safe_text("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert safe_text("x" * (MAX_TEXT - 1) + "\n") == "x" * (MAX_TEXT - 3) + "..."

"""What a `node_bootstrap` says of CAs: the reading alone, whatever stands there."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.authorities import (
    MOST,
    MOST_READ,
    MOST_SEEN,
    NONE_SIGNED,
    BelievedAuthorities,
    SeenAuthorities,
    SignedAuthorities,
    after_list,
    choose_authorities,
    parse_row,
    signed_authorities,
)
from snapshot import canonical
from wire.certificate import fingerprint, make_authority, make_identity

MADE_AT = 1_800_000_000.0
DERS = sorted((make_authority("raven coordinators", MADE_AT).der for _ in range(MOST + 1)), key=fingerprint)
A, B = DERS[:2]
LEAF = make_identity("node-a", MADE_AT).der


def entry(der: bytes) -> dict[str, str]:
    return {"certificate": base64.b64encode(der).decode()}


def section(*ders: bytes, **others: object) -> bytes:
    return canonical.dumps({fingerprint(der): entry(der) for der in ders} | others)


def test_without_the_section_nothing_is_signed():
    assert signed_authorities(None) == NONE_SIGNED


def test_each_is_read_and_a_further_member_is_open():
    """format.md 10"""
    found = signed_authorities(section(A, **{fingerprint(B): {**entry(B), "since": "later"}}))
    assert found.ders == (A, B)
    assert found.passed_over == ()


@pytest.mark.parametrize(
    ("name", "value", "because"),
    [
        (fingerprint(A), entry(B), "another name"),
        ("raven", entry(A), "another name"),
        (fingerprint(LEAF), entry(LEAF), "no CA"),
        (fingerprint(A), {"certificate": "nonsense"}, "another name"),
        (fingerprint(A), {"certificate": 1}, "another name"),
        (fingerprint(A), None, "another name"),
        (fingerprint(A), {}, "another name"),
        (fingerprint(b"nonsense"), entry(b"nonsense"), "not a readable"),
    ],
    ids=range(8),
)
def test_what_is_amiss_authorises_nothing_and_leaves_the_others(name, value, because):
    """format.md 10: it is no fault of the document"""
    other = DERS[2]
    found = signed_authorities(section(other, **{name: value}))
    assert found.ders == (other,)
    assert len(found.passed_over) == 1 and because in found.passed_over[0]


def test_more_than_a_node_reads_are_passed_over():
    found = signed_authorities(section(*DERS))
    assert len(found.ders) == MOST == len(DERS) - len(found.passed_over)


def test_of_many_that_are_amiss_few_are_looked_at():
    """rules, Numbers: it is read on the event loop; who signs such a list could as well list none"""
    many = {f"{number:04}": entry(A) for number in range(MOST_READ)}
    assert signed_authorities(section(B, **dict(list(many.items())[1:]))).ders == (B,)
    assert signed_authorities(section(B, **many)).ders == ()


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(max_size=9), st.lists).map(canonical.dumps))
def test_nonsense_is_nothing(data):
    assert signed_authorities(data).ders == ()


lists = st.lists(st.binary(min_size=1, max_size=1), unique=True, max_size=MOST).map(tuple)


@given(st.lists(st.tuples(st.integers(1, 3), lists), max_size=20))
def test_who_signs_lists_can_add_and_push_none_out(held):
    """threats T16: within an epoch, which only the roots raise"""
    seen = SeenAuthorities()
    for epoch, listed in held:
        before, seen = seen, after_list(seen, epoch, listed, ("sha256:1",))
        if epoch <= before.epoch:
            assert seen.ders[: len(before.ders)] == before.ders
        assert len(seen.ders) <= MOST_SEEN
        assert parse_row(seen.to_row()) == seen


@pytest.mark.parametrize("row", [None, {}, {"epoch": "1", "ders": []}, {"epoch": 1, "ders": [b""] * (MOST_SEEN + 1)}])
def test_a_row_out_of_form_is_not_known(row):
    assert parse_row(row) == SeenAuthorities()


def test_the_file_is_believed_where_no_list_is_or_its_signer_is_revoked():
    seen = SeenAuthorities(1, (A,))
    assert choose_authorities(NONE_SIGNED, seen, is_vouched_for=True) == BelievedAuthorities((), with_file=True)
    assert choose_authorities(SignedAuthorities((B,)), seen, is_vouched_for=True) == BelievedAuthorities(
        (B,), with_file=False
    )
    assert choose_authorities(SignedAuthorities((B,)), seen, is_vouched_for=False) == BelievedAuthorities(
        (B, A), with_file=True
    )

"""The join token is opaque; only what cluster it says it is for is looked at, unverified."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.token import TOKEN_BYTES, cluster_of, read_token


def test_a_token_is_one_line_of_a_file(tmp_path):
    """rules K14"""
    file = tmp_path / "token"
    assert read_token(file) is None
    file.write_text("abc.def.ghi\n")
    assert read_token(file) == "abc.def.ghi"


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff\xfe", b"a\0b", b"x" * (TOKEN_BYTES + 1)])
def test_what_could_break_a_header_is_no_token(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    assert read_token(file) is None


def test_the_cluster_that_a_token_names():
    """rules K27"""
    claims = base64.urlsafe_b64encode(b'{"cluster":"raven-1"}').decode().rstrip("=")
    assert cluster_of(f"e30.{claims}.sig") == "raven-1"


@given(st.text(max_size=200))
def test_any_other_token_names_none(text):
    assert cluster_of(text) is None or text.count(".") >= 1


@pytest.mark.parametrize("claims", [b"[]", b'{"cluster":1}', b'{"cluster":"A B"}', b"[" * 5000, b"\xff"])
def test_claims_out_of_form_name_none(claims):
    assert cluster_of("e30." + base64.urlsafe_b64encode(claims).decode() + ".s") is None

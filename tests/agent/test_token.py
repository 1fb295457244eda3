"""The join token is opaque; only what cluster it says it is for is looked at, unverified."""

import base64
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.token import TOKEN_BYTES, BadTokenFileError, JoinToken, RootPins, find_tokens, read_token


def put(file, content=b"abc.def.ghi\n", mode=0o600):
    file.touch(0o600)
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_token_is_one_line_of_a_file(tmp_path):
    """rules K14"""
    assert read_token(tmp_path / "token") is None
    assert read_token(put(tmp_path / "token")) == JoinToken("abc.def.ghi")
    assert read_token(put(tmp_path / "token", mode=0o400)) == JoinToken("abc.def.ghi")


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff\xfe", b"a\0b", b"x" * (TOKEN_BYTES + 1)])
def test_what_could_break_a_header_is_no_token(tmp_path, content):
    with pytest.raises(BadTokenFileError, match="no token in") as caught:
        read_token(put(tmp_path / "token", content))
    assert repr(content) not in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_can_reach_is_refused(tmp_path, mode):
    """threats J12, D-61: readable by others, so the remedy is another token"""
    with pytest.raises(BadTokenFileError, match="revoke that token, or chmod 0600") as caught:
        read_token(put(tmp_path / "token", mode=mode))
    assert "abc" not in str(caught.value)


def test_a_link_or_a_folder_is_refused(tmp_path):
    """threats J12, D-61"""
    put(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("link", "symbolic link"), ("fifo", "is no file"), (".", "Is a directory")):
        with pytest.raises(BadTokenFileError, match=why):
            read_token(tmp_path / name)


def test_a_credential_may_bear_the_mask_of_its_access_list(tmp_path, monkeypatch):
    """rules K14: systemd opens it to the service's user by an access list, which shows as the group's bits"""
    file = put(tmp_path / "holdfast.join-token", mode=0o440)
    with pytest.raises(BadTokenFileError):
        read_token(file)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert read_token(file) == JoinToken("abc.def.ghi")
    with pytest.raises(BadTokenFileError):
        read_token(put(file, mode=0o444))


def test_the_tokens_of_several_files_in_their_order(tmp_path):
    """rules K14: what is wrong with one keeps no other out, and is said"""
    put(tmp_path / "a", mode=0o644)
    put(tmp_path / "b", b"second")
    put(tmp_path / "c", b"third")
    found = find_tokens([tmp_path / name for name in ("none", "a", "b", "c")])
    assert [each.text for each in found.tokens] == ["second", "third"]
    assert str(tmp_path / "a") in found.trouble


def saying(claims: bytes) -> JoinToken:
    return JoinToken(f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.sig")


def test_the_cluster_that_a_token_names():
    """rules K27"""
    assert saying(b'{"cluster":"raven-1"}').cluster_id == "raven-1"


@given(st.text(max_size=200))
def test_any_other_token_names_none(text):
    assert (JoinToken(text).cluster_id, JoinToken(text).pins) == (None, None) or text.count(".") >= 1


@pytest.mark.parametrize("claims", [b"[]", b'{"cluster":1}', b'{"cluster":"A B"}', b"[" * 5000, b"\xff", b"1"])
def test_claims_out_of_form_name_none(claims):
    assert (saying(claims).cluster_id, saying(claims).pins) == (None, None)


KEY_A, KEY_B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.mark.parametrize(("named", "threshold"), [([KEY_A], 1), ([KEY_A, KEY_B], 1), ([KEY_B, KEY_A], 2)])
def test_the_roots_that_a_token_names(named, threshold):
    """threats D-19"""
    claims = json.dumps({"root_key_ids": named, "root_threshold": threshold}).encode()
    assert saying(claims).pins == RootPins(frozenset(named), threshold)


@pytest.mark.parametrize(
    ("named", "threshold"),
    [([], 1), ([], 0), ([KEY_A], 0), ([KEY_A], 2), ([KEY_A, KEY_A], 2), ([KEY_A], True), ([KEY_A], None),
     ([KEY_A], "1"), ("", 1), (KEY_A, 1), ([KEY_A, "sha256:A"], 1), ([KEY_A, 1], 1), ([["a"]], 1), ({KEY_A: 1}, 1)],
)  # fmt: skip
def test_roots_out_of_form_are_none(named, threshold):
    """threats D-19: half of a pin is none, so the join is refused rather than trusting less than was meant"""
    assert saying(json.dumps({"root_key_ids": named, "root_threshold": threshold}).encode()).pins is None


def test_more_roots_than_any_cluster_has_are_none():
    named = [f"sha256:{number:064x}" for number in range(65)]
    assert saying(json.dumps({"root_key_ids": named, "root_threshold": 1}).encode()).pins is None


def test_the_second_line_allows_first_use(tmp_path):
    """threats D-19: as `holdfast join --trust-on-first-use` leaves it, and nothing else is two lines"""
    allowing = JoinToken("abc.def.ghi", trusts_first_use=True)
    assert read_token(put(tmp_path / "token", allowing.lines().encode())) == allowing
    assert read_token(put(tmp_path / "token", b" abc.def.ghi\r\ntrust-on-first-use\r\n")) == allowing
    for second in (b"trust", b"TRUST-ON-FIRST-USE", b"trust-on-first-use\nmore", b"abc.def.ghi"):
        with pytest.raises(BadTokenFileError):
            read_token(put(tmp_path / "token", b"abc.def.ghi\n" + second))
    with pytest.raises(BadTokenFileError):
        read_token(put(tmp_path / "token", b"\ntrust-on-first-use\nabc"))

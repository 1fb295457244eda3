"""The join token is opaque; only what cluster it says it is for is looked at, unverified."""

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.token import TOKEN_BYTES, BadTokenFileError, cluster_of, find_tokens, read_token


def put(file, content=b"abc.def.ghi\n", mode=0o600):
    file.touch(0o600)
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_token_is_one_line_of_a_file(tmp_path):
    """rules K14"""
    assert read_token(tmp_path / "token") is None
    assert read_token(put(tmp_path / "token")) == "abc.def.ghi"
    assert read_token(put(tmp_path / "token", mode=0o400)) == "abc.def.ghi"


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
    assert read_token(file) == "abc.def.ghi"
    with pytest.raises(BadTokenFileError):
        read_token(put(file, mode=0o444))


def test_the_tokens_of_several_files_in_their_order(tmp_path):
    """rules K14: what is wrong with one keeps no other out, and is said"""
    put(tmp_path / "a", mode=0o644)
    put(tmp_path / "b", b"second")
    put(tmp_path / "c", b"third")
    found = find_tokens([tmp_path / name for name in ("none", "a", "b", "c")])
    assert found.tokens == ("second", "third")
    assert str(tmp_path / "a") in found.trouble


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

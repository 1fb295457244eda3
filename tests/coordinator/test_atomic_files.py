"""Notes of files: whose are believed, and what is removed."""

import os
from pathlib import Path

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.keys.atomic_files import clear_up, plain_file, together

NOBODY = 65534


def never() -> bool:
    return False


def test_what_an_unfinished_command_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """rules J34, P7: also where a link led to its directory, and what is no more of ours stays"""
    (tmp_path / "real").mkdir()
    (tmp_path / "led").symlink_to("real")
    place, note = tmp_path / "led/keys/config.pem", tmp_path / "note"
    with pytest.raises(KeyboardInterrupt), together(note, [(place, plain_file(b"key"))], never):
        assert place.read_bytes() == b"key"
        text = note.read_text()
        raise KeyboardInterrupt
    assert not place.parent.exists() and not note.exists()
    place.parent.mkdir()
    place.write_bytes(b"left")
    plain_file(text.encode())(note)
    clear_up(note, never)
    assert not place.parent.exists() and not note.exists()


def test_a_directory_that_has_become_a_link_is_not_followed(tmp_path: Path) -> None:
    foreign = tmp_path / "etc/ca.pem"
    foreign.parent.mkdir()
    foreign.write_bytes(b"of somebody else")
    (tmp_path / "tls").symlink_to(foreign.parent)
    note = tmp_path / "note"
    plain_file(f"{tmp_path / 'tls/ca.pem'}\nend".encode())(note)
    clear_up(note, never)
    assert foreign.read_bytes() == b"of somebody else"
    assert not note.exists()


def test_a_note_that_is_a_link_or_has_a_second_name_is_not_believed(tmp_path: Path) -> None:
    victim, note = tmp_path / "victim", tmp_path / "note"
    victim.write_bytes(b"root key")
    written = tmp_path / "written"
    plain_file(f"{victim}\nend".encode())(written)
    for put in (note.symlink_to, note.hardlink_to):
        put(written)
        with pytest.raises(Refused, match="not left by this account") as refused:
            clear_up(note, never)
        assert refused.value.code is Code.BAD_REQUEST
        assert victim.exists() and note.exists()
        note.unlink()
    written.rename(note)
    clear_up(note, never)
    assert not victim.exists(), "the next of our own goes through"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives the file to another user")
def test_root_removes_nothing_that_the_services_account_names(tmp_path: Path) -> None:
    """The directory is that account's, and so is whatever it puts there."""
    victim, note = tmp_path / "root-key.pem", tmp_path / "state/incomplete"
    victim.write_bytes(b"root key")
    note.parent.mkdir()
    os.chown(note.parent, NOBODY, NOBODY)
    plain_file(f"{victim}\nend".encode())(note)
    os.chown(note, NOBODY, NOBODY)
    with pytest.raises(Refused, match="not left by this account"):
        clear_up(note, never)
    assert victim.read_bytes() == b"root key"

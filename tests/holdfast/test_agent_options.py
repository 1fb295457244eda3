"""What the commands that ask the agent look at before they ask."""

import os

import pytest

from holdfast.node.agent_options import has_files

SOMEBODY = 65_534


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another account")
def test_files_that_are_for_others_are_none(public_folder):
    """protocol.md 4: as `[access]` leaves them; the socket is asked, which may answer"""
    (public_folder / "generations/7").mkdir(parents=True)
    (public_folder / "generations").chmod(0o700)
    files = public_folder / "active"
    files.symlink_to("generations/7")
    assert has_files(files)
    os.seteuid(SOMEBODY)
    try:
        assert not has_files(files)
    finally:
        os.seteuid(0)


def test_without_files_there_are_none(tmp_path):
    assert not has_files(tmp_path / "active")
    (tmp_path / "active").symlink_to("gone")
    assert not has_files(tmp_path / "active")

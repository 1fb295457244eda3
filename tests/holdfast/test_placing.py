"""Files put in their places together: all or none, and through nobody's link."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.node.placing import CannotPlaceError, Placed, place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "etc"
    made.mkdir(mode=0o755)
    return made


def shown(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_each_has_its_content_and_mode(folder: Path) -> None:
    (folder / "b").write_bytes(b"before")
    place([Placed(folder / "a", b"1", 0o600), Placed(folder / "b", b"2", 0o644)])
    assert shown(folder) == {"a": b"1", "b": b"2"}
    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in "ab"] == [0o600, 0o644]


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives a file away")
def test_root_gives_it_to_its_owner(folder: Path) -> None:
    place([Placed(folder / "a", b"1", 0o600, (4001, 4002))])
    found = (folder / "a").stat()
    assert (found.st_uid, found.st_gid) == (4001, 4002)


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "shadow"
    elsewhere.write_bytes(b"mine")
    (folder / "b").symlink_to(elsewhere)
    with pytest.raises(CannotPlaceError, match="no plain file"):
        place([Placed(folder / "a", b"1", 0o600), Placed(folder / "b", b"2", 0o600)])
    assert elsewhere.read_bytes() == b"mine"
    assert [path.name for path in folder.iterdir()] == ["b"]
    (folder / "b").unlink()
    place([Placed(folder / "a", b"1", 0o600), Placed(folder / "b", b"2", 0o600)])
    assert shown(folder) == {"a": b"1", "b": b"2"}


def test_a_folder_behind_a_link_is_not_entered(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(CannotPlaceError, match="link"):
        place([Placed(tmp_path / "link" / "a", b"1", 0o600)])
    assert shown(folder) == {}


def test_a_folder_that_others_may_write_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(CannotPlaceError, match="chmod go-w"):
        place([Placed(folder / "a", b"1", 0o600)])
    assert shown(folder) == {}


def test_what_fails_leaves_nothing(folder: Path) -> None:
    """The second cannot be written: the first is not there, and what was there before is as it was."""
    (folder / "b").write_bytes(b"before")
    (folder / f".b.{os.getpid()}.new").mkdir()
    with pytest.raises(CannotPlaceError, match="nothing was changed"):
        place([Placed(folder / "a", b"1", 0o600), Placed(folder / "b", b"2", 0o600)])
    (folder / f".b.{os.getpid()}.new").rmdir()
    assert shown(folder) == {"b": b"before"}


def test_a_folder_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(CannotPlaceError, match="make this folder"):
        place([Placed(folder / "none" / "a", b"1", 0o600)])


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
AGENT = (4001, 4002)


@AS_ROOT
def test_what_the_agents_account_lays_in_its_folder_is_not_given_away(folder: Path, tmp_path: Path) -> None:
    """A second name of root's file stands where the token goes: it is replaced, neither written nor given away."""
    os.chown(folder, *AGENT)
    victim = tmp_path / "shadow"
    victim.write_bytes(b"of root")
    (folder / "join.token").hardlink_to(victim)
    place([Placed(folder / "join.token", b"token", 0o600, AGENT)])
    assert (victim.read_bytes(), victim.stat().st_uid, victim.stat().st_nlink) == (b"of root", 0, 1)
    found = (folder / "join.token").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode), shown(folder)) == (AGENT[0], 0o600, {"join.token": b"token"})


@AS_ROOT
@pytest.mark.parametrize("name", ["join.token", ".join.token.{}.new"])
def test_a_link_that_the_agents_account_lays_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    os.chown(folder, *AGENT)
    victim = tmp_path / "shadow"
    victim.write_bytes(b"of root")
    link = folder / name.format(os.getpid())
    link.symlink_to(victim)
    with pytest.raises(CannotPlaceError, match="nothing was changed"):
        place([Placed(folder / "join.token", b"token", 0o600, AGENT)])
    assert (victim.read_bytes(), victim.stat().st_uid) == (b"of root", 0)
    link.unlink(missing_ok=True)
    place([Placed(folder / "join.token", b"token", 0o600, AGENT)])
    assert shown(folder) == {"join.token": b"token"}


@AS_ROOT
def test_a_folder_of_a_third_account_is_refused(folder: Path) -> None:
    os.chown(folder, 4003, 4003)
    with pytest.raises(CannotPlaceError, match="may be written by others"):
        place([Placed(folder / "join.token", b"token", 0o600, AGENT)])
    assert shown(folder) == {}

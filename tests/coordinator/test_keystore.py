"""Private keys in files of their own, and the passphrases that open them (rules S40, threats D-61)."""

import os
import stat
from pathlib import Path

import pytest

from coordinator.keys import keystore
from coordinator.keys.signing_key import UnusableKeyError
from snapshot.bundle import CONFIG, ROOT
from tests.fakes.cluster import key

PASSPHRASE = b"correct horse"


def failure(function, *arguments, **options) -> str:
    with pytest.raises(UnusableKeyError) as caught:
        function(*arguments, **options)
    return str(caught.value)


def names(keys) -> list[str]:
    return [one.key_id for one in keys]


def test_each_key_is_a_file_of_its_own(tmp_path: Path) -> None:
    """rules S40; seed 001, 8: a root key can go to another machine alone."""
    place = tmp_path / "keys"
    roots = [keystore.keep(place, ROOT, key(f"custody {n}")) for n in range(3)]
    config = keystore.keep(place, CONFIG, key("custody 3"))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (*roots, config)} == {0o600}
    assert keystore.files(place, ROOT) == sorted(roots)
    assert keystore.files(place, CONFIG) == [config]
    assert names(keystore.config_keys(place, {})) == names([key("custody 3")])
    away = tmp_path / "elsewhere"
    keystore.own_directory(away)
    roots[0].rename(away / roots[0].name)
    assert names(keystore.find([away], [])) == names([key("custody 0")])


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    path = keystore.keep(tmp_path / "keys", ROOT, key("custody 0"))
    before = path.read_bytes()
    assert "move it away" in failure(keystore.keep, tmp_path / "keys", ROOT, key("custody 0"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("algorithm", ["ed25519", "rsa-pss-sha256"])
def test_keys_of_both_algorithms_are_kept_under_a_passphrase(tmp_path: Path, algorithm: str) -> None:
    """rules S10"""
    made = keystore.new_key(algorithm)
    path = keystore.keep(tmp_path / "keys", ROOT, made, PASSPHRASE)
    assert b"ENCRYPTED" in path.read_bytes()
    assert keystore.is_encrypted(path)
    assert "passphrase" in failure(keystore.load, path)
    assert "passphrase" in failure(keystore.find, [path], [b"other"])
    (found,) = keystore.find([path.parent], [b"other", PASSPHRASE])
    assert (found.key_id, found.algorithm) == (made.key_id, algorithm)


def test_a_plain_key_needs_none_of_the_passphrases(tmp_path: Path) -> None:
    plain = keystore.keep(tmp_path / "keys", ROOT, key("custody 0"))
    assert not keystore.is_encrypted(plain)
    assert names(keystore.find([plain], [PASSPHRASE])) == names([key("custody 0")])


def test_credentials_of_the_service_are_keys_too(tmp_path: Path) -> None:
    """rules L40: the same key in both places is one."""
    own, given = tmp_path / "own", tmp_path / "credentials"
    keystore.keep(own, CONFIG, key("custody 0"))
    for name in ("custody 0", "custody 1"):
        keystore.keep(given, CONFIG, key(name))
    environment = {"CREDENTIALS_DIRECTORY": str(given)}
    assert {one.key_id for one in keystore.config_keys(own, environment)} == {
        key("custody 0").key_id,
        key("custody 1").key_id,
    }
    assert len(keystore.config_keys(None, environment)) == 2
    assert keystore.config_keys(tmp_path / "nowhere", {}) == ()


def test_what_others_may_touch_is_refused(tmp_path: Path) -> None:
    """threats D-61"""
    place = tmp_path / "keys"
    path = keystore.keep(place, CONFIG, key("custody 0"))
    path.chmod(0o640)
    assert "chmod 600" in failure(keystore.config_keys, place, {})
    path.chmod(0o600)
    assert len(keystore.config_keys(place, {})) == 1
    place.chmod(0o777)
    assert "chmod 700" in failure(keystore.keep, place, CONFIG, key("custody 1"))
    link = tmp_path / "link"
    link.symlink_to(place)
    assert "not a directory" in failure(keystore.own_directory, link)
    (place / "config-000000000000.pem").symlink_to(path)
    assert failure(keystore.config_keys, place, {})


def test_a_passphrase_comes_from_a_file_that_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "passphrase"
    path.write_bytes(PASSPHRASE + b"\nanother line\n")
    path.chmod(0o644)
    assert "chmod 600" in failure(keystore.read_passphrase, path)
    path.chmod(0o600)
    assert keystore.read_passphrase(path) == PASSPHRASE
    path.write_bytes(b"\n")
    assert "empty" in failure(keystore.read_passphrase, path)
    assert failure(keystore.read_passphrase, tmp_path / "nowhere")


def test_an_unknown_algorithm_names_the_known_ones() -> None:
    assert "ed25519" in failure(keystore.new_key, "rsa")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert str(closed) in failure(keystore.own_directory, closed / "keys")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_keeps_keys_for_the_account_whose_directory_it_is(public_folder: Path) -> None:
    """`holdfastctl init` as root, into the service's own directory, as docs/installing.md says."""
    place = public_folder / "keys"
    place.mkdir(mode=0o700)
    os.chown(place, 4321, 4321)
    path = keystore.keep(place, CONFIG, key("custody 0"))
    assert (path.stat().st_uid, path.stat().st_gid) == (4321, 4321)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    place.chmod(0o770)
    assert "chmod 700" in failure(keystore.keep, place, CONFIG, key("custody 1"))

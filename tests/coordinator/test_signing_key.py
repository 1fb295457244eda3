"""Private keys: where they may lie, which may sign, and that no text holds them."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coordinator.keys import signing_key
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from snapshot.signature import key_id, verify_signature
from tests.fakes import rsa_keys

PASSPHRASE = b"correct horse"


@pytest.fixture
def made():
    return SigningKey.generate()


@pytest.fixture
def file(tmp_path, made):
    path = tmp_path / "config.pem"
    signing_key.write_file(path, made)
    return path


def test_a_new_key_signs_what_its_public_half_verifies(made):
    """rules S10"""
    assert made.algorithm == "ed25519"
    assert made.key_id == key_id(made.public_key)
    assert verify_signature(made.algorithm, made.public_key, b"message", made.sign(b"message"))
    assert not verify_signature(made.algorithm, made.public_key, b"another", made.sign(b"message"))
    assert SigningKey.generate().key_id != made.key_id


@pytest.mark.parametrize("bits", [3072, 4096])
def test_an_rsa_key_that_may_sign(bits):
    """rules S10"""
    made = SigningKey.of(rsa_keys.key(bits))
    assert made.algorithm == "rsa-pss-sha256"
    assert verify_signature(made.algorithm, made.public_key, b"message", made.sign(b"message"))


UNACCEPTABLE = {
    "rsa-2048": lambda: rsa_keys.key(2048),
    "rsa-e-3": lambda: rsa_keys.key(3072, 3),
    "p-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ed448": ed448.Ed448PrivateKey.generate,
    "bytes": lambda: b"key",
}
"""Made where one is tried: whoever runs a test reads this file."""


@pytest.mark.parametrize("kind", UNACCEPTABLE)
def test_keys_that_no_reader_would_accept(kind):
    """rules S10; threats K13: refused before they have signed anything."""
    with pytest.raises(UnusableKeyError):
        SigningKey.of(UNACCEPTABLE[kind]())


def test_its_secret_is_in_no_text(made):
    """threats D-61"""
    secret = made._private.private_bytes_raw() if hasattr(made._private, "private_bytes_raw") else made.to_pem()
    for text in (repr(made), str(made), f"{made}"):
        assert made.key_id in text
        assert secret.hex() not in text
        assert "PRIVATE" not in text


# Files


def test_a_file_and_back(file, made):
    """It is the same key: what it signs, the public half that was published verifies."""
    again = signing_key.from_file(file)
    assert again.key_id == made.key_id
    assert verify_signature(made.algorithm, made.public_key, b"message", again.sign(b"message"))


def test_a_new_file_is_for_its_owner_alone(tmp_path, made):
    """threats D-61: whatever the umask."""
    before = os.umask(0)
    try:
        signing_key.write_file(tmp_path / "key.pem", made)
    finally:
        os.umask(before)
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600


def test_a_key_is_never_written_over(file, made):
    """Whoever loses a root key loses the cluster: the file stays as it was."""
    before = file.read_bytes()
    with pytest.raises(UnusableKeyError, match="is there already"):
        signing_key.write_file(file, SigningKey.generate())
    assert file.read_bytes() == before


def test_a_passphrase(tmp_path, made):
    path = tmp_path / "root.pem"
    signing_key.write_file(path, made, PASSPHRASE)
    assert b"ENCRYPTED" in path.read_bytes()
    assert signing_key.from_file(path, PASSPHRASE).key_id == made.key_id
    with pytest.raises(UnusableKeyError, match="passphrase"):
        signing_key.from_file(path)
    with pytest.raises(UnusableKeyError, match="another passphrase"):
        signing_key.from_file(path, b"wrong")


def test_a_passphrase_where_there_is_none(file):
    with pytest.raises(UnusableKeyError, match="give no passphrase"):
        signing_key.from_file(file, PASSPHRASE)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622, 0o700 | 0o010])
def test_a_file_that_others_may_open(file, mode):
    """threats D-61"""
    file.chmod(mode)
    with pytest.raises(UnusableKeyError, match="chmod 600"):
        signing_key.from_file(file)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_ours_alone(file, mode):
    """threats D-61"""
    file.chmod(mode)
    signing_key.from_file(file)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="gives the file to another user")
def test_a_file_of_somebody_else(file):
    """threats D-61"""
    os.chown(file, 65533, 65533)
    with pytest.raises(UnusableKeyError, match="chown"):
        signing_key.from_file(file)


def test_a_link_is_not_followed(tmp_path, file):
    """threats D-61"""
    link = tmp_path / "link.pem"
    link.symlink_to(file)
    with pytest.raises(UnusableKeyError, match="link"):
        signing_key.from_file(link)
    with pytest.raises(UnusableKeyError):
        signing_key.write_file(link, SigningKey.generate())


def test_what_is_no_plain_file(tmp_path):
    """threats D-61: a pipe does not keep the coordinator waiting at its start."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(UnusableKeyError):
            signing_key.from_file(path)


def test_a_folder_is_no_key(tmp_path):
    """threats D-61: whoever names the folder in place of the file is told so."""
    with pytest.raises(UnusableKeyError):
        signing_key.from_file(tmp_path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UnusableKeyError, match=r"absent\.pem"):
        signing_key.from_file(tmp_path / "absent.pem")


HOLLOW = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("data", [b"", b"junk", HOLLOW, b"x" * 20_000], ids=["empty", "junk", "hollow", "large"])
def test_what_is_no_key(tmp_path, data):
    path = tmp_path / "key.pem"
    path.touch(0o600)
    path.write_bytes(data)
    with pytest.raises(UnusableKeyError, match=r"key\.pem"):
        signing_key.from_file(path)


def test_a_public_key_is_no_private_one(made):
    public = Ed25519PrivateKey.generate().public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(UnusableKeyError, match="not a private key"):
        signing_key.from_pem(pem)


def test_the_text_of_a_refusal_names_the_file_and_no_secret(tmp_path):
    """threats D-55"""
    weak = rsa_keys.key(2048)
    pem = weak.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(UnusableKeyError, match=r"^weak\.pem: no reader would accept it") as refused:
        signing_key.from_pem(pem, name="weak.pem")
    assert pem.splitlines()[1].decode() not in str(refused.value)

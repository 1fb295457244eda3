"""Seed and salt, and what is derived from them (rules H0, H45, P11)."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import plain_file
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import UnusableKeyError

ONE = Seed(b"\x01" * 32, b"\x02" * 32)


def kept(folder: Path, data: bytes, mode: int = 0o600) -> Path:
    plain_file(data, mode)(folder / seeds.FILE)
    return folder


def test_the_same_pair_derives_the_same_key(tmp_path: Path) -> None:
    """The bytes are fixed: another release has to derive the same."""
    name = ONE.history_key.key_id
    assert name == "sha256:bca6d823ef749ad736af187538802911b6ee1dbed5c63fb1733ecf11675cbc89"
    assert seeds.load(kept(tmp_path, ONE.to_bytes()), {}) == ONE
    assert Seed(ONE.salt, ONE.seed).history_key.key_id != name
    assert Seed.generate().history_key.key_id != Seed.generate().history_key.key_id


def test_the_cas_key_is_another_one_for_each_generation() -> None:
    """rules P11: fixed as well; the history key says nothing of it, nor one generation of the next"""
    first, second = (load_pem_private_key(ONE.authority_key(number), None) for number in (1, 2))
    public = first.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    assert public.hex() == "023378bd0940e8f75d1df11c90ec742014b681b6df0337783b1d3c9831cfeafca6"
    assert first.curve.name == "secp256r1"
    assert first.private_numbers() != second.private_numbers()
    assert ONE.authority_key(1) == ONE.authority_key(1) != Seed(ONE.salt, ONE.seed).authority_key(1)


def test_no_text_of_it_shows_it() -> None:
    assert repr(ONE) == "Seed()"


def test_it_may_come_from_the_service_manager(tmp_path: Path) -> None:
    kept(tmp_path, ONE.to_bytes())
    empty = tmp_path / "keys"
    empty.mkdir()
    assert seeds.load(empty, {"CREDENTIALS_DIRECTORY": str(tmp_path)}) == ONE
    assert seeds.load(empty, {}) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\x00\xff", "is no seed"),
        (b"[]", "is no seed"),
        (ONE.to_bytes().replace(b"seed/1", b"seed/9"), "is no seed"),
        (ONE.to_bytes().replace(b"01", b""), "has no seed of 32 random bytes"),
        (ONE.to_bytes().replace(b"02", b"zz"), "has no salt of 32 random bytes"),
        (ONE.to_bytes().replace(b"01", b"00"), "has no seed of 32 random bytes"),
    ],
)
def test_what_is_none_is_refused_and_named(tmp_path: Path, data: bytes, why: str) -> None:
    """rules H51: short, empty, of another form"""
    with pytest.raises(UnusableKeyError, match=why) as caught:
        seeds.load(kept(tmp_path, data), {})
    assert str(tmp_path) in str(caught.value)
    assert "01" * 8 not in str(caught.value)


def test_one_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(UnusableKeyError, match="open to others"):
        seeds.load(kept(tmp_path, ONE.to_bytes(), 0o644), {})

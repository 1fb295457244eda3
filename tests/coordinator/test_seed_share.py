"""Shares of the seed, sealed to the key of one owner (rules H4, H51)."""

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.keys import owner_key, seed_share, signing_key
from coordinator.keys.owner_key import OwnerKey
from coordinator.keys.seed import Seed
from coordinator.keys.seed_share import SeedShare
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from snapshot import canonical
from tests.coordinator.owners import ALICE, BOB
from tests.examples import examples
from tests.fakes import rsa_keys

SEED = Seed(b"\x01" * 32, b"\x02" * 32)
SHARE = seed_share.seal(SEED, "prod", ALICE.public("alice"))


def refused(data: bytes) -> str:
    with pytest.raises(Refused) as caught:
        seed_share.parse(data, name="alice.share")
    assert caught.value.code is Code.BAD_SHARE
    assert caught.value.remedy
    return caught.value.detail


def test_its_owner_opens_it_and_nobody_else() -> None:
    """rules H4: the seed leaves a coordinator encrypted alone"""
    data = SHARE.to_bytes()
    read = seed_share.parse(data, name="alice.share")
    assert read == SHARE
    assert read.open(ALICE) == SEED
    assert (
        SEED.seed not in data and base64.b64encode(SEED.seed)[:40] not in data and SEED.seed.hex().encode() not in data
    )
    with pytest.raises(Refused, match="does not open with this key"):
        read.open(BOB)


def test_each_share_is_another_one() -> None:
    again = seed_share.seal(SEED, "prod", ALICE.public("alice"))
    assert again.ephemeral != SHARE.ephemeral
    assert again.open(ALICE) == SEED


@pytest.mark.parametrize(
    "members",
    [
        {"cluster_id": "staging"},
        {"owner": "bob"},
        {"history_key": Seed.generate().history_key.key_id},
        {"ephemeral": bytes(32)},
        {"ephemeral": b"\x09" + bytes(31)},
        {"sealed": SHARE.sealed[:-1] + bytes([SHARE.sealed[-1] ^ 1])},
        {"sealed": seed_share.seal(SEED, "prod", BOB.public("bob")).sealed},
    ],
)
def test_what_is_passed_off_as_another_does_not_open(members: dict) -> None:
    """rules H51: of another cluster, another owner, another history; swapped, or changed by a bit"""
    with pytest.raises(Refused) as caught:
        replace(SHARE, **members).open(ALICE)
    assert caught.value.code is Code.BAD_SHARE
    assert SHARE.open(ALICE) == SEED


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (SHARE.to_bytes()[:-20], "cut off"),
        (b"[]", "no share"),
        (SHARE.to_bytes().replace(b"share/1", b"share/2"), "no share"),
        (SHARE.to_bytes().replace(b'"prod"', b'"PROD"'), "names no cluster"),
        (replace(SHARE, sealed=SHARE.sealed[1:]).to_bytes(), "short"),
        (replace(SHARE, ephemeral=SHARE.ephemeral + b"1").to_bytes(), "too long"),
        (b"\xff" * 99, "no share"),
        (b"[" * seed_share.MOST_BYTES, "no share"),
        (SHARE.to_bytes().replace(b'"prod"', b'"prod", "owner":"bob"'), "no share"),
    ],
    ids=range(11),
)
def test_a_file_that_is_none_is_named(data: bytes, why: str) -> None:
    """rules H51: short, empty, of another form"""
    assert why in refused(data)


@examples(200)
@given(st.integers(0, len(SHARE.to_bytes()) - 2), st.integers(1, 255))
def test_no_changed_byte_goes_unseen(at: int, by: int) -> None:
    data = bytearray(SHARE.to_bytes())
    data[at] ^= by
    try:
        found = seed_share.parse(bytes(data), name="x")
    except Refused as refusal:
        assert refusal.code is Code.BAD_SHARE
        return
    if found != SHARE:
        with pytest.raises(Refused):
            found.open(ALICE)


def test_nothing_shows_a_secret() -> None:
    assert "sealed" not in repr(SHARE)
    assert repr(ALICE).count("0x") == 0
    assert isinstance(SHARE, SeedShare)


# ---- the owner's key


def test_its_two_halves_follow_from_one_file() -> None:
    again = OwnerKey.of(signing_key.from_pem(ALICE.signing.to_pem(b"words"), b"words"))
    assert again.key == ALICE.key
    assert SHARE.open(again) == SEED
    # in each release the same
    assert ALICE.key == "6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0ixyXYgBeGWlbenGAUAiFBgBOnJ3IxPvIGQKStcueTHcOQ=="


def test_the_public_half_comes_back_whole() -> None:
    data = ALICE.public_file("alice")
    assert owner_key.parse_public(data, name="alice.pub") == ALICE.public("alice")
    assert ALICE.signing.to_pem() not in data


@pytest.mark.parametrize("members", [{"owner": "bob"}, {"key": BOB.key}, {"proof": ""}, {"proof": "&"}])
def test_a_damaged_public_half_is_refused_before_anything_is_sealed_to_it(members: dict) -> None:
    value = {**json.loads(ALICE.public_file("alice")), **members}
    with pytest.raises(Refused, match="damaged"):
        owner_key.parse_public(canonical.dumps(value), name="alice.pub")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{}", b'{"format":"holdfast-owner/1"}', ALICE.public_file("Not An Id")),
        *(b"[" * owner_key.MOST_BYTES, b'{"a":' * 700),
    ],
    ids=range(7),
)
def test_what_is_no_public_half_is_refused(data: bytes) -> None:
    with pytest.raises(Refused) as caught:
        owner_key.parse_public(data, name="alice.pub")
    assert caught.value.code is Code.BAD_REQUEST
    assert "alice.pub" in caught.value.detail


@pytest.mark.parametrize("key", [7, "", "&", ALICE.key[:-4], ALICE.key + "AAAA", ALICE.key[:-3] + "R=="])
def test_a_key_of_another_form_is_none(key: object) -> None:
    assert not owner_key.is_key(key)


def test_an_rsa_key_is_none_of_an_owner() -> None:
    with pytest.raises(UnusableKeyError, match="owner-key makes one"):
        OwnerKey.of(SigningKey.of(rsa_keys.key(3072)))

"""Owners of shares of the seed, with their keys at hand: the same in each process of a test run."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coordinator.keys.owner_key import OwnerKey
from coordinator.keys.signing_key import SigningKey


def key_of(number: int) -> OwnerKey:
    return OwnerKey.of(SigningKey.of(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)))


ALICE, BOB = key_of(7), key_of(8)
OWNERS = (ALICE.public("alice"), BOB.public("bob"))
BY_NAME = {owner.owner: owner.key for owner in OWNERS}

"""Signatures that this process has made a moment ago, verified by libsodium, in half of the time that OpenSSL takes.

A review (publishing/review.py) verifies each of them before its document goes out: half of what a renewed head cost was
to sign it and to verify that. What signs is OpenSSL (signing_key.py), so what verifies here is also another program: a
fault of one of them, by which it would believe what it has made itself, is met by the other one.

The verdict is the same. Both compare R with the R that they work out, without a cofactor, and what they see differently
(keys and R of small order, other encodings of either, S of L or more) is refused before they are asked, by the checks
that a node makes (snapshot/signature.py). A libsodium after 1.0.20 multiplies by the cofactor: it would take an R with
a small part as well, which nobody makes without the private key and on purpose, and which a node refuses.

Whatever comes from outside is still verified as a node does it, by OpenSSL: what root keys have signed elsewhere, other
coordinators' links, tokens. So are the first document of its kind, each increment and each recovery, which pass a
node's verifier as a whole. RSA is OpenSSL's in any case.

The binding gives the interpreter's lock up while libsodium works, which cryptography does not: the event loop goes on
beside it. On one core, where most is lost by that, a change of all nodes takes no longer (benchmarks/agent_fleet.py).

Rejected: to sign by libsodium as well. It would take 10 us less of 300, and a private key would lie in Python's memory,
which nobody wipes, for as long as the program runs; and both halves would be one program's again.
"""

from functools import lru_cache

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from snapshot.signature import ED25519, BadKey, Verify, ed25519_point, is_strict, load_public_key


def verify_own(algorithm: str, public_key_spki: bytes, message: bytes, signature: bytes) -> bool:
    """As `snapshot.signature.verify_signature`."""
    try:
        return _load(algorithm, public_key_spki)(message, signature)
    except BadKey:
        return False


@lru_cache(maxsize=256)
def _load(algorithm: str, public_key_spki: bytes) -> Verify:
    if algorithm != ED25519:
        return load_public_key(algorithm, public_key_spki)
    key = VerifyKey(ed25519_point(public_key_spki))

    def verify(message: bytes, signature: bytes) -> bool:
        if not is_strict(signature):
            return False
        try:
            key.verify(message, signature)
        except BadSignatureError:
            return False
        return True

    return verify

"""What may happen to a signed document on its way: signatures lost, added or spoilt, bits changed."""

from dataclasses import replace

from coordinator.keys.signer import SignedDocument
from coordinator.keys.signing_key import SigningKey
from snapshot.signature import pae


def without_signature(document: SignedDocument, by: SigningKey) -> SignedDocument:
    kept = tuple(pair for pair in document.signatures if pair[0] != by.key_id)
    return replace(document, signatures=kept)


def with_signature(document: SignedDocument, by: SigningKey, signature: bytes | None = None) -> SignedDocument:
    """Also signed by this key, or with these bytes under its name; the listed signers stay as they are."""
    made = by.sign(pae(document.envelope.kind, document.envelope_bytes)) if signature is None else signature
    kept = without_signature(document, by).signatures
    return replace(document, signatures=(*kept, (by.key_id, made)))


def flipped(data: bytes, bit: int = 0) -> bytes:
    """`data` with one bit changed; bits are counted from the first byte's lowest."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)

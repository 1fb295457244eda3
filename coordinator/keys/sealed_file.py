"""A file that one coordinator alone can open: encrypted to its identity's certificate (keys/identity.py).

    seal    pieces of content become the pieces of such a file
    open_   and back, piece by piece; a piece is given out once it is known to be what was sealed, in its place

The form:

    line      `holdfast-sealed/1`
    header    its length in four bytes, then canonical JSON: what is said of the content to everybody, `for` (the hash
              of the certificate), `key` (the sender's key of this one file, an uncompressed point of P-256, Base64)
    pieces    AES-256-GCM, 64 KiB each but for the last. Nonce: the number of the piece, and whether it is the last one

The key is HKDF-SHA-256 over the shared point of this file's key and the identity's; its salt is the hash of the header.
So a header that was changed opens nothing, and pieces that were cut off, exchanged or repeated are found.

It says who may read, not who has written: what is in the file has to prove that.

Rejected: HPKE of the library, which Debian 13's does not have; and CMS, which takes one RSA key and all in memory.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from coordinator.base.refusal import Code, Refused
from snapshot import canonical
from wire.certificate import BadCertificateError, KeyPair, fingerprint

LINE = b"holdfast-sealed/1\n"
PIECE = 64 << 10
HEADER_BYTES = 64 << 10
AGAIN = "bring the file again, or export again"
_TAG = 16
_INFO = b"holdfast/1 sealed file"
_SIZE = 4  # bytes that say how long the header is
_COUNTER = 11


def seal(certificate: bytes, about: Mapping[str, object], pieces: Iterable[bytes]) -> Iterator[bytes]:
    """`certificate`: DER. `about`: what everybody may read. BadCertificateError where it has no P-256 key."""
    to, own = _public_key(certificate), ec.generate_private_key(ec.SECP256R1())
    point = own.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    named = {"for": fingerprint(certificate), "key": base64.b64encode(point).decode()}
    header = canonical.dumps({**about, **named})
    yield LINE + len(header).to_bytes(_SIZE, "big") + header
    key = AESGCM(_derive(own.exchange(ec.ECDH(), to), header))
    number, held = 0, bytearray()
    for piece in pieces:
        held += piece
        while len(held) > PIECE:
            yield key.encrypt(_nonce(number, is_last=False), bytes(held[:PIECE]), None)
            del held[:PIECE]
            number += 1
    yield key.encrypt(_nonce(number, is_last=True), bytes(held), None)


def read_header(file: IO[bytes]) -> Mapping[str, object]:
    """What it says to everybody, believed by nobody yet. The file stands at its first piece then."""
    return _object(_read_header(file))


def open_(file: IO[bytes], own: KeyPair) -> Iterator[bytes]:
    """From its beginning. `wrong_recipient` where it is for another one, `export_damaged` at the first piece that is
    not what was sealed, and where the last one is missing.
    """
    header = _read_header(file)
    said = _object(header)
    if said.get("for") != fingerprint(own.der):
        detail = f"the file is for the identity {said.get('for')}, and here is {fingerprint(own.der)}"
        raise Refused(Code.WRONG_RECIPIENT, detail, remedy="export for the certificate of this one")
    key = AESGCM(_derive(_exchange(own, said.get("key")), header))
    number, piece = 0, file.read(PIECE + _TAG)
    while True:
        after = file.read(PIECE + _TAG)
        try:
            yield key.decrypt(_nonce(number, is_last=not after), piece, None)
        except (InvalidTag, ValueError):
            raise damage(f"piece {number + 1} is not what was sealed, or not in its place") from None
        if not after:
            return
        number, piece = number + 1, after


def damage(detail: str) -> Refused:
    return Refused(Code.EXPORT_DAMAGED, detail, remedy=AGAIN)


def _read_header(file: IO[bytes]) -> bytes:
    line, size = file.read(len(LINE)), int.from_bytes(file.read(_SIZE), "big")
    if line != LINE or not 0 < size <= HEADER_BYTES:
        raise damage("it is no file that a coordinator has sealed")
    header = file.read(size)
    if len(header) != size:
        raise damage("it is cut off")
    return header


def _object(header: bytes) -> Mapping[str, object]:
    try:
        value = canonical.loads(header)
    except canonical.NotCanonical:
        value = None
    if not isinstance(value, dict):
        raise damage("its header is out of form")
    return value


def _public_key(certificate: bytes) -> ec.EllipticCurvePublicKey:
    key = x509.load_der_x509_certificate(certificate).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise BadCertificateError("not the certificate of a coordinator's identity: its key is no P-256 key")
    return key


def _exchange(own: KeyPair, point: object) -> bytes:
    private = serialization.load_pem_private_key(own.key_pem, None)
    if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(point, str):
        raise damage("its header is out of form")
    try:
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), base64.b64decode(point, validate=True))
    except ValueError:
        raise damage("its header is out of form") from None
    return private.exchange(ec.ECDH(), theirs)


def _derive(shared: bytes, header: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=hashlib.sha256(header).digest(), info=_INFO).derive(shared)


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(_COUNTER, "big") + bytes([is_last])

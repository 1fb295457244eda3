"""Self-signed certificates that no library makes: what one says is changed, and signed again by its own key."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

ECDSA_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")  # the AlgorithmIdentifier


def resigned(der: bytes, key: ec.EllipticCurvePrivateKey, old: bytes, new: bytes) -> bytes:
    """With `new` wherever `old` stood, which is as long."""
    said = x509.load_der_x509_certificate(der).tbs_certificate_bytes
    assert old in said and len(old) == len(new)
    said = said.replace(old, new)
    signature = key.sign(said, ec.ECDSA(hashes.SHA256()))
    return _tagged(0x30, said + ECDSA_SHA256.replace(old, new) + _tagged(0x03, b"\0" + signature))


def unreadable_for_tls(der: bytes, key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """Its common name is a number: who never reads names takes it, and OpenSSL reads them first of all."""
    text = bytes([len(name)]) + name.encode()
    return resigned(der, key, b"\x0c" + text, b"\x02" + text)


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    width = (size.bit_length() + 7) // 8
    return (
        bytes([tag]) + (bytes([size]) if size < 0x80 else bytes([0x80 | width]) + size.to_bytes(width, "big")) + content
    )

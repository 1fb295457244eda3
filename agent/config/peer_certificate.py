"""The certificate of a peer as it stands in agent.toml: the PEM of `holdfast show-certificate`, or the base64 in it.

Only its outer form is judged here, so that a daemon with a wrong file does not start; a file is parsed as a certificate
when it is first used, and one that is none pins nobody. To import what parses certificates would cost every start of an
agent the time that its first answer takes.
"""

import base64
import binascii

FORM = "a certificate, as `holdfast show-certificate` prints it: PEM, or the base64 in it"
MOST_BYTES = 8 << 10
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_DER_SEQUENCE = b"\x30\x82"


def read_certificate(value: object) -> bytes:
    """DER. ValueError says what it must be."""
    text = value.strip().removeprefix(_BEGIN).removesuffix(_END) if isinstance(value, str) else ""
    try:
        der = base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        der = b""
    # One certificate and nothing behind it: two in one text would be a chain, and a peer has none.
    if not der.startswith(_DER_SEQUENCE) or len(der) > MOST_BYTES or len(der) != 4 + int.from_bytes(der[2:4], "big"):
        raise ValueError(f"must be {FORM}")
    return der

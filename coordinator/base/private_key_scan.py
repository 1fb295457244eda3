"""Private keys in base64, which step 12 does not look into: our own check before anything is signed (threats D-53)."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_private_key

Path = tuple[str | int, ...]

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}", re.ASCII)
_DER_ENCODED = re.compile(r"(?<![A-Za-z0-9+/_-])M[A-P][A-Za-z0-9+/_-]{38,}={0,2}", re.ASCII)  # its first byte is 0x30
_WHITE_SPACE = bytes(code for code in range(128) if chr(code).isspace())
_PEM = re.compile(rb"-----\s*(?:BEGIN|END)[A-Z0-9 ]*PRIVATE KEY")
# What `PRIVATE KEY` is in base64, by where it begins in a group of three bytes; the ends depend on what is beside it.
_PEM_ENCODED = tuple(
    base64.b64encode(bytes(shift) + b"PRIVATE KEY").decode()[-(-shift * 4 // 3) : (shift + 11) * 4 // 3]
    for shift in range(3)
)


def find(value: object, path: Path = ()) -> Path | None:
    """Where a string hides a private key in base64, as PEM or as DER; None where none does."""
    return next((at for at, text in strings(value, path) if _hides_key(text)), None)


def strings(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Each text of a JSON value and where it stands; names are none."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from strings(inner, (*path, name))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from strings(inner, (*path, index))


def _hides_key(text: str) -> bool:
    """Decoded is only what could be one: what a PEM's name is in base64, or what begins as DER does."""
    compact = _without_white_space(text)
    if any(beginning in compact for beginning in _PEM_ENCODED):
        return any(_is_key(match.group()) for match in _BASE64.finditer(compact))
    return any(_is_key(match.group()) for match in _DER_ENCODED.finditer(compact))


def _without_white_space(text: str) -> str:
    """Of ASCII, as nearly all configuration is, in a tenth of the time."""
    if text.isascii():
        return text.encode("ascii").translate(None, _WHITE_SPACE).decode("ascii")
    return "".join(text.split())


def _is_key(encoded: str) -> bool:
    stripped = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(stripped + "=" * (-len(stripped) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(_PEM.search(data)) or _is_private_der(data)


def _is_private_der(data: bytes) -> bool:
    if data[:1] != b"\x30":  # a SEQUENCE, as every private key is
        return False
    try:
        load_der_private_key(data, password=None)
    except (ValueError, UnsupportedAlgorithm):
        return False
    except TypeError:  # it is one, and encrypted
        return True
    return True

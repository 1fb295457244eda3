"""Private keys in base64, which step 12 does not look into: our own check before anything is signed (threats D-53)."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_private_key

Path = tuple[str | int, ...]

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}", re.ASCII)
_PEM = re.compile(rb"-----\s*(?:BEGIN|END)[A-Z0-9 ]*PRIVATE KEY")


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
    compact = "".join(text.split())
    return any(_is_key(match.group()) for match in _BASE64.finditer(compact))


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

"""The single-use nonce of a join (protocol 1, rules J3): made without a write, so strangers cannot fill a table.

A nonce is `<expiry>.<random>.<authentication code>` under a key that all replicas share; only its use is recorded, and
only after a signature over it has been verified.
"""

import hashlib
import hmac
import re
import secrets

_NONCE = re.compile(r"([0-9]{10,11})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)


def issue(key: bytes, now: float, lifetime_s: int) -> str:
    start = f"{int(now) + lifetime_s}.{secrets.token_hex(16)}"
    return f"{start}.{_code(key, start)}"


def expiry(key: bytes, nonce: object) -> int | None:
    """When a nonce of ours ends, Unix seconds; None for one that we did not make."""
    match = _NONCE.fullmatch(nonce) if isinstance(nonce, str) else None
    if match is None:
        return None
    expected = _code(key, f"{match[1]}.{match[2]}")
    return int(match[1]) if hmac.compare_digest(expected, match[3]) else None


def _code(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

"""The join token: opaque to the node, sent once, never logged (rules K14, K16; threats D-34)."""

import base64
import json
from pathlib import Path

from snapshot.identifiers import is_id

TOKEN_BYTES = 8 << 10


def read_token(file: Path) -> str | None:
    """The token as it stands in its file, opaque to us (threats D-34); None where there is none."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    text = data.decode("ascii", "replace").strip()
    if not text or len(data) > TOKEN_BYTES or not text.isprintable() or not text.isascii():
        return None
    return text


def cluster_of(token: str) -> str | None:
    """The cluster that a token says it is for, unverified: it selects nothing but a warning (rules K27, X10)."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        cluster = claims.get("cluster")
    except (IndexError, ValueError, AttributeError, RecursionError):
        return None
    return cluster if is_id(cluster) else None

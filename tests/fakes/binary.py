"""Random bytes as a program's own file has them."""

import secrets


def random_bytes(size: int) -> bytes:
    """Without `@`: of random bytes one MiB in some twenty holds what reads as the password of a URL (format.md 11)."""
    return secrets.token_bytes(size).replace(b"@", b"\0")

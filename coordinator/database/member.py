"""A node in the catalog, and how what it shows is compared with what is pinned."""

import hmac
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """A node in the catalog."""

    node_id: str
    kind: str
    site_id: str
    certificate_sha256: str
    next_certificate_sha256: str | None = None
    revoked: bool = False

    @property
    def pins(self) -> tuple[str, ...]:
        pins = (self.certificate_sha256, self.next_certificate_sha256)
        return tuple(pin for pin in pins if pin is not None)


def is_same_pin(shown: str, pin: str | None) -> bool:
    """In constant time (threats D-36)."""
    return pin is not None and hmac.compare_digest(shown.encode(), pin.encode())

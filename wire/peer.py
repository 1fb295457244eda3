"""Who is at the other end, as the kernel or the TLS handshake says; never as a message says."""

from dataclasses import dataclass
from enum import StrEnum

# The kernel shows an account that it cannot name here as this one: it is nobody in particular (threats U06).
OVERFLOW_UID = 65534


class PinState(StrEnum):
    """What the holder of a pinned certificate is to us. All of them pass TLS, so that all can be told."""

    ACTIVE = "active"
    REVOKED = "revoked"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class UnixPeer:
    """The process at the other end of a Unix socket, as it was when it connected (threats, fact 11).

    `gids` are its primary and supplementary groups. `pid` is for the log alone: it may be another's by now (U04).
    """

    uid: int
    gids: frozenset[int]
    pid: int

    @property
    def name(self) -> str:
        return f"uid:{self.uid}"


@dataclass(frozen=True, slots=True)
class TlsPeer:
    """A node that has proven, in this connection's handshake, to hold the key of a pinned certificate."""

    fingerprint: str
    node_id: str
    state: PinState
    address: str

    @property
    def name(self) -> str:
        return f"node:{self.node_id}"


@dataclass(frozen=True, slots=True)
class OperatorPeer:
    """An operator who has proven, in this connection's handshake, to hold the key of a pinned certificate."""

    fingerprint: str
    operator: str
    address: str

    @property
    def name(self) -> str:
        return f"operator:{self.operator}"


@dataclass(frozen=True, slots=True)
class AnonymousPeer:
    """A caller on a listener that asks for no certificate (joins, static files). The address proves nothing."""

    address: str

    @property
    def name(self) -> str:
        return f"address:{self.address}"


Peer = UnixPeer | TlsPeer | OperatorPeer | AnonymousPeer

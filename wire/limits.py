"""The numbers that a listener holds its callers to, and the tally of how many there are."""

from collections.abc import Container, Hashable

from snapshot.frozen import frozen

LEAST_RATE = 1024  # bytes of an answer a second, on average, at both of its ends (threats D-46)


@frozen
class ListenerLimits:
    """Seconds, bytes and counts. A caller is a uid, an address or a node, as the transport says."""

    connections: int = 16_384  # 5,000 nodes hold a long poll and a heartbeat connection each
    connections_each: int = 256
    reserved: int = 0  # of `connections`, for the callers that the listener puts first; with it, crowding.py
    handshakes: int = 2_048  # at a time, where only those with a pin come in (room.py); 75 KiB each
    strangers: int | None = None  # at a time, where strangers come in (room.py); None: one more is turned away
    handshake_s: float = 5.0
    idle_s: float = 75.0
    head_s: float = 15.0
    stall_s: float = 30.0  # nothing of an answer taken, or of a body sent
    least_rate: int = LEAST_RATE
    sending_bytes: int = 256 << 20  # of answers on their way without room of their own (connection.py)
    head_bytes: int = 16 * 1024
    body_bytes: int = 256 * 1024
    deadline_s: float = 30.0  # from the end of the head until the handler has answered
    turn_s: float = 5.0  # in line for a turn
    grace_s: float = 10.0  # for running requests, once the listener stops
    backlog: int = 1024


# Joins take what strangers can take, so they have little: the room of members is not theirs (threats M13, D-49).
JOIN = ListenerLimits(connections=256, strangers=192, idle_s=15, sending_bytes=32 << 20, backlog=256)

# threats D-51, and the rows "local request" and "request body" of the rules' numbers. Of operators' connections
# strangers can have no more than `handshakes`: the rest is for whoever is pinned, also behind the same address.
LOCAL = ListenerLimits(
    connections=64,
    connections_each=16,
    reserved=16,
    head_s=15,
    least_rate=8 * 1024,
    body_bytes=64 * 1024,
    deadline_s=15,
    backlog=64,
)
REMOTE = ListenerLimits()
ADMIN = ListenerLimits(
    connections=128, connections_each=64, handshakes=32, body_bytes=64 * 1024, deadline_s=15, backlog=64
)


class Tally:
    """How many connections each caller has, within a limit for each and a limit in all. Of the latter, `reserved` are
    for the callers in `first` alone: the others cannot take them all, however many they are.
    """

    def __init__(self, each: int, in_all: int, reserved: int = 0, first: Container[Hashable] = ()) -> None:
        self._each = each
        self._in_all = in_all
        self._reserved = reserved
        self._first = first
        self._counts: dict[Hashable, int] = {}
        self._total = 0
        self._others = 0

    def __len__(self) -> int:
        return self._total

    def of(self, caller: Hashable) -> int:
        return self._counts.get(caller, 0)

    def is_first(self, caller: Hashable) -> bool:
        return caller in self._first

    def has_its_share(self, caller: Hashable) -> bool:
        """As many as one caller may have."""
        return self.of(caller) >= self._each

    def take(self, caller: Hashable) -> bool:
        """Counts one more, or says no."""
        if self.has_its_share(caller) or self._total >= self._in_all:
            return False
        if not self.is_first(caller):
            if self._others >= self._in_all - self._reserved:
                return False
            self._others += 1
        self._counts[caller] = self.of(caller) + 1
        self._total += 1
        return True

    def give_back(self, caller: Hashable) -> None:
        self._total -= 1
        if not self.is_first(caller):
            self._others -= 1
        self._counts[caller] -= 1
        if not self._counts[caller]:
            del self._counts[caller]

"""Small sections that were read lately: who asks for one again waits for no thread. Bounded; by content address.

They were hashed when they were read from the disk (rules L29), and what is here lies on no disk.
"""

import threading
from collections import OrderedDict

SMALL_BYTES = 64 << 10
MOST_BYTES = 1 << 20


class SmallSections:
    """Put by the reading threads, taken by the event loop too."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._changing = threading.Lock()

    def get(self, sha256: str) -> bytes | None:
        return self._kept.get(sha256)

    def keep(self, sha256: str, data: bytes) -> None:
        if len(data) > SMALL_BYTES:
            return
        with self._changing:
            if sha256 in self._kept:
                return
            self._kept[sha256] = data
            self._bytes += len(data)
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1])

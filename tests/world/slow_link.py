"""A line between this machine and a network namespace: so many bytes a second, so much delay, and what went over it.

    with SlowLink("hfl0", here="198.19.1.1", there="198.19.1.2", namespace="hfs") as link:
        link.shape(rate=64_000, delay_s=0.3)      each way; the rate is for both ways by itself
        link.cut = True
        link.passed["in"]                          bytes of IP packets, into the namespace

Two TAP devices and a thread: what the kernel would do by netem is not in every kernel, and here each byte is counted.
"""

import fcntl
import heapq
import os
import select
import struct
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
ETHERNET, IPV4 = 14, b"\x08\x00"
QUEUE_S = 3.0  # what waits longer is dropped, as a modem does
WAYS = ("in", "out")


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def open_tap(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


@dataclass
class SlowLink:
    name: str
    here: str
    there: str
    namespace: str
    rate: float = 0.0  # bytes a second; 0: as fast as it goes
    delay_s: float = 0.0
    cut: bool = False
    passed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))

    def __enter__(self) -> "SlowLink":
        self._taps = {"in": open_tap(f"{self.name}a"), "out": open_tap(f"{self.name}b")}
        run("ip", "address", "add", f"{self.here}/30", "dev", f"{self.name}a")
        run("ip", "link", "set", f"{self.name}a", "up")
        run("ip", "link", "set", f"{self.name}b", "netns", self.namespace)
        run("ip", "-n", self.namespace, "address", "add", f"{self.there}/30", "dev", f"{self.name}b")
        run("ip", "-n", self.namespace, "link", "set", f"{self.name}b", "up")
        self._stopping = False
        self._thread = threading.Thread(target=self._pump)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()
        for descriptor in self._taps.values():
            os.close(descriptor)

    def shape(self, *, rate: float, delay_s: float) -> None:
        self.rate, self.delay_s = rate, delay_s

    def reset(self) -> None:
        self.passed = dict.fromkeys(WAYS, 0)

    def _pump(self) -> None:
        waiting: list[tuple[float, int, str, bytes]] = []
        free = dict.fromkeys(WAYS, 0.0)
        number = 0
        while not self._stopping:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, way, frame = heapq.heappop(waiting)
                self._put(way, frame)
            left = min(0.2, waiting[0][0] - now) if waiting else 0.2
            for descriptor in select.select(list(self._taps.values()), [], [], max(0.0, left))[0]:
                way = next(way for way, tap in self._taps.items() if tap == descriptor)
                for frame in _frames(descriptor):
                    at, number = self._due(way, frame, free), number + 1
                    if at is not None:
                        heapq.heappush(waiting, (at, number, way, frame))

    def _due(self, way: str, frame: bytes, free: dict[str, float]) -> float | None:
        """`way` is that of who has sent it: what is read here goes in."""
        now = time.monotonic()
        if self.cut:
            return None
        begin = max(now, free[way])
        if begin - now > QUEUE_S:
            return None
        free[way] = begin + (len(frame) / self.rate if self.rate else 0.0)
        if frame[12:14] == IPV4:
            self.passed[way] += len(frame) - ETHERNET
        return free[way] + self.delay_s

    def _put(self, way: str, frame: bytes) -> None:
        """To the other end."""
        with suppress(OSError):  # the device is down
            os.write(self._taps["out" if way == "in" else "in"], frame)


def _frames(descriptor: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < 64:
        try:
            found.append(os.read(descriptor, 65_536))
        except BlockingIOError:
            break
    return found

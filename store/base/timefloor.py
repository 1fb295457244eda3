"""The time floor: the earliest moment that it can be now, kept across boots (rules A16, A17; threats D-21, D-22).

It rises only from authenticated `issued_at` values and the boot clock, never from the wall clock, so that a clock
that was once wrong cannot make everything expired for ever.
"""

from collections.abc import Mapping
from typing import Self

from snapshot.frozen import frozen


@frozen
class Boot:
    """A reading of the boot clock: which boot it is, and CLOCK_BOOTTIME in seconds. Given by the caller."""

    boot_id: str
    elapsed: float


@frozen
class TimeFloor:
    """`time` (Unix seconds) was reached when the boot clock of `boot_id` showed `elapsed` seconds.

    `epoch` is the epoch that the trust bundle announced: a bundle with a higher one may set the time back.
    """

    epoch: int
    time: float
    boot_id: str
    elapsed: float

    @property
    def order(self) -> tuple[int, float]:
        return self.epoch, self.time

    def at(self, boot: Boot) -> float:
        """The floor at that reading: time goes on in the same boot, a new one starts from what is kept."""
        if boot.boot_id != self.boot_id:
            return self.time
        return self.time + max(0.0, boot.elapsed - self.elapsed)

    def to_payload(self) -> dict[str, object]:
        return {
            "boot_id": self.boot_id,
            "elapsed_ms": int(self.elapsed * 1000),
            "epoch": self.epoch,
            "time_ms": int(self.time * 1000),
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, object]) -> Self:
        epoch, time, elapsed = payload["epoch"], payload["time_ms"], payload["elapsed_ms"]
        if type(epoch) is not int or type(time) is not int or type(elapsed) is not int:
            raise TypeError("epoch and milliseconds are integers")
        return cls(epoch, time / 1000, str(payload["boot_id"]), elapsed / 1000)


def floor_after(floor: TimeFloor | None, issued_at: float, ceiling: float | None, boot: Boot) -> TimeFloor:
    """The floor after a document issued at `issued_at` was accepted; at most `ceiling`, never behind `floor`."""
    present = floor.at(boot) if floor else 0.0
    time = max(present, issued_at)
    if ceiling is not None:
        # An expired bundle does not pull a floor back that was reached by right.
        time = max(min(time, ceiling), floor.time if floor else 0.0)
    return TimeFloor(floor.epoch if floor else 0, time, boot.boot_id, boot.elapsed)


def reset(issued_at: float, epoch: int, boot: Boot) -> TimeFloor:
    """The floor that a trust bundle of a higher epoch sets: its own `issued_at`, also backwards (format.md 7)."""
    return TimeFloor(epoch, issued_at, boot.boot_id, boot.elapsed)

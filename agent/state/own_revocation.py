"""That this node is revoked, beyond what the held documents say now. Written by the swap alone (update/activating.py).

It is kept: left only by enrolment anew, or once the roots end the epoch of the head that said so (rules A9).
"""

from collections.abc import Mapping

from snapshot.frozen import mutable


@mutable
class OwnRevocation:
    """`epoch`: of the head that says so; 0 where the trust bundle does."""

    holds: bool = False
    epoch: int = 0

    @classmethod
    def from_row(cls, row: object) -> "OwnRevocation":
        """Whatever stands there, it holds."""
        return cls(row is not None, int(row.get("epoch", 0)) if isinstance(row, Mapping) else 0)

    def begin(self, epoch: int) -> None:
        self.holds, self.epoch = True, epoch

    def end(self) -> None:
        self.holds, self.epoch = False, 0


def to_row(epoch: int, now: float) -> dict[str, int]:
    return {"at": int(now), "epoch": epoch}

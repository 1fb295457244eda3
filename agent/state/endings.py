"""What of a node ends, and who says it: status, metrics, and the log once a day for each (snapshot/ending.py).

The trust bundle as it is held now; certificates as they were read last, since a file is not for every answer.
"""

from collections.abc import Sequence
from dataclasses import field

from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.bundle import TrustBundle
from snapshot.ending import Thing, Urgency, due, in_order
from snapshot.frozen import mutable
from wire.endings import EndingThing
from wire.logs import log

LOOK_S = 600.0
SAY_AGAIN_S = 86_400.0


def endings(bundle: TrustBundle | None, certificates: Sequence[Thing]) -> Sequence[Thing]:
    """What ends first, first."""
    return in_order([*([_of_bundle(bundle)] if bundle else []), *certificates])


def _of_bundle(bundle: TrustBundle) -> Thing:
    return Thing(
        TRUST_BUNDLE,
        str(bundle.version),
        bundle.issued_at,
        bundle.expires_at,
        "this node believes nothing new",
        "the cluster's operator renews it: holdfastctl due",
    )


@mutable
class Sayings:
    """What the log was told, and when (Unix seconds)."""

    said: dict[tuple[str, str, Urgency], float] = field(default_factory=dict)

    def say(self, things: Sequence[Thing], now: float) -> None:
        asking = {(thing.what, thing.name, thing.urgency(now)): thing for thing in due(things, now)}
        self.said = {key: at for key, at in self.said.items() if key in asking and now - at < SAY_AGAIN_S}
        for key, thing in asking.items():
            if key not in self.said:
                self.said[key] = now
                tell = log.error if key[2] is Urgency.ENDED else log.warning
                tell("ends", **EndingThing.of(thing, now).words())

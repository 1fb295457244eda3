"""How long a relay of the site is waited for (rules X27): it says `coming` while it fetches, or that it has too much to
do at the moment; and each node that does not wait costs the site's link another copy.

Counted for each document from when it was first said, so a relay that lies, or is stuck, holds up one change by
`[peers] relay_wait_s` at most; and only a relay that answers is waited for at all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.sources.source import Source
from agent.sources.sources import is_relay
from agent.state.plan import WantedScope
from wire.client import ClientError

BUSY = frozenset({"coming", "overloaded", "too_many_requests"})
LOOK_AGAIN_S = 2.0
MOST = 1024


@dataclass
class Patience:
    """`now` is trio's clock. `since`: by the document that is waited for."""

    most_s: float
    now: Callable[[], float]
    since: dict[str, float] = field(default_factory=dict)

    def is_to_wait(self, source: Source, wanted: WantedScope, error: ClientError) -> bool:
        if error.code not in BUSY or not is_relay(source):
            return False
        while len(self.since) >= MOST:
            del self.since[next(iter(self.since))]
        begun = self.since.setdefault(wanted.listed.snapshot_id, self.now())
        return self.now() - begun < self.most_s

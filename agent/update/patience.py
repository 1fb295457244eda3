"""How long a relay of the site is waited for (rules X27): it says `coming` while it fetches, or that it has too much to
do at the moment; and each node that does not wait costs the site's link another copy.

Counted for each document from when it was first said, so a relay that lies, or is stuck, holds up one change by
`[peers] relay_wait_s` at most; and only a relay that answers is waited for at all.

A relay that refuses this node's certificate is waited for, too, for `STRANGER_S`: who has joined a moment ago is in its
directory as soon as the coordinator has told it, which waits a little for more newcomers. Counted from the first such
refusal since the relay has last worked, so one that never learns of this node is left to its back-off after that; one
that works and refuses by turns holds up each change for as long as one that says `coming`, and no longer.

Rejected: that the relay lets in who shows it a signed head in the handshake's place. Nothing that is signed binds a
node's certificate but the directory that it waits for, and its listener would have to speak to strangers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.sources.source import Source
from agent.sources.sources import is_relay
from agent.state.plan import WantedScope
from wire.client import ClientError, ClientFault

BUSY = frozenset({"coming", "overloaded", "too_many_requests"})
LOOK_AGAIN_S = 2.0
STRANGER_S = 45.0  # the coordinator waits 30 s for more newcomers at the longest; then a head has to come
MOST = 1024


@dataclass
class Patience:
    """`now` is trio's clock. `since`: by the document that is waited for."""

    most_s: float
    now: Callable[[], float]
    since: dict[str, float] = field(default_factory=dict)
    stranger_since: dict[str, float] = field(default_factory=dict)  # by the relay

    def is_to_wait(self, source: Source, wanted: WantedScope, error: ClientError) -> bool:
        is_busy = error.code in BUSY and is_relay(source)
        return (is_busy or self.is_stranger_yet(source, error)) and self._may_wait(wanted.listed.snapshot_id)

    def _may_wait(self, snapshot_id: str) -> bool:
        while len(self.since) >= MOST and snapshot_id not in self.since:
            del self.since[next(iter(self.since))]
        begun = self.since.setdefault(snapshot_id, self.now())
        return self.now() - begun < self.most_s

    def is_stranger_yet(self, source: Source, error: ClientError) -> bool:
        """Whether a relay of the site refuses this node's certificate, and may be about to be told of it."""
        if error.reason is not ClientFault.TLS_FAILED or not is_relay(source):
            return False
        begun = self.stranger_since.get(str(source))
        if begun is None or source.worked_at > begun:
            begun = self.stranger_since[str(source)] = self.now()
        return self.now() - begun < min(STRANGER_S, self.most_s)

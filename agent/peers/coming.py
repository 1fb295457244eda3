"""Whether a relay of its site is about to have what a neighbour asks for (`coming`), so that he waits for it instead of
fetching another copy over the site's link.

Yes while this node's own head lists the same, which it then fetches for itself; and for a moment where only the head of
who asks does: heads come to the nodes of a site one after the other, and the relay's may be the last. That head is
signed, and was shown (standing.py), so nobody is kept waiting for what nobody has published. Who asks does not wait for
ever (agent/update/patience.py), and a node that is no relay says nothing of the kind.

No where this node runs that version already, or a higher one: it fetches nothing then. So a node that is new, or behind
by more than what came as an increment, asks the coordinator at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.peers.entitlement import MapMember
from agent.state.node import RunningNode
from agent.state.plan import version_of
from snapshot.manifest import Head, ScopeVersion

HEADS_APART_S = 20.0
MOST = 1024


@dataclass
class Coming:
    """`now` is trio's clock."""

    node: RunningNode
    now: Callable[[], float]
    _asked_first: dict[str, float] = field(default_factory=dict)  # by snapshot id

    def document(self, asker: MapMember, snapshot_id: str) -> bool:
        listed = _entries(asker.head)
        return any(self._is_coming(scope, entry) for scope, entry in listed if entry.snapshot_id == snapshot_id)

    def increment(self, asker: MapMember, scope: str, base: int) -> bool:
        """Not from a base that this node does not have: its own will be another one."""
        held = self.node.holdings.kept.active.get(scope)
        if held is None or held.envelope.config_version != base or asker.head is None:
            return False
        wanted = asker.head.candidates.get(scope) or asker.head.scopes.get(scope)
        return wanted is not None and wanted.config_version > base and self._is_coming(scope, wanted)

    def _is_coming(self, scope: str, wanted: ScopeVersion) -> bool:
        active = self.node.holdings.kept.active.get(scope)
        is_here = active is not None and active.envelope.version >= version_of(wanted)
        if is_here or not self.node.settings.peers.relay:
            return False
        while len(self._asked_first) >= MOST:
            del self._asked_first[next(iter(self._asked_first))]
        begun = self._asked_first.setdefault(wanted.snapshot_id, self.now())
        own = (entry.snapshot_id for _, entry in _entries(self.node.holdings.head))
        return wanted.snapshot_id in own or self.now() - begun < HEADS_APART_S


def _entries(head: Head | None) -> list[tuple[str, ScopeVersion]]:
    return [] if head is None else [*head.scopes.items(), *head.candidates.items()]

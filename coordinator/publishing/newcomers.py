"""Of the nodes that are due, those that are published now: who is only to be told of newcomers waits a little for more.

A node that joins comes into the directories of about as many others as a directory has entries. Where a site comes up,
hundreds join within a minute, and seven of eight heads that are signed say nothing but that one more is there, while
the next one waits for its grant. So a node for which nothing has changed but who has joined waits until nobody has
joined for QUIET_S, and for MOST_S at the longest, and is told of all of them at once. What the newcomer itself is told
goes out at once, whom it may know among it; so does what anybody waits for, as a node that asks for its grant again.

Anything else that is declared, revoked, renewed, rolled out or taken back is told at once, with the newcomers. What has
happened is known by the audit log, which every change of the state is in, and by the members that are others than they
were. Where that does not say for certain that nothing but joins came between, nobody waits.

It is kept in memory: a coordinator that starts publishes whatever is due. Several coordinators find the same.

Rejected: not to raise the generations of these nodes with the join, and to do so later. A crash in between would leave
them with old directories that nobody knows of.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from coordinator.database import audit_log, catalog
from coordinator.database.database import Database, Transaction
from coordinator.declared.change_impact import changed_members, changed_resources, scopes_on_the_way
from coordinator.declared.model import Model
from coordinator.publishing import heads

QUIET_S = 3.0
MOST_S = 30.0
CALM = ("join", "publish", "allow", "token.issue")  # what is audited and has nobody told anything, but by a join


@dataclass
class Newcomers:
    _followed: Model | None = None
    _audited: int = 0
    _joined_at: float = 0.0
    _waiting: dict[str, float] = field(default_factory=dict)  # since when
    _pressing: set[str] = field(default_factory=set)  # chosen, and not tried yet

    def choose(self, database: Database, due: Sequence[str], now: float, asked_for: Collection[str] = ()) -> list[str]:
        """Those of the due that do not wait, in their order. `now`: of a monotonic clock. `asked_for`: whose head
        somebody waits for.
        """
        self._look(database, now)
        is_calm = self._joined_at + QUIET_S <= now
        chosen = [
            node_id
            for node_id in due
            if is_calm or node_id in asked_for or node_id not in self._waiting or self._waiting[node_id] + MOST_S <= now
        ]
        self._pressing = set(chosen)
        self._waiting = {node_id: self._waiting[node_id] for node_id in due if node_id not in self._pressing}
        return chosen

    def note_attempt(self, node_id: str) -> None:
        """Published, or refused since somebody has joined in between: then it may wait once more."""
        self._pressing.discard(node_id)

    def _look(self, database: Database, now: float) -> None:
        with database.read() as transaction:
            model = catalog.load(transaction)
            newest, is_calm = audit_log.look_since(transaction, self._audited, CALM)
            before, self._followed, self._audited = self._followed, model, newest
            if before is None or not is_calm or not _has_only_newcomers(before, model):
                self._waiting.clear()
            elif before is not model:
                self._joined_at = now
                for node_id in _find_touched(transaction, before, model) - self._pressing:
                    self._waiting.setdefault(node_id, now)


def _find_touched(transaction: Transaction, before: Model, after: Model) -> set[str]:
    """Of those that have a head: who has none is a newcomer too, and its join is answered by its first."""
    touched = {node_id for node_id, _ in scopes_on_the_way(before, after)} & before.members.keys()
    return {node_id for node_id, basis in heads.bases(transaction, sorted(touched)).items() if basis.published}


def _has_only_newcomers(before: Model, after: Model) -> bool:
    """Or nothing."""
    if before is after:
        return True
    return not changed_resources(before, after) and changed_members(before, after).isdisjoint(before.members)

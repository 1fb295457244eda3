"""Whether the database is away, and whether heads may be signed again meanwhile (replicas/signed_again.py).

Nobody can be told anything new without the database, and nobody has to be told anything old: what the last heads say
was decided by people, and holds. So a replica that was ready when the database went signs the last head of each node
again, for `database_away_s`, and makes nothing else. After that time nodes are degraded, as without a coordinator: what
was revoked meanwhile, nobody has been told.

That is a database that nobody reaches. One that answers and refuses this replica has spoken: its login may have been
barred because it is to sign nothing any more, so it signs nothing again.

A replica that starts while the database is away has no state of its own: it signs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.publishing.signing_context import Issue
from snapshot.identifiers import format_time


@dataclass
class Absence:
    """`elapsed`: seconds that pass also in suspend, whatever is done to the wall clock. `issue`: what heads were signed
    by at the last look that the database has answered; None where none could be signed then.
    """

    bound_s: int
    elapsed: Callable[[], float]
    is_away: bool = field(default=False, init=False)
    is_refused: bool = field(default=False, init=False)  # it answers, and lets this replica do nothing
    issue: Issue | None = field(default=None, init=False)
    fault: str = field(default="", init=False)  # why the last of them could not be signed
    _answered: float = field(default=0.0, init=False)
    _answered_at: float = field(default=0.0, init=False)

    def note_answer(self, issue: Issue | None, *, now: float) -> None:
        """`now` in Unix seconds."""
        self.is_away, self.is_refused, self.issue, self.fault = False, False, issue, ""
        self._answered, self._answered_at = self.elapsed(), now

    def note_silence(self) -> None:
        self.is_away, self.is_refused = True, False

    def note_refusal(self) -> None:
        """Until the next answer nothing is signed again, though it falls silent meanwhile."""
        self.is_away, self.is_refused, self.issue = False, True, None

    @property
    def may_sign(self) -> bool:
        return self.is_away and self.issue is not None and self._is_within()

    @property
    def unread(self) -> str:
        """Why nothing is published: whatever answers again may be a copy, and is looked at first. Or nothing."""
        is_unread = self.is_away or self.is_refused
        return "the database is away, or was and has not been looked at yet" if is_unread else ""

    @property
    def words(self) -> str:
        """What is done about it, for people; nothing while the database answers."""
        if not self.is_away:
            return ""
        if not self.bound_s:
            return "heads are not signed again meanwhile (database_away_s = 0)"
        if self.issue is None:
            return "heads are not signed again: this coordinator was not ready when the database went"
        if not self._is_within():
            return (
                f"heads are no longer signed again: it has been away for more than {self.bound_s} s (database_away_s)"
            )
        if self.fault:
            return f"heads are not signed again: {self.fault}"
        until = format_time(int(self._answered_at) + self.bound_s)
        return (
            f"the last heads are signed again as they are until {until}; nothing else is made, and nobody is told of"
            " any revocation"
        )

    def _is_within(self) -> bool:
        return self.elapsed() - self._answered <= self.bound_s

"""What coordinators have told this node in answers, and no document says (rules A9, A17, K41).

confirmed         one has answered since the start, so what is held is no rollback
claimed_revoked   the one that says, unsigned, that this node is revoked, until one takes it for a member
behind            what was recorded of this node and is above what it holds: its disk is of an old backup
"""

from collections.abc import Mapping
from dataclasses import field

from agent.state.held_state import Holdings
from snapshot import degraded
from snapshot.frozen import mutable


@mutable
class CheckIn:
    confirmed: bool = False
    claimed_revoked: str = ""
    behind: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def note_answer(self) -> bool:
        """Whether it is the first."""
        self.claimed_revoked = ""
        is_first, self.confirmed = not self.confirmed, True
        return is_first

    def note_revocation_claim(self, source: str) -> bool:
        """Whether it is new."""
        is_new, self.claimed_revoked = not self.claimed_revoked, source
        return is_new

    def note_recorded(self, recorded: Mapping[str, tuple[int, int]], holdings: Holdings) -> bool:
        """Whether something else than before is behind."""
        before, self.behind = self.behind, newer_versions(recorded, holdings)
        return self.behind != before

    def follow(self, holdings: Holdings) -> None:
        """What has been reached is behind no more."""
        self.behind = newer_versions(self.behind, holdings)


def newer_versions(recorded: Mapping[str, tuple[int, int]], holdings: Holdings) -> dict[str, tuple[int, int]]:
    """What of it the node is to hold and does not; a scope that the head does not list is none (rules A7, K41, S3)."""
    wanted = holdings.listed_scopes | frozenset(degraded.REQUIRED)
    marks = holdings.kept.marks
    return {
        scope: version
        for scope, version in recorded.items()
        if scope in wanted and (scope not in marks or marks[scope].version < version)
    }

"""How far this node has come to be a member of its cluster. Written by the join alone (enrolment/joining.py).

Light: the local API's start waits for it.
"""

from agent.state.join_failure import JoinFailure
from snapshot.frozen import mutable


@mutable
class Membership:
    """`other_cluster`: the token is of another one than the store (rules K27). `failure`: of the last attempt."""

    is_member: bool = False
    is_joining: bool = False
    failure: JoinFailure | None = None
    other_cluster: bool = False

    @property
    def refusal(self) -> str:
        """The coordinator's code, where its answer was no."""
        return self.failure.code if self.failure is not None and self.failure.refused else ""

    def note_attempt(self) -> None:
        self.is_joining = True

    def note_nothing_to_try(self) -> None:
        self.is_joining = False

    def note_failure(self, failure: JoinFailure) -> None:
        self.failure = failure

    def note_success(self) -> None:
        self.failure = None

    def complete(self) -> None:
        self.is_member, self.is_joining = True, False

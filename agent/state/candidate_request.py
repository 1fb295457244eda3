"""What it is to ask for a candidate: a document that is judged, and not to be run (yet).

Whoever passes it on carries this along (a fetch, an admission); by it a candidate has a slot of its own, and what is
wrong with it is said in a vote and in no record of the store: nothing that was to run was refused.
"""

from snapshot.frozen import frozen, mutable


@frozen
class CandidateRefusal:
    """`step`: of format.md 7, 12 also for what services say; None where the node could not keep it at all."""

    step: int | None
    reason: str
    detail: str = ""


@mutable
class CandidateRequest:
    """`room`: the bytes that its slot may take. `last`: what was wrong with what came last; `by_coordinator`: with what
    a coordinator itself gave, which nobody else has better.
    """

    room: int
    last: CandidateRefusal | None = None
    by_coordinator: CandidateRefusal | None = None
    valid_from: int | None = None  # of one whose time has not come

    def note(self, refusal: CandidateRefusal) -> None:
        self.last = refusal

    def note_of_coordinator(self) -> None:
        """The last came from one."""
        self.by_coordinator = self.last

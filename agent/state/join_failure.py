"""Why a join has not succeeded, for the status (rules J7, J20, K15, K26). Light: the local API's start waits for it."""

from snapshot.frozen import frozen
from snapshot.identifiers import format_time
from wire.local.node_status import JoinTrouble


@frozen
class JoinFailure:
    """`refused`: no is the answer, rather than none. `at`, `again_at`: Unix seconds."""

    code: str
    detail: str
    refused: bool
    at: float
    again_at: float

    def to_message(self) -> JoinTrouble:
        """For the status."""
        at, again_at = format_time(int(self.at)), format_time(int(self.again_at))
        return JoinTrouble(code=self.code, detail=self.detail, refused=self.refused, at=at, again_at=again_at)

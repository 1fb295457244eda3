"""How it goes with each store that is copied: in a row, since the start, and in one round."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

import trio

from agent.storage.replication import ReplicationSource
from wire.backoff import BackOff
from wire.client import ClientError, ClientFault
from wire.local.node_status import ReplicatedStore
from wire.logs import log

MOST_REFUSED = 32
FAILED_REST_S = 900.0
_AWAY = {ClientFault.CONNECT_FAILED, ClientFault.TLS_FAILED, ClientFault.UNKNOWN_CA, ClientFault.PEER_PIN_MISMATCH}
_BUSY = {429, 503}


class SourceFault(Exception):
    """It answers what no store of ours does, or gives too much that is refused."""


@dataclass
class SourceState:
    """`fetch_at`: from when on it is fetched from again, where this node's own disk has refused what came. `worked_at`:
    when it has listed what it has. `lacking`, `copied`, `refused`: files. `ungiven`: those that it lists and did not
    give, and until when they are not asked for.
    """

    back_off: BackOff
    own_back_off: BackOff
    not_before: float = 0.0
    fetch_at: float = 0.0
    fault: str = ""
    worked_at: float | None = None
    lacking: int = 0
    copied: int = 0
    refused: int = 0
    ungiven: dict[str, float] = field(default_factory=dict)

    @classmethod
    def begin(cls, uniform: Callable[[float, float], float]) -> "SourceState":
        return cls(BackOff(uniform), BackOff(uniform))

    def note_fault(self, source: ReplicationSource, error: Exception) -> None:
        if self.fault != str(error):
            log.warning("a store is not copied", storage=source.endpoint_id, reason=str(error))
        self.fault = str(error)

    def describe(self, source: ReplicationSource) -> ReplicatedStore:
        now = trio.current_time()
        return ReplicatedStore(
            source.endpoint_id,
            source.url,
            self.fault,
            max(self.back_off.failures, self.own_back_off.failures),
            ceil(max(0.0, self.not_before - now, self.fetch_at - now)),
            None if self.worked_at is None else int(now - self.worked_at),
            self.lacking,
            self.copied,
            self.refused,
        )


@dataclass
class RoundFailures:
    """Of one round: what a source lists and did not give. `first`: why."""

    state: SourceState
    first: ClientError | None = None
    count: int = 0
    in_a_row: int = 0

    def note(self, path: str, error: ClientError) -> None:
        """Raised where it is the source's own fault, and not one of a file."""
        if error.reason in _AWAY or error.status in _BUSY:
            raise error
        self.state.ungiven[path] = trio.current_time() + FAILED_REST_S
        self.first = self.first or error
        self.count += 1
        self.in_a_row += 1
        if self.in_a_row > 1 or self.count >= MOST_REFUSED:
            raise error
        log.info("not given", file=path, reason=str(error))

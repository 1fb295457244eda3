"""What the parts of one running coordinator share, and what is said of a refusal to whom."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.configs.apply_cache import LastRead
from coordinator.database import cluster_state
from coordinator.database.database import Database
from coordinator.database.database_fault import is_full, line_of
from coordinator.database.history import LinkedHistory
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.membership import ca_exchange
from coordinator.membership.pin_sync import PinSync
from coordinator.membership.refused_joins import RefusedJoins
from coordinator.publishing.board import Board
from coordinator.publishing.publisher import Publisher
from coordinator.reports.collector import HeartbeatCollector
from coordinator.reports.last_seen import Seen
from coordinator.rollout.rollout import Rollouts
from coordinator.runtime.absence import Absence
from coordinator.storage.storages import StorageKeeper
from wire.certificate import Certificate
from wire.logs import log
from wire.operators.operator_answers import MoveStanding
from wire.request import HttpError

UNAVAILABLE_S = 5  # until a node or an operator asks again
BRING_KEYS = "put them into its keys directory, then systemctl reload holdfast-coordinator"


_STATUS = {
    Code.BAD_REQUEST: 400,
    Code.BAD_KEY: 400,
    Code.NOT_FOUND: 404,
    Code.UNKNOWN_SITE: 404,
    Code.CONFLICT: 409,
    Code.CONCURRENT_UPDATE: 409,
    Code.CONTRADICTION: 409,
    Code.NOT_DRAINING: 409,
    Code.HAS_DEPENDANTS: 409,
    Code.ENDPOINT_IN_USE: 409,
    Code.CA_IN_USE: 409,
    Code.ALREADY_INITIALISED: 409,
    Code.IN_USE: 409,
    Code.CLOCK_BEHIND: 409,
    Code.CLOCK_JUMPED: 409,
    Code.TOO_LARGE: 413,
    Code.INVALID_RESOURCES: 422,
    Code.EXPECTATION_FAILED: 422,
    Code.TOO_MUCH_CHANGE: 409,
    Code.PLAN_DIFFERS: 409,
    Code.INVALID_SETTINGS: 422,
    Code.HASH_MISMATCH: 500,
    Code.STORE_FULL: 503,
    Code.NO_STATE: 503,
    Code.STALE_STATE: 503,
    Code.UNTRUSTED_HISTORY: 503,
    Code.NO_SIGNER: 503,
    Code.NOT_IN_MANIFEST: 503,
    Code.RECOVERY_MODE: 503,
    Code.MANIFEST_MISMATCH: 409,
    Code.BAD_SHARE: 400,
    Code.WRONG_SEED: 409,
    Code.PEERS_READY: 409,
    Code.PEERS_UNKNOWN: 409,
    Code.MOVED: 409,
    Code.TIMED_OUT: 503,
}


# not_ready: a node asks the next one
_OF_THIS_REPLICA = (
    *(Code.STALE_STATE, Code.UNTRUSTED_HISTORY, Code.NOT_IN_MANIFEST),
    *(Code.RECOVERY_MODE, Code.NO_SIGNER),
)


@dataclass
class Standstill:
    """`reason`: why nothing is signed or served (restored_backup.py), or nothing. The database knows it first
    (maintenance.py). `without_keys`: the same of this replica alone, which lacks what others may have (rules H21).

    `reading` is held from a look at the database until it is noted: or an older look might be the last word.
    """

    reason: str = ""
    without_keys: str = ""
    reading: trio.Lock = field(default_factory=trio.Lock)
    known: cluster_state.ClusterState | None = None  # the last state that followed from the one before (maintenance.py)
    is_behind: bool = False
    gap: str = ""  # the history lacks what this replica has seen of it (continuity.py)
    gap_epoch: int = 0  # under which that was seen; one that is above it ends it
    history: str = ""  # why the history cannot be believed, or names others alone, or nothing (maintenance.py)
    recovery: str = ""  # how asking the other coordinators went last, while what they hold is missing here
    uncertified: str = ""  # why the certificate that is shown is none that nodes believe, or nothing (recovering.py)
    lost: str = ""  # the database lacks heads that this replica has published, until the epoch is raised
    moved: MoveStanding | None = None  # where the cluster was exported to from here, as of the last look (moving.py)

    @property
    def why(self) -> str:
        """The first of them."""
        without_keys = f"{Code.NO_SIGNER}: {self.without_keys} ({BRING_KEYS})" if self.without_keys else ""
        return self.reason or self.uncertified or without_keys

    def check_keys(self) -> None:
        """Refused where this replica has nobody believe it."""
        if self.without_keys:
            raise Refused(Code.NO_SIGNER, self.without_keys, remedy=BRING_KEYS)

    def behind(self, found: cluster_state.ClusterState) -> str:
        """Why this state does not follow from the known one, or nothing; remembered until it does."""
        reason = cluster_state.regression(found, self.known, is_behind=self.is_behind)
        if self.known and found.authority_epoch > self.known.authority_epoch:
            self.lost = ""
        gap = self.gap if found.authority_epoch <= self.gap_epoch else ""
        if not reason and (missing := (self.lost if self.known else "") or gap):
            reason = f"{missing} from an old backup, or is a standby that was behind ({cluster_state.RAISE_EPOCH})"
        self.is_behind = bool(reason)
        return "; ".join(filter(None, (self.history, reason)))


@dataclass
class OtherCoordinators:
    """`ask`: has them asked once for what is missing here (recovering.py); None where nobody can be. `asking`: held by
    the one refused call that does (api/recovered_route.py). `take_up`: reads all files again, as a reload does
    (run.py). `link`: the history of a seed, under this coordinator's identity. `roots`: those that are named on this
    machine.
    """

    ask: Callable[[], Awaitable[bool]] | None = None
    asking: trio.Lock = field(default_factory=trio.Lock)
    take_up: Callable[[], Awaitable[None]] | None = None
    link: Callable[[Seed], LinkedHistory] = lambda seed: LinkedHistory(seed.history_key)
    roots: PinnedRootKeys = field(default_factory=PinnedRootKeys)


@dataclass
class ShownCertificate:
    """The certificate that callers are shown, and the CAs that lie with it, as they were read last."""

    certificate: Certificate
    authorities: tuple[Certificate, ...] = ()
    is_exchanged: bool = False  # its files say that there was another CA before

    def missing_authority(self, listed: Sequence[bytes]) -> str:
        """Why nodes must not be told of these CAs (DER), or nothing."""
        return ca_exchange.missing_authority(
            listed, self.certificate.der, self.authorities, is_exchanged=self.is_exchanged
        )


@dataclass(frozen=True)
class Coordinator:
    """`now` reads the clock, in Unix seconds. `alarms` counts what an operator should look at, by its name."""

    cluster_id: str
    coordinator_id: str
    database: Database
    settings: CoordinatorSettings
    token_key: Ed25519PrivateKey
    board: Board
    publisher: Publisher
    rollouts: Rollouts
    collector: HeartbeatCollector
    pins: PinSync
    seen: Seen
    now: Callable[[], float]
    keys_directory: Path  # where config keys are looked for, beside the credentials
    shown: ShownCertificate
    join_port: int  # where nodes that are no members yet are let in
    node_authority: Path  # the CA that they are given, where `init` has put it
    last_read: LastRead
    absence: Absence
    storages: StorageKeeper
    secrets: OwnSecrets
    alarms: dict[str, int] = field(default_factory=dict)
    standstill: Standstill = field(default_factory=Standstill)
    refused_joins: RefusedJoins = field(default_factory=RefusedJoins)
    peers: OtherCoordinators = field(default_factory=OtherCoordinators)

    def alarm(self, name: str) -> None:
        self.alarms[name] = self.alarms.get(name, 0) + 1

    @property
    def fault(self) -> str:
        """Why this replica does not do its work, as far as it knows without asking the database; or nothing."""
        if self.standstill.why:
            return self.standstill.why
        if self.database.write_fault:
            return f"the database takes no writes: {self.database.write_fault}"
        unable = self.publisher.health.reason
        return f"nothing can be published: {unable}" if unable else ""


def status_of(code: Code) -> int:
    """Codes of rules J and K are 403."""
    return _STATUS.get(code, 403)


def to_peer(refused: Refused) -> HttpError:
    """The code alone: the details are the operator's (rules X20, H-000-4)."""
    code = refused.code
    retry_after = 5 if status_of(code) == 503 else None
    name = "not_ready" if code in _OF_THIS_REPLICA else code.value
    return HttpError(status_of(code), name, "refused", retry_after=retry_after)


def unavailable(error: SQLAlchemyError, *, is_operator: bool = False, meanwhile: str = "") -> HttpError:
    """The database's fault, and no verdict on anybody: it may come back (rules P1, P23). `meanwhile`: what is done
    about it (absence.py), for an operator.
    """
    log.error("the database does not answer", reason=line_of(error))
    if is_operator and is_full(error):
        remedy = "free space on the database's file system; what nodes report meanwhile comes again"
        detail = f"nothing was changed: {line_of(error)} ({remedy})"
        return HttpError(503, Code.STORE_FULL.value, detail, retry_after=UNAVAILABLE_S, remedy=remedy)
    meanwhile = f"; {meanwhile}" if meanwhile else ""
    detail = f": {line_of(error)}{meanwhile}" if is_operator else ""  # a node is not told how our disk is (rules X20)
    return HttpError(503, "unavailable", f"the database does not answer{detail}", retry_after=UNAVAILABLE_S)


def to_operator(refused: Refused) -> HttpError:
    status, name = status_of(refused.code), refused.code.value
    remedy = f" ({refused.remedy})" if refused.remedy else ""
    retry_after = UNAVAILABLE_S if status == 503 else None
    return HttpError(status, name, f"{refused.detail}{remedy}", retry_after=retry_after, remedy=refused.remedy)

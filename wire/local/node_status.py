"""`GET /v1/status` of an agent: what the node runs on, what confirms it, and what is amiss.

    NodeReport      what the node says of itself
    NodeStatus      that, and what is held, told and laid out, as of one moment

An agent that has no cluster yet, and `holdfast dev`, answer in the same form. Times are texts, of whatever year the
clock of a node says.
"""

from collections.abc import Mapping

from wire.answer_message import AnswerMessage
from wire.endings import EndingThing
from wire.forms import (
    BOOLEAN,
    CONTENT,
    HASH,
    IDENTIFIER,
    TIMESTAMP,
    Form,
    integer,
    member,
    message,
    nullable,
    one_of,
    record,
    table,
)
from wire.messages import GRADES, MODES, STATES, VERDICTS, DocumentOrigin, RelayCondition, ScopeReport

TRUSTED_BY = ("configuration", "installed bundle", "join token", "first use")
NAMED_BY = ("agent.toml", "node_bootstrap", "earlier node_bootstrap", "storage_directory", "peer_directory")
PEER_SETS = ("active", "warm", "cold")
OUTCOMES = ("done", "not_running", "failed")

_COUNT, _VERSION = integer(), integer(1)
_GRADE, _MODE = one_of(*GRADES), one_of(*MODES)
_TIME_OR_NONE: Form[str | None] = nullable(TIMESTAMP)


@message
class JoinTrouble:
    """Why the last attempt to join did not succeed. `refused`: no is the answer, rather than none."""

    code: str
    detail: str
    refused: bool
    at: str = member(TIMESTAMP)
    again_at: str = member(TIMESTAMP)


@message
class PinnedRoots:
    """The root keys that are pinned, and by what they are trusted."""

    trusted_by: str = member(one_of(*TRUSTED_BY))
    confirmed: bool
    root_key_ids: tuple[str, ...]
    root_threshold: int = member(_COUNT)


@message
class NodeClock:
    """`synchronised` is null where it cannot be known; `regressed`: it went back behind what was accepted."""

    synchronised: bool | None = member(nullable(BOOLEAN))
    offset_floor_s: int
    regressed: bool


@message
class AskedSource:
    """Where documents are asked for. `again_in_s`: how long it rests after what went wrong. Of a peer: who it is, how
    soon it is asked, whether it stands at the same site, and whether it is that one's relay. `worked_s_ago`: since
    something good came of it, null where nothing has since the start. `lacks`: documents in a row that it had not,
    though it may hold them. `trust_bundle_version`: as a peer has told it.
    """

    kind: str
    url: str
    named_by: str = member(one_of(*NAMED_BY))
    error: str
    failures: int = member(_COUNT)
    again_in_s: int = member(_COUNT)
    node_id: str | None = member(nullable(IDENTIFIER), default=None)
    peer_set: str | None = member(nullable(one_of(*PEER_SETS)), default=None)
    near: bool | None = member(nullable(BOOLEAN), default=None)
    relay: bool | None = member(nullable(BOOLEAN), default=None)
    worked_s_ago: int | None = member(nullable(_COUNT), default=None)
    lacks: int | None = member(nullable(_COUNT), default=None)
    trust_bundle_version: int | None = member(nullable(_COUNT), default=None)


@message
class AwaitedVersion:
    """What the head lists and is not active yet. `again_in_s`: null where it is not asked for again by itself."""

    authority_epoch: int = member(_VERSION)
    config_version: int = member(_VERSION)
    snapshot_id: str
    below_accepted: bool
    again_in_s: int | None = member(nullable(_COUNT))


@message
class CandidateState:
    """What the head says is coming, and what this node makes of it. `awaited`: it was not judged yet. `step`: of
    format.md 7, null where the node could not keep it. `at`: since when it says so.
    """

    authority_epoch: int = member(_VERSION)
    config_version: int = member(_VERSION)
    content_hash: str = member(HASH)
    snapshot_id: str
    change: str | None
    verdict: str = member(one_of("awaited", *VERDICTS))
    step: int | None = member(nullable(_COUNT))
    reason: str
    detail: str
    at: str | None = member(_TIME_OR_NONE)


@message
class StoreCondition:
    """`fault`: why it takes no change at present, or nothing."""

    fault: str
    floor_lost: bool


@message
class ReplicatedStore:
    """A store that this one copies from, by the id of its endpoint. `error`: why it did not answer as one when it was
    asked last, or what came could not be kept here, and how often in a row; `again_in_s`: how long it rests for that.
    `worked_s_ago`: since it listed what it has. `lacking`: files that it listed then and that do not lie here at all:
    they have not come yet, or were refused. `copied`, `refused`: files of it, since the start.
    """

    storage: str
    url: str
    error: str
    failures: int = member(_COUNT)
    again_in_s: int = member(_COUNT)
    worked_s_ago: int | None = member(nullable(_COUNT))
    lacking: int = member(_COUNT)
    copied: int = member(_COUNT)
    refused: int = member(_COUNT)


@message
class StorageCondition:
    """What a storage node keeps of all that is published. `has_coordinator`: one brings everything itself, so nothing
    is copied from `sources`.
    """

    files: int = member(_COUNT)
    bytes: int = member(_COUNT)
    most_bytes: int = member(_COUNT)
    has_coordinator: bool
    sources: tuple[ReplicatedStore, ...]


@message
class HeldHead:
    generation: int = member(_VERSION)
    authority_epoch: int = member(_VERSION)
    age_s: int = member(_COUNT)
    expires_at: str = member(TIMESTAMP)
    grade: str = member(_GRADE)


@message
class ScopeRefusal:
    """The head lists what this node has refused. `refused`, `runs`: "epoch.version"; `runs` is null where nothing of
    the scope is active. `soon`: what runs has expired, or will within a third of its lifetime.
    """

    scope: str
    refused: str
    since: str = member(TIMESTAMP)
    reason: str
    step: int = member(_COUNT)
    source: str
    runs: str | None
    expires_at: str | None = member(_TIME_OR_NONE)
    soon: bool


@message
class ServiceState:
    """A service of agent.toml: whether it has all that it lives by, and what it said when it was told last."""

    ready: bool
    reason: str
    scopes: tuple[str, ...]
    told_generation: int | None = member(nullable(_COUNT))
    told_at: str | None = member(_TIME_OR_NONE)
    up_to_date: bool
    answer: str
    answer_ok: bool | None = member(nullable(BOOLEAN))
    outcome: str | None = member(nullable(one_of(*OUTCOMES)))


@message
class FilesCondition:
    """The projected files. `fault` is a code, `error` the words, for who may see all."""

    generation: int = member(_COUNT)
    fault: str
    error: str


@message
class HiddenFromCaller:
    """How much of the status is not for who asks."""

    scopes: int = member(_COUNT)
    services: int = member(_COUNT)


@message
class NodeReport:
    """What the node says of itself. `recovering`: scopes with a gap; `passed_over`: listed, and of unknown types. An
    older agent does not say what it relays and stores.
    """

    node_id: str
    cluster_id: str
    agent_version: str
    incarnation: str
    state: str = member(one_of(*STATES))
    cause: str
    join: JoinTrouble | None
    degraded_since: str | None = member(_TIME_OR_NONE)
    rollback_check: str = member(one_of("confirmed", "unconfirmed"))
    roles: tuple[str, ...]
    roots: PinnedRoots | None
    trust_bundle_version: int = member(_COUNT)
    clock: NodeClock
    sources: tuple[AskedSource, ...]
    awaited: Mapping[str, AwaitedVersion]
    candidates: Mapping[str, CandidateState]
    origins: Mapping[str, DocumentOrigin]
    recovering: tuple[str, ...]
    refresh_required: tuple[str, ...]
    passed_over: tuple[str, ...]
    store: StoreCondition
    relay: RelayCondition | None = member(nullable(record(RelayCondition)), default=None, kw_only=True)
    storage: StorageCondition | None = member(nullable(record(StorageCondition)), default=None, kw_only=True)
    ends: tuple[EndingThing, ...]
    counters: Mapping[str, int] = member(table(CONTENT, _COUNT))


@message
class NodeStatus(NodeReport, AnswerMessage):
    """`remedy`: what to do for an agent that has no cluster yet."""

    now: str = member(TIMESTAMP)
    mode: str = member(_MODE)
    fence: str | None
    grade: str = member(_GRADE)
    generation: int = member(_COUNT)
    head: HeldHead | None
    scopes: Mapping[str, ScopeReport]
    refused: Mapping[str, ScopeRefusal]
    expired: tuple[str, ...]
    services: Mapping[str, ServiceState]
    files: FilesCondition
    hidden: HiddenFromCaller
    remedy: str | None = member(CONTENT, default=None)

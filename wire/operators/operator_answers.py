"""What a coordinator answers of declared state, of who may join and ask, and of itself (docs/admin-api.md).

Times without a form are Unix seconds.
"""

from collections.abc import Mapping

from wire.answer_message import AnswerMessage, AnswerPage
from wire.endings import URGENCY, EndingThing
from wire.forms import (
    DIGEST,
    HASH,
    IDENTIFIER,
    TIMESTAMP,
    array,
    binary,
    integer,
    member,
    message,
    nullable,
    one_of,
    table,
    text,
)
from wire.messages import CERTIFICATE_BYTES

CHANGES_OF_A_SECTION = ("set", "remove", "patch")
REPLICA_STATES = ("ready", "not_ready", "stopped", "silent", "unheard", "forgotten", "moved")
STORAGE_STATES = ("current", "behind", "failing", "silent", "elsewhere")
COUNT = integer()
VERSION = integer(1)


@message
class ResourceProblem:
    """What is wrong in what was declared, and where; `remedy`: what to do about it."""

    file: str
    line: int = member(COUNT)
    field: str
    message: str
    remedy: str


@message
class OperatorRefusal(AnswerMessage):
    """`problems`: all that is wrong with declared files, at once. `lines`: what else a person is to be told of it."""

    code: str
    message: str
    problems: tuple[ResourceProblem, ...] | None = None
    lines: tuple[str, ...] | None = None
    remedy: str | None = None


@message
class DifferentValue:
    """A member of a resource, by its path."""

    path: str
    before: object
    after: object


@message
class PlannedChange:
    verb: str = member(one_of("create", "change", "delete"))
    kind: str = member(text(64, 1))
    id: str = member(IDENTIFIER)
    differences: tuple[DifferentValue, ...]


@message
class AppliedPlan(AnswerMessage):
    """What declared files change, or have changed; `touched`: scopes by node; `lines` say it to a person.

    `held_back`: what keeps it from being published, or nothing; `based_on` is the plan's id. `moved`: how many of the
    resources are declared in another file or line than the coordinator knew, changed or not. `refusals`: what the plan
    would not be carried out for. `change`: by which it goes to its nodes, once it was applied; `plan_hash` stands for
    exactly this plan.
    """

    outcome: str = member(one_of("planned", "applied"))
    changes: tuple[PlannedChange, ...]
    unchanged: int = member(COUNT)
    touched: Mapping[str, tuple[str, ...]]
    based_on: str
    lines: tuple[str, ...]
    held_back: str
    warnings: tuple[str, ...]
    moved: int = member(COUNT, default=0)
    refusals: tuple[OperatorRefusal, ...] = ()
    change: str | None = None
    plan_hash: str = ""


@message
class UnpublishedChanges(AnswerMessage):
    """Node -> scope -> section -> what the next publication does with it. `held_back`: node -> scope -> why it is not
    published yet.
    """

    nodes: Mapping[str, Mapping[str, Mapping[str, str]]] = member(
        table(IDENTIFIER, table(text(4300), table(text(128), one_of(*CHANGES_OF_A_SECTION))))
    )
    held_back: Mapping[str, Mapping[str, str]] = member(table(IDENTIFIER, table(text(4300), text(4096))))


@message
class MissingParts(AnswerMessage):
    """Those that are to be uploaded, by their SHA-256."""

    missing: tuple[str, ...] = member(array(DIGEST))


@message
class KeptPart(AnswerMessage):
    sha256: str = member(DIGEST)


@message
class KeptParts(AnswerMessage):
    """How many of them."""

    parts: int = member(COUNT)


@message
class ResourceEntry(AnswerMessage):
    """One declared resource."""

    kind: str = member(text(64, 1))
    id: str = member(IDENTIFIER)
    spec: Mapping[str, object]


@message
class ResourcePage(AnswerPage):
    resources: tuple[ResourceEntry, ...]


@message
class AllowlistEntry(AnswerMessage):
    """One line of the allowlist."""

    node_id: str
    kind: str = "data"
    site_id: str = "default"
    certificate_sha256: str | None = None


@message
class Allowlist(AnswerMessage):
    entries: tuple[AllowlistEntry, ...]


@message
class TokenEntry:
    """What an operator sees of a token; its text was shown once, when it was issued."""

    jti: str
    site_id: str
    node_id: str | None
    issued_by: str
    not_before: int
    expires_at: int
    revoked_at: float | None
    used_at: float | None
    used_by: str | None
    uses: int
    used: int
    nodes: str | None


@message
class TokenList(AnswerMessage):
    tokens: tuple[TokenEntry, ...]


@message
class IssuedToken(AnswerMessage):
    """The one time that its text, `token`, is shown."""

    token: str
    jti: str
    expires_at: int = member(COUNT)
    site_id: str = member(IDENTIFIER)
    node_id: str | None = member(nullable(IDENTIFIER))
    uses: int = member(VERSION)
    nodes: str | None


@message
class RevokedToken(AnswerMessage):
    jti: str


@message
class JoinFacts(AnswerMessage):
    """What a node has to know before it can join; with a token beside it this is a join file."""

    cluster_id: str = member(IDENTIFIER)
    urls: tuple[str, ...]
    join_urls: tuple[str, ...]
    ca: str | None
    root_key_ids: tuple[str, ...] = member(array(HASH))
    root_threshold: int = member(VERSION)


@message
class Operator(AnswerMessage):
    """Times are Unix seconds. `added_by`: as the audit log names who asked."""

    name: str
    certificate_sha256: str
    expires_at: int
    added_by: str
    added_at: float
    role: str = "admin"  # of a coordinator that knows no roles: everybody is


@message
class OperatorList(AnswerMessage):
    operators: tuple[Operator, ...]


@message
class RemovedOperator(AnswerMessage):
    name: str


@message
class Replica:
    """`added_at`: Unix seconds. The id of a token key is the `sha256:` of its public half (DER). `identity_sha256`: of
    the certificate that the manifest pins, or nothing.
    """

    coordinator_id: str
    url: str
    certificate_sha256: str
    token_key_id: str
    added_at: float
    identity_sha256: str = ""


@message
class ReplicaList(AnswerMessage):
    """`answering` is the one that answers."""

    answering: str = member(IDENTIFIER)
    coordinators: tuple[Replica, ...]


@message
class ReplicaStanding:
    """One coordinator, by its last word. `faults`: what is wrong with it, in sentences. `link`: the newest of the
    history that it has seen, or 0; `lag`: how many there are beyond it. `manifest`: the hash of the one that this link
    names, or nothing. `identity`: of the certificate that the newest manifest pins, or nothing.
    """

    coordinator_id: str
    url: str
    state: str = member(one_of(*REPLICA_STATES))
    faults: tuple[str, ...]
    said_at: float | None
    started_at: float | None
    version: str
    link: int = member(COUNT)
    lag: int = member(COUNT)
    manifest: str
    identity: str


@message
class MovingNode:
    """`last_seen` in Unix seconds; None of one that was never seen."""

    node_id: str
    last_seen: float | None


@message
class MoveStanding:
    """The whole cluster goes `to` another coordinator, or came `from` one. `ahead_at`: when a node first showed that
    the other one has published since, or None. `count` of `members`, some of them named: who has asked here lately; or
    who has not asked here yet. Unix seconds.
    """

    direction: str = member(one_of("to", "from"))
    coordinator_id: str
    url: str
    at: float
    ahead_at: float | None
    members: int = member(COUNT)
    count: int = member(COUNT)
    nodes: tuple[MovingNode, ...]


@message
class FormerKey:
    """A config key that another one has taken over from, and that nodes believe still. `retire_at`: Unix seconds."""

    key_id: str
    retire_at: int


@message
class ReplicaStandings(AnswerMessage):
    """`history`: how it stands, in words. `newest`: its newest link, or 0; `manifest`: the hash of the manifest that
    this link names, or nothing. `former_keys`: those that are to be retired.
    """

    answering: str = member(IDENTIFIER)
    now: float
    history: str
    newest: int = member(COUNT)
    manifest: str
    coordinators: tuple[ReplicaStanding, ...]
    move: MoveStanding | None = None
    former_keys: tuple[FormerKey, ...] = ()


@message
class HeldFiles:
    """What a storage node keeps, and may keep at most, as it said `at`."""

    files: int = member(COUNT)
    bytes: int = member(COUNT)
    most_bytes: int = member(COUNT)
    at: float


@message
class StorageStanding:
    """One declared store. `way`: how it is written to, and by whose word the rest is; nothing where no coordinator
    keeps it up. `files`: known to lie there; `behind`: that it lacks, for `lag_s`, of which it has `refused` some.
    `fault`, `detail`: why the last round came to nothing, or nothing. `held`: what the member that runs it has last
    reported. Times are Unix seconds.
    """

    id: str = member(IDENTIFIER)
    url: str
    way: str
    coordinator_id: str
    state: str = member(one_of(*STORAGE_STATES))
    files: int = member(COUNT)
    behind: int = member(COUNT)
    refused: int = member(COUNT)
    lag_s: float
    good_at: float | None
    said_at: float | None
    fault: str
    detail: str
    remedy: str
    held: HeldFiles | None


@message
class StorageStandings(AnswerMessage):
    """`undeclared`: stores that the coordinator which answers has a way to, and that are not declared."""

    now: float
    answering: str = member(IDENTIFIER)
    stores: tuple[StorageStanding, ...]
    undeclared: tuple[str, ...]


@message
class AuthorityStanding:
    """A CA that nodes are told to believe, and its certificate, DER. `standing`: the coordinators' own, of now or to
    come, or another's. Times are Unix seconds.
    """

    fingerprint: str = member(HASH)
    standing: str = member(one_of("current", "next", "other"))
    not_before: float
    not_after: float
    added_at: float
    certificate: bytes = member(binary(CERTIFICATE_BYTES))


@message
class ShownAuthority:
    """`authority`: the fingerprint of the CA of the certificate that it shows, or nothing where that is not known."""

    coordinator_id: str
    authority: str


@message
class UnconfirmedMember:
    node_id: str = member(IDENTIFIER)
    why: str


@message
class AuthorityExchange(AnswerMessage):
    """`authorities`: none before the first exchange. `unconfirmed`: who would reach no coordinator that shows a
    certificate of the next one, of so many `members`.
    """

    authorities: tuple[AuthorityStanding, ...]
    coordinators: tuple[ShownAuthority, ...]
    unconfirmed: tuple[UnconfirmedMember, ...]
    members: int = member(COUNT)


@message
class RemovedReplica(AnswerMessage):
    coordinator_id: str = member(IDENTIFIER)


@message
class MemberEndings:
    """Of members' certificates, which renew themselves."""

    certificates: int = member(COUNT)
    first_ends: str | None = member(nullable(TIMESTAMP))


@message
class Endings(AnswerMessage):
    """What ends, first first. `soon` and `ended` ask for somebody."""

    now: str = member(TIMESTAMP)
    urgency: str = member(URGENCY)
    things: tuple[EndingThing, ...]
    members: MemberEndings


@message
class PresentBundle:
    authority_epoch: int = member(VERSION)
    config_version: int = member(VERSION)
    content_hash: str = member(HASH)
    snapshot_id: str = member(IDENTIFIER)
    expires_at: str = member(TIMESTAMP)


@message
class PresentCertificate:
    sha256: str = member(HASH)
    expires_at: str = member(TIMESTAMP)


@message
class PublishingHealth:
    """`fault`: why nothing is published, or nothing; `behind`: heads to make; `failed`: node -> scope -> why."""

    fault: str
    behind: int = member(COUNT)
    conflicts: int = member(COUNT)
    failed: Mapping[str, Mapping[str, str]]


@message
class CoordinatorStatus(AnswerMessage):
    """This replica, and the state that it shares with the others. `moved`: where it was exported to, or nothing."""

    cluster_id: str = member(IDENTIFIER)
    authority_epoch: int = member(VERSION)
    revision: int = member(COUNT)
    state_id: str
    restored_backup: str
    sites: Mapping[str, int]
    trust_bundle: PresentBundle | None
    coordinator_id: str = member(IDENTIFIER)
    held_polls: int = member(COUNT)
    alarms: Mapping[str, int]
    certificate: PresentCertificate
    publishing: PublishingHealth
    due: tuple[EndingThing, ...]
    history: str = ""
    moved: str = ""


@message
class AuditEntry:
    """`at` in Unix seconds; `outcome` is "done", or the code of a refusal; `before` and `after` are JSON values."""

    audit_id: int
    at: float
    actor: str
    action: str
    subject: str
    outcome: str
    before: object
    after: object


@message
class AuditPage(AnswerMessage):
    """The newest first."""

    entries: tuple[AuditEntry, ...]


@message
class HistoryFault:
    """What is not as it was linked, in words. `link`: its number, 0 for all. `audit_id`, `at`: of an audit row."""

    link: int = member(COUNT)
    what: str
    audit_id: int | None
    at: float | None


@message
class AuditProof(AnswerPage):
    """One page of the history, verified. `oldest`, `newest`: the links that are kept. `links`, `rows`: looked at in
    this page. `since`, `until`: of these rows. `unlinked`: audit rows that no link proves yet. `tables`: each
    to be compared
    with its digest (`GET /v1/audit/verify/{table}`).
    """

    oldest: int = member(COUNT)
    newest: int = member(COUNT)
    links: int = member(COUNT)
    rows: int = member(COUNT)
    since: float | None
    until: float | None
    unlinked: int = member(COUNT)
    faults: tuple[HistoryFault, ...]
    notes: tuple[str, ...]
    tables: tuple[str, ...]


@message
class ComparedTable(AnswerMessage):
    """`fault`: what of it is not as the newest link has it, or nothing."""

    table: str
    fault: str


@message
class Written(AnswerMessage):
    """Files by what became of them."""

    new: int
    unchanged: int
    removed: int

"""docs/openapi-admin.yaml: what operators ask the coordinator on its Unix socket."""

import importlib
import inspect
import pkgutil
from types import SimpleNamespace

import coordinator.api as package
from coordinator.api import admin_api, changes_api, resource_api
from coordinator.changes.states import ChangeState
from coordinator.fleet import roster
from coordinator.fleet.explain_scope import MOST_ENTRIES
from coordinator.fleet.fleet import MOST_NAMED
from tests.pages.openapi import Api
from tests.pages.openapi.parts import (
    COUNT,
    TEXT,
    VERSION,
    Operation,
    Value,
    answer,
    body,
    query,
    ref,
    schema_of,
)
from wire.answer_message import AnswerMessage
from wire.forms import IDENTIFIER
from wire.messages import Message
from wire.operators.change_answers import ChangeDetail, ChangeDiff, ChangeList, ChangeNews, ChangeSummary
from wire.operators.fleet_answers import (
    DrainingNode,
    Fleet,
    MemberDetail,
    MemberPage,
    NodeEvents,
    NodeExplanation,
    NodeNamed,
    OutageDrill,
    ScopeExplanation,
    TrimmedNodes,
    TrimPlan,
)
from wire.operators.operator_answers import (
    Allowlist,
    AllowlistEntry,
    AppliedPlan,
    AuditPage,
    AuditProof,
    AuthorityExchange,
    ComparedTable,
    CoordinatorStatus,
    Endings,
    IssuedToken,
    JoinFacts,
    KeptPart,
    KeptParts,
    MissingParts,
    Operator,
    OperatorList,
    OperatorRefusal,
    RemovedOperator,
    RemovedReplica,
    ReplicaList,
    ReplicaStandings,
    ResourceEntry,
    ResourcePage,
    RevokedToken,
    StorageStandings,
    TokenList,
    UnpublishedChanges,
    Written,
)
from wire.operators.operator_messages import (
    ApplyRequest,
    ApprovalRequest,
    AuthorityRequest,
    CancelRequest,
    CertificateRequest,
    EntryRequest,
    FinishRequest,
    LeavingRequest,
    MissingRequest,
    PublishRequest,
    ReasonRequest,
    RevertRequest,
    RevocationRequest,
    RoleRequest,
    TokenRequest,
    TrimRequest,
)
from wire.operators.trust_answers import (
    BundleDocuments,
    CommittedSet,
    DraftedRequest,
    HeadRevocations,
    HeldKeys,
    PublishedVersions,
    RecoveryStanding,
    RevocationDone,
    Rotation,
    SeedShares,
    TakenBundle,
    TakenRecovery,
)
from wire.operators.trust_messages import (
    BundleDraftRequest,
    BundleSubmission,
    ForcedRemoval,
    RecoveryDraftRequest,
    RecoverySubmission,
    SeedRecovery,
    SeedSharesRequest,
    SetDraftRequest,
    SetSubmission,
)
from wire.routes import HttpRoute

MESSAGES: dict[tuple[str, str], type[Message]] = {
    ("POST", "/v1/apply"): ApplyRequest,
    ("POST", "/v1/nodes/{node_id}/revoke"): ReasonRequest,
    ("POST", "/v1/nodes/{node_id}/drain"): LeavingRequest,
    ("POST", "/v1/nodes/{node_id}/undrain"): LeavingRequest,
    ("POST", "/v1/nodes/{node_id}/remove"): LeavingRequest,
    ("POST", "/v1/nodes/{node_id}/remove/forced"): ForcedRemoval,
    ("POST", "/v1/trim"): TrimRequest,
    ("POST", "/v1/nodes/{node_id}/readmit"): EntryRequest,
    ("POST", "/v1/allowlist/{node_id}"): EntryRequest,
    ("POST", "/v1/tokens"): TokenRequest,
    ("POST", "/v1/contents/missing"): MissingRequest,
    ("POST", "/v1/publish"): PublishRequest,
    ("POST", "/v1/coordinators/ca/begin"): AuthorityRequest,
    ("POST", "/v1/coordinators/ca/cancel"): CancelRequest,
    ("POST", "/v1/coordinators/ca/finish"): FinishRequest,
    ("POST", "/v1/operators/{name}"): CertificateRequest,
    ("POST", "/v1/operators/{name}/role"): RoleRequest,
    ("POST", "/v1/revocations"): RevocationRequest,
    ("POST", "/v1/changes/{change}/approve"): ApprovalRequest,
    ("POST", "/v1/changes/{change}/halt"): ReasonRequest,
    ("POST", "/v1/changes/{change}/resume"): ReasonRequest,
    ("POST", "/v1/changes/{change}/revert"): RevertRequest,
    ("POST", "/v1/trust"): BundleSubmission,
    ("POST", "/v1/recoveries"): RecoverySubmission,
    ("POST", "/v1/coordinators/set"): SetDraftRequest,
    ("POST", "/v1/coordinators/commit"): SetSubmission,
    ("POST", "/v1/coordinators/shares"): SeedSharesRequest,
    ("POST", "/v1/coordinators/recover"): SeedRecovery,
    ("POST", "/v1/trust/requests"): BundleDraftRequest,
    ("POST", "/v1/recoveries/requests"): RecoveryDraftRequest,
}
"""The bodies: their schema is the one that the code reads by."""


def _asks(key: tuple[str, str]) -> Value:
    schema = schema_of(MESSAGES[key])
    return body(schema, required=bool(schema["required"]))


ANSWERS: dict[str, type[AnswerMessage]] = {}
"""By their names: every one that an operation answers with."""


def _ok(about: str, kind: type[AnswerMessage]) -> dict[int, Value]:
    ANSWERS[kind.__name__] = kind
    return {200: answer(about, ref(kind.__name__))}


def _most(most: int, about: str) -> Value:
    return query("most", {"type": "integer", "minimum": 1, "maximum": most}, f"{about}; {most} unless said.")


SELECTION = (
    query("site", IDENTIFIER.schema, "Those of this site."),
    query("label", TEXT, "Those declared with this label, as `name=value`.", several=True),
    query("state", TEXT, "`unseen`, `silent`, `revoked`, or as a node says itself."),
)
BRIEF = query("brief", {"enum": ["true", "false"]}, "Without members that say what goes without saying.")

OPERATIONS = {
    ("POST", "/v1/apply"): Operation(
        "Show or carry out what declared files would change",
        {**_ok("The plan.", AppliedPlan), 422: answer("Wrong files; nothing was changed.", ref("OperatorRefusal"))},
        (400, 403, 409, 413, 503),
        body=_asks(("POST", "/v1/apply")),
        description="With `based_on` of an earlier answer exactly that plan is carried out, or `concurrent_update`. An "
        "endpoint of a coordinator that members still need is `endpoint_in_use`, unless `drop_endpoints`.",
    ),
    ("POST", "/v1/contents/missing"): Operation(
        "Which parts of declared files are not kept",
        _ok("Those that are to be uploaded.", MissingParts),
        (400, 403, 413, 503),
        body=_asks(("POST", "/v1/contents/missing")),
        description="By their SHA-256. The others are kept for a day, and as long as a Config names them.",
    ),
    ("POST", "/v1/contents"): Operation(
        "Keep many parts of declared files",
        _ok("They are kept, for a day, and as long as a Config names them.", KeptParts),
        (400, 403, 413, 503),
        body=body({"type": "string", "format": "binary"}, kind="application/vnd.holdfast.parts"),
        description="One part after the other: 32 bytes of SHA-256, 4 bytes of length (big-endian), the bytes. A body "
        "that breaks off, or of which one part has another hash, is not kept at all.",
    ),
    ("PUT", "/v1/contents/{sha256}"): Operation(
        "Keep one part of a declared file",
        _ok("It is kept, for a day, and as long as a Config names it.", KeptPart),
        (400, 403, 404, 413, 503),
        body=body({"type": "string", "format": "binary"}, kind="application/octet-stream"),
        description="The bytes whose SHA-256 the path names; others are refused. A body that breaks off is not kept.",
    ),
    ("GET", "/v1/resources"): Operation(
        "What is declared, in the order of kind and id",
        _ok("One page; `next` is null on the last.", ResourcePage),
        (400, 403, 404, 503),
        query=(
            query("kind", TEXT, "Of this kind alone."),
            query("after", TEXT, "`KIND/ID`: those after it, as `next` of an earlier answer names it."),
            _most(resource_api.MOST, "How many at most"),
            BRIEF,
        ),
    ),
    ("GET", "/v1/resources/{kind}/{id}"): Operation(
        "One declared resource", _ok("As declared.", ResourceEntry), (400, 403, 404, 503), query=(BRIEF,)
    ),
    ("GET", "/v1/diff"): Operation(
        "What is declared and not published yet",
        _ok("By node, scope and section.", UnpublishedChanges),
        (403, 404, 503),
        query=(query("node", IDENTIFIER.schema, "Of one node; of all, if it is left out."),),
    ),
    ("GET", "/v1/nodes"): Operation(
        "Members, in the order of their ids",
        _ok(
            "Revoked ones, too. One page; `next` is null on the last.",
            MemberPage,
        ),
        (400, 403, 503),
        query=(
            *SELECTION,
            query("after", IDENTIFIER.schema, "Those after it, as `next` of an earlier answer names it."),
            _most(roster.MOST, "How many at most"),
        ),
    ),
    ("GET", "/v1/nodes/{node_id}"): Operation(
        "A member: what it is, what it holds, what it was like of late",
        _ok("From one consistent read.", MemberDetail),
        (403, 404, 503),
    ),
    ("GET", "/v1/drill/outage"): Operation(
        "What members do in an outage that begins now",
        _ok(
            "Each foreseen by the gate that the nodes themselves ask; nothing is changed.",
            OutageDrill,
        ),
        (400, 403, 404, 503),
        query=(
            query("lasts_s", VERSION, "How long it lasts; a day unless said, 30 days at most."),
            query("restart_s", COUNT, "When each node is restarted, after its beginning; never unless said."),
            query("node", IDENTIFIER.schema, "Only these members.", several=True),
        ),
    ),
    ("GET", "/v1/nodes/{node_id}/explain"): Operation(
        "Why a node is told what it is told",
        _ok("By scope.", NodeExplanation),
        (403, 404, 503),
    ),
    ("GET", "/v1/nodes/{node_id}/explain/{scope}"): Operation(
        "One scope of a node: rule, version, signers, value, sources, holders",
        _ok("From one consistent read.", ScopeExplanation),
        (400, 403, 404, 503),
        query=(
            query("section", TEXT, "Of one section alone: its value, however large."),
            query(
                "most",
                {"type": "integer", "minimum": 1, "maximum": admin_api.MOST_ENTRIES},
                f"So many entries; {MOST_ENTRIES} unless said.",
            ),
        ),
    ),
    ("POST", "/v1/nodes/{node_id}/revoke"): Operation(
        "Revoke a node",
        _ok("Done.", NodeNamed),
        (400, 403, 404, 503),
        body=_asks(("POST", "/v1/nodes/{node_id}/revoke")),
    ),
    ("POST", "/v1/nodes/{node_id}/remove"): Operation(
        "Let a node leave that is draining",
        {
            **_ok("Done.", NodeNamed),
            409: answer("Not draining, or others depend on it: `lines` names them.", ref("OperatorRefusal")),
        },
        (400, 403, 404, 503),
        body=_asks(("POST", "/v1/nodes/{node_id}/remove")),
    ),
    ("POST", "/v1/nodes/{node_id}/remove/forced"): Operation(
        "Let any node leave, and raise the epoch in the same act",
        _ok("Done.", NodeNamed),
        (400, 403, 404, 409, 413, 503),
        body=_asks(("POST", "/v1/nodes/{node_id}/remove/forced")),
        description="`document`: the next trust bundle, signed by root keys. One that raises no epoch is refused.",
    ),
    ("GET", "/v1/trim"): Operation(
        "Whom nobody has seen for the whole window, or will not have within a week",
        _ok("And why nobody of them goes by itself, if so.", TrimPlan),
        (403, 503),
    ),
    ("POST", "/v1/trim"): Operation(
        "Let members leave that nobody has seen",
        _ok("Of those that were named, who was due still.", TrimmedNodes),
        (400, 403, 409, 413, 503),
        body=_asks(("POST", "/v1/trim")),
    ),
    ("POST", "/v1/nodes/{node_id}/drain"): Operation(
        "Give a node nothing that it has not, and renew what it has",
        _ok("Since when.", DrainingNode),
        (400, 403, 404, 503),
        body=_asks(("POST", "/v1/nodes/{node_id}/drain")),
    ),
    ("POST", "/v1/nodes/{node_id}/undrain"): Operation(
        "Give a node again whatever is declared for it",
        _ok("Done.", NodeNamed),
        (400, 403, 404, 503),
        body=_asks(("POST", "/v1/nodes/{node_id}/undrain")),
    ),
    ("POST", "/v1/nodes/{node_id}/readmit"): Operation(
        "Let a node come back",
        _ok("Its entry on the allowlist.", AllowlistEntry),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/nodes/{node_id}/readmit")),
    ),
    ("GET", "/v1/allowlist"): Operation("Who may join", _ok("Entries.", Allowlist), (403, 503)),
    ("POST", "/v1/allowlist/{node_id}"): Operation(
        "Let a node join",
        _ok("The entry.", AllowlistEntry),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/allowlist/{node_id}")),
    ),
    ("DELETE", "/v1/allowlist/{node_id}"): Operation(
        "Take an entry back", _ok("A member stays one.", NodeNamed), (403, 404, 503)
    ),
    ("GET", "/v1/tokens"): Operation("Join tokens, without their text", _ok("Entries.", TokenList), (403, 503)),
    ("POST", "/v1/tokens"): Operation(
        "Make a join token",
        _ok(
            "The one time that its text is shown.",
            IssuedToken,
        ),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/tokens")),
    ),
    ("GET", "/v1/invitation"): Operation(
        "What a node has to know before it can join",
        _ok(
            "With a token beside it this is a join file.",
            JoinFacts,
        ),
        (403, 503),
    ),
    ("DELETE", "/v1/tokens/{jti}"): Operation(
        "Revoke a token", _ok("At once, everywhere.", RevokedToken), (403, 404, 503)
    ),
    ("GET", "/v1/fleet"): Operation(
        "How the fleet stands, or a part of it",
        _ok("At one time.", Fleet),
        (400, 403, 503),
        query=(
            *SELECTION,
            query("from", COUNT, "Without so many of the stragglers."),
            query(
                "most",
                {"type": "integer", "minimum": 1, "maximum": admin_api.MOST_ENTRIES},
                f"So many stragglers; {MOST_NAMED} unless said.",
            ),
        ),
    ),
    ("GET", "/v1/audit"): Operation(
        "Who changed what and when, the newest first",
        _ok("Entries.", AuditPage),
        (400, 403, 503),
        query=(
            query("before", VERSION, "The audit id to page on from."),
            query("most", {"type": "integer", "minimum": 1}, "How many; 100 unless said."),
            query("action", TEXT, "Only these."),
        ),
    ),
    ("GET", "/v1/audit/verify"): Operation(
        "The signed history, verified page by page, from the oldest link that is kept",
        _ok("What was verified, and what differs.", AuditProof),
        (400, 403, 503),
        query=(query("after", TEXT, "The `next` of the page before."),),
    ),
    ("GET", "/v1/audit/verify/{table}"): Operation(
        "Whether a table is as the newest link of the history has it",
        _ok("What differs, or nothing.", ComparedTable),
        (403, 404, 503),
    ),
    ("GET", "/v1/nodes/{node_id}/events"): Operation(
        "What a node has told of itself, the newest first",
        _ok("Events.", NodeEvents),
        (400, 403, 404, 503),
        query=(query("most", {"type": "integer", "minimum": 1}, "How many; 100 unless said."),),
    ),
    ("GET", "/v1/changes"): Operation(
        "Changes, the newest first",
        _ok("In short.", ChangeList),
        (400, 403, 503),
        query=(
            query("state", {"enum": list(map(str, ChangeState))}, "Those in this state.", several=True),
            query(
                "most",
                {"type": "integer", "minimum": 1, "maximum": changes_api.MOST},
                f"So many; {changes_api.LISTED} unless said.",
            ),
        ),
    ),
    ("GET", "/v1/changes/{change}"): Operation(
        "One change in whole, with its timeline", _ok("The change.", ChangeDetail), (400, 403, 404, 503)
    ),
    ("GET", "/v1/changes/{change}/diff"): Operation(
        "What a change changes", _ok("As its plan was shown.", ChangeDiff), (400, 403, 404, 503)
    ),
    ("GET", "/v1/changes/{change}/wait"): Operation(
        "Wait for something new of a change",
        _ok("How it is now.", ChangeNews),
        (400, 403, 404, 503),
        query=(query("seen", TEXT, "The `mark` of an earlier answer; without it the answer comes at once."),),
        description="Held until something is new, or for half a minute.",
    ),
    ("POST", "/v1/changes/{change}/approve"): Operation(
        "Approve a change that is proposed",
        _ok("The change.", ChangeSummary),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/changes/{change}/approve")),
        description="Of exactly the plan that `plan_hash` names; never by its author, and once by each operator.",
    ),
    ("POST", "/v1/changes/{change}/halt"): Operation(
        "Stop a change where it is",
        _ok("Who has it keeps it, and nobody else is given it.", ChangeSummary),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/changes/{change}/halt")),
    ),
    ("POST", "/v1/changes/{change}/resume"): Operation(
        "Let a change that was halted go on",
        _ok("Nodes that have refused it are left aside.", ChangeSummary),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/changes/{change}/resume")),
    ),
    ("POST", "/v1/changes/{change}/revert"): Operation(
        "Put back what a change has changed",
        _ok("The change that does it.", ChangeSummary),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/changes/{change}/revert")),
        description="Where a later change has touched one of its resources, that is named, and nothing is done.",
    ),
    ("GET", "/v1/operators"): Operation("Who may ask over TLS", _ok("Until when.", OperatorList), (403, 503)),
    ("POST", "/v1/operators/{name}"): Operation(
        "Let an operator in",
        _ok("The entry.", Operator),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/operators/{name}")),
        description="On the Unix socket alone. The certificate is DER in base64.",
    ),
    ("POST", "/v1/operators/{name}/role"): Operation(
        "What an operator may from now on",
        _ok("The entry.", Operator),
        (400, 403, 404, 503),
        body=_asks(("POST", "/v1/operators/{name}/role")),
        description="On the Unix socket alone. From the operator's next request on, on every coordinator.",
    ),
    ("DELETE", "/v1/operators/{name}"): Operation(
        "Shut an operator out",
        _ok("Open connections end.", RemovedOperator),
        (403, 404, 503),
        description="On the Unix socket alone.",
    ),
    ("GET", "/v1/coordinators"): Operation(
        "The coordinators that share the database",
        _ok(
            "And which of them answers.",
            ReplicaList,
        ),
        (403, 503),
    ),
    ("GET", "/v1/coordinators/status"): Operation(
        "What each coordinator says of itself, and what is wrong with it",
        _ok("By its last word, which is at most half a minute old where it runs.", ReplicaStandings),
        (403, 503),
    ),
    ("GET", "/v1/storage"): Operation(
        "How each declared store of published files stands",
        _ok("By the last word of the coordinator that keeps it up.", StorageStandings),
        (403, 503),
    ),
    ("POST", "/v1/coordinators/set"): Operation(
        "Have it drafted who the coordinators are, for root keys to sign",
        _ok("A set of coordinators, which goes to the root keys and comes back.", DraftedRequest),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/coordinators/set")),
        description="Changes nothing. The public key is that of a new config key, whose private half the caller keeps.",
    ),
    ("POST", "/v1/coordinators/commit"): Operation(
        "Bring a set back that root keys have signed",
        _ok("Who the coordinators are now.", CommittedSet),
        (400, 403, 404, 409, 413, 503),
        body=_asks(("POST", "/v1/coordinators/commit")),
        description="On a coordinator that has the private half of the set's config key.",
    ),
    ("GET", "/v1/coordinators/recover"): Operation(
        "What this coordinator lacks, and who can bring it",
        _ok("By the newest manifest, which is not verified while the seed is missing.", RecoveryStanding),
        (403, 409, 503),
    ),
    ("POST", "/v1/coordinators/recover"): Operation(
        "Bring the seed of an owner",
        _ok("A set of coordinators, which goes to the root keys and comes back.", DraftedRequest),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/coordinators/recover")),
        description="The others are asked first, unless `force` is set. Nothing is adopted where anything is wrong.",
    ),
    ("POST", "/v1/coordinators/shares"): Operation(
        "A share of the seed for each owner that the manifest names",
        _ok("The text of each share's file, sealed to the owner's key.", SeedShares),
        (403, 503),
        body=_asks(("POST", "/v1/coordinators/shares")),
    ),
    ("GET", "/v1/coordinators/ca"): Operation(
        "Which CAs nodes are told to believe, and how far an exchange is",
        _ok("And who has not confirmed the next one.", AuthorityExchange),
        (403, 503),
    ),
    ("POST", "/v1/coordinators/ca/begin"): Operation(
        "Have nodes believe the next CA beside the present one",
        _ok("As it stands now.", AuthorityExchange),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/coordinators/ca/begin")),
        description="DER in base64. From the first time on signed content says whom nodes believe, and not their file.",
    ),
    ("POST", "/v1/coordinators/ca/finish"): Operation(
        "Have nodes believe the present CA no more",
        _ok("As it stands now.", AuthorityExchange),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/coordinators/ca/finish")),
        description="Every coordinator shows a certificate of the next one by then.",
    ),
    ("POST", "/v1/coordinators/ca/cancel"): Operation(
        "Have nodes believe the next CA no more",
        _ok("As it stands now.", AuthorityExchange),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/coordinators/ca/cancel")),
    ),
    ("DELETE", "/v1/coordinators/ca/{fingerprint}"): Operation(
        "Have nodes believe another's CA no more",
        _ok("As it stands now.", AuthorityExchange),
        (403, 404, 409, 503),
    ),
    ("DELETE", "/v1/coordinators/{coordinator_id}"): Operation(
        "Forget a coordinator that is gone",
        _ok("The join tokens that it has signed count no more.", RemovedReplica),
        (403, 404, 409, 503),
        description="Not the one that answers.",
    ),
    ("GET", "/v1/due"): Operation(
        "Everything that ends: when, what happens then, what renews it",
        _ok(
            "What ends first, first. `soon` and `ended` ask for somebody.",
            Endings,
        ),
        (400, 403, 503),
        query=(
            query("within_s", COUNT, "What ends in so many seconds is `soon` as well, unless it renews itself."),
            query("all", {"enum": [0, 1]}, "1: each member's certificate."),
        ),
    ),
    ("GET", "/v1/status"): Operation("The coordinator", _ok("This replica.", CoordinatorStatus), (403, 503)),
    ("GET", "/v1/keys"): Operation(
        "The config keys that this replica holds, for what each signs now, and where it looks for them",
        _ok("A fault says why not.", HeldKeys),
        (403, 503),
    ),
    ("GET", "/v1/trust"): Operation(
        "Trust bundles, in order",
        _ok("Containers.", BundleDocuments),
        (400, 403, 503),
        query=(query("from", COUNT, "Those after this version."),),
    ),
    ("POST", "/v1/trust"): Operation(
        "Hand in the next trust bundle, as root keys have signed it",
        _ok("It holds.", TakenBundle),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/trust")),
    ),
    ("POST", "/v1/recoveries"): Operation(
        "Hand in a recovery, as root keys have signed it",
        _ok(
            "It holds.",
            TakenRecovery,
        ),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/recoveries")),
    ),
    ("GET", "/v1/revocations"): Operation("What every head carries", _ok("Now.", HeadRevocations), (403, 503)),
    ("POST", "/v1/revocations"): Operation(
        "Revoke a key, a role assignment, a service or an endpoint",
        _ok("Done.", RevocationDone),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/revocations")),
        description="A name that nothing has is `not_found`, unless `unknown`: as of a service that is declared no "
        "longer. A word that is no role is `bad_request` in any case.",
    ),
    ("DELETE", "/v1/revocations/{category}/{value}"): Operation(
        "Take a revocation back", _ok("Done.", RevocationDone), (403, 404, 409, 503)
    ),
    ("POST", "/v1/publish"): Operation(
        "Bring a directory up to what is published now",
        _ok("Files by what became of them.", Written),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/publish")),
    ),
    ("GET", "/v1/rotation"): Operation(
        "The present bundle, and what comes next for each key", _ok("With dates.", Rotation), (403, 503)
    ),
    ("GET", "/v1/nodes/{node_id}/versions/{scope}"): Operation(
        "The versions of a scope that were published for a node",
        _ok("The oldest first.", PublishedVersions),
        (403, 404, 503),
    ),
    ("POST", "/v1/trust/requests"): Operation(
        "Draft the next trust bundle for root keys to sign",
        _ok("Nothing is changed by asking.", DraftedRequest),
        (400, 403, 409, 503),
        body=_asks(("POST", "/v1/trust/requests")),
    ),
    ("POST", "/v1/recoveries/requests"): Operation(
        "Draft a recovery for root keys to sign",
        _ok("Nothing is changed by asking.", DraftedRequest),
        (400, 403, 404, 409, 503),
        body=_asks(("POST", "/v1/recoveries/requests")),
    ),
}

DESCRIPTION = """\
What operators ask. On the Unix socket the kernel says who asks: root and the service's own user are answered. Every
change is one transaction and stands in the audit log. Errors name code, details and remedy: see reasons.md. Times
without a form are Unix seconds."""


def routes() -> tuple[HttpRoute, ...]:
    """The tables of the code, without a coordinator behind them: of every class there that has one."""
    found = []
    for module in pkgutil.iter_modules(package.__path__, "coordinator.api."):
        for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and name.endswith("Api") and hasattr(cls, "routes"):
                found += cls(*[SimpleNamespace() for _ in inspect.signature(cls).parameters]).routes()
    return tuple(found)


def api() -> Api:
    return Api(
        "Holdfast: coordinator, for operators",
        DESCRIPTION,
        (
            {
                "url": "http://localhost",
                "description": "the Unix socket /run/holdfast-coordinator/admin.sock",
            },
            {
                "url": "https://coordinator.example:7445",
                "description": "listen.admin: operators' own client certificates",
            },
        ),
        routes(),
        OPERATIONS,
        {name: schema_of(kind) for name, kind in sorted({**ANSWERS, "OperatorRefusal": OperatorRefusal}.items())},
    )

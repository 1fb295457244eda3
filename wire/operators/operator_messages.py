"""What operators send the coordinator (protocol.md 2): read by it, sent by holdfastctl, shown in openapi-admin.yaml.

    ApplyRequest    POST /v1/apply
    EntryRequest    POST /v1/allowlist/{node_id}, /v1/nodes/{node_id}/readmit
    ReasonRequest   POST /v1/nodes/{node_id}/revoke, /v1/changes/{change}/halt, .../resume
    LeavingRequest  POST /v1/nodes/{node_id}/drain, .../undrain, .../remove
    RevertRequest   POST /v1/changes/{change}/revert
    ApprovalRequest     POST /v1/changes/{change}/approve
    TrimRequest     POST /v1/trim
    TokenRequest    POST /v1/tokens
    MissingRequest      POST /v1/contents/missing
    PublishRequest      POST /v1/publish
    CertificateRequest  POST /v1/operators/{name}
    RoleRequest         POST /v1/operators/{name}/role
    RevocationRequest   POST /v1/revocations

What is absent is as declared, or as the coordinator's settings say.
"""

from collections.abc import Mapping
from typing import ClassVar

from wire.forms import (
    BOOLEAN,
    CONTENT,
    DIGEST,
    HASH,
    IDENTIFIER,
    PATH,
    array,
    binary,
    integer,
    member,
    message,
    one_of,
    record,
    table,
    text,
)
from wire.messages import CERTIFICATE_BYTES, Message
from wire.operators.operator_roles import OperatorRole

APPLY_BYTES = 64 << 20
FILES_MAX = 100_000
PARTS_MAX = 256  # of one file
NODE_KINDS = ("data", "witness")
ASKED_MAX = 5_000  # hashes in one question
ASKED_BYTES = 512 << 10
ROLE = one_of(*map(str, OperatorRole))
MESSAGE_MAX = 1_024
PLAN_HASH_MAX = 128
CATEGORIES = ("key_ids", "role_assignments", "service_ids", "endpoints")


@message
class ContentSummary:
    """A file that was uploaded: its size, and the SHA-256 of each of its parts."""

    size: int = member(integer())
    parts: tuple[str, ...] = member(array(DIGEST, PARTS_MAX))


@message
class ApplyRequest(Message):
    """Declared state: all of it by file name. `contents`: what was uploaded of the files that it names, by their place
    beside the file that does. `based_on` is the id of the plan that was shown. `message` says what the change is for,
    `now_reason` why it skips rings and bake; `allow`: the hash of the plan that may pass the guards.
    """

    MOST_BYTES: ClassVar[int] = APPLY_BYTES

    files: Mapping[str, str] = member(table(CONTENT, CONTENT, FILES_MAX))
    contents: Mapping[str, ContentSummary] | None = member(
        table(CONTENT, record(ContentSummary), FILES_MAX), default=None
    )
    prune: bool = member(BOOLEAN, default=False)
    drop_endpoints: bool = member(BOOLEAN, default=False)
    dry_run: bool = member(BOOLEAN, default=False)
    based_on: str | None = member(text(64, 1), default=None)
    message: str = member(text(MESSAGE_MAX), default="")
    now_reason: str = member(text(256), default="")
    allow: str = member(text(PLAN_HASH_MAX), default="")


@message
class RevertRequest(Message):
    """`now_reason`: why it goes to all nodes at once; without, as any change."""

    now_reason: str = member(text(256), default="")
    message: str = member(text(MESSAGE_MAX), default="")


@message
class ApprovalRequest(Message):
    """`plan_hash`: the plan that was looked at."""

    plan_hash: str = member(text(PLAN_HASH_MAX, 1))


@message
class EntryRequest(Message):
    kind: str | None = member(one_of(*NODE_KINDS), default=None)
    site_id: str | None = member(IDENTIFIER, default=None)
    certificate_sha256: str | None = member(HASH, default=None)


@message
class ReasonRequest(Message):
    reason: str = member(text(256, 1))


@message
class LeavingRequest(Message):
    """For the audit log."""

    reason: str = member(text(256), default="")


@message
class TrimRequest(Message):
    """Whom an operator was shown to be due."""

    MOST_BYTES: ClassVar[int] = ASKED_BYTES

    node_ids: tuple[str, ...] = member(array(IDENTIFIER, ASKED_MAX))


@message
class TokenRequest(Message):
    """`uses` and `nodes`: for several nodes, and which ids beside the allowlist, as `gw-*`."""

    node_id: str | None = member(IDENTIFIER, default=None)
    site_id: str | None = member(IDENTIFIER, default=None)
    lifetime_s: int | None = member(integer(1), default=None)
    uses: int = member(integer(1), default=1)
    nodes: str | None = member(text(64, 1), default=None)


@message
class MissingRequest(Message):
    """Which parts of files are not kept, by their SHA-256."""

    MOST_BYTES: ClassVar[int] = ASKED_BYTES

    sha256: tuple[str, ...] = member(array(DIGEST, ASKED_MAX))


@message
class PublishRequest(Message):
    """`to`: a directory on the coordinator's machine."""

    to: str = member(PATH)


@message
class CertificateRequest(Message):
    """An operator's certificate, DER."""

    certificate: bytes = member(binary(CERTIFICATE_BYTES))
    role: str = member(ROLE, default=str(OperatorRole.ADMIN))


@message
class AuthorityRequest(Message):
    """The CA that is to come next, and others that nodes go on believing; DER. Without one, that whose key follows
    from the seed: the coordinator makes it.
    """

    certificate: bytes = member(binary(CERTIFICATE_BYTES), default=b"")
    others: tuple[bytes, ...] = member(array(binary(CERTIFICATE_BYTES), 8), default=())


@message
class CancelRequest(Message):
    """Nothing more is to be said."""


@message
class FinishRequest(Message):
    """`despite_unconfirmed`: also where members would reach no coordinator."""

    despite_unconfirmed: bool = False


@message
class RoleRequest(Message):
    """What an operator may from now on."""

    role: str = member(ROLE)


@message
class RevocationRequest(Message):
    """`unknown`: though nothing of this name is known. Nodes are revoked as nodes (ReasonRequest)."""

    category: str = member(one_of(*CATEGORIES))
    value: str = member(text(320, 1))
    reason: str = member(text(256, 1))
    unknown: bool = member(BOOLEAN, default=False)

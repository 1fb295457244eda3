"""What operators send of trust: documents that root keys have signed, and wishes for those that they are to sign.

    BundleSubmission        POST /v1/trust
    RecoverySubmission      POST /v1/recoveries
    ForcedRemoval           POST /v1/nodes/{node_id}/remove/forced
    BundleDraftRequest      POST /v1/trust/requests
    RecoveryDraftRequest    POST /v1/recoveries/requests
    SetDraftRequest         POST /v1/coordinators/set
    SetSubmission           POST /v1/coordinators/commit
    SeedSharesRequest       POST /v1/coordinators/shares
    SeedRecovery            POST /v1/coordinators/recover

A wish is a verb with its arguments, `{"wish": "retire", "key_id": ...}`. What is absent is as the coordinator has it.
"""

from collections.abc import Mapping
from typing import ClassVar

from snapshot.bundle import CONFIG, ROOT
from snapshot.signature import ALGORITHMS
from wire.forms import (
    BOOLEAN,
    CONTENT,
    DIGEST,
    HASH,
    IDENTIFIER,
    SCOPE,
    TIME,
    array,
    binary,
    integer,
    member,
    message,
    nullable,
    one_of,
    table,
    tagged_record,
    text,
)
from wire.messages import Message

SUBMISSION_BYTES = 2 << 20
WISHES_MAX = 64
_DOCUMENT = binary(3 * (SUBMISSION_BYTES // 4))
_OWNERS = nullable(table(IDENTIFIER, text(128, 1), 64))
_PURPOSE = one_of(ROOT, CONFIG)


@message
class BundleSubmission(Message):
    """`despite_reports`: members that report other bundles of that number are not believed."""

    MOST_BYTES: ClassVar[int] = SUBMISSION_BYTES

    document: bytes = member(_DOCUMENT)
    despite_reports: bool = member(BOOLEAN, default=False)


@message
class ForcedRemoval(Message):
    """Of a node, with the bundle that raises the epoch; `despite_reports` as for any."""

    MOST_BYTES: ClassVar[int] = SUBMISSION_BYTES

    reason: str = member(text(256, 1))
    document: bytes = member(_DOCUMENT)
    despite_reports: bool = member(BOOLEAN, default=False)


@message
class RecoverySubmission(Message):
    MOST_BYTES: ClassVar[int] = SUBMISSION_BYTES

    document: bytes = member(_DOCUMENT)


@message
class AddWish:
    """A new key, SubjectPublicKeyInfo in DER."""

    purpose: str = member(_PURPOSE)
    algorithm: str = member(one_of(*ALGORITHMS))
    public_key: bytes = member(binary(3072))
    not_after: int | None = member(TIME, default=None)
    scope_types: tuple[str, ...] | None = member(array(text(64, 1), 64), default=None)


@message
class RetireWish:
    """`early`: before what the key alone has signed is out of use."""

    key_id: str = member(HASH)
    early: bool = member(BOOLEAN, default=False)


@message
class RemoveWish:
    key_id: str = member(HASH)


@message
class RevokeWish:
    key_id: str = member(HASH)


@message
class ThresholdWish:
    """How many keys of a purpose must sign."""

    purpose: str = member(_PURPOSE)
    number: int = member(integer(1))


@message
class EpochWish:
    """To the next epoch, unless `to` names one."""

    to: int | None = member(integer(1), default=None)


@message
class RestoreWish:
    """A revocation that the next bundle carries no more."""

    category: str = member(text(64, 1))
    value: str = member(text(320, 1))


WishMessage = AddWish | RetireWish | RemoveWish | RevokeWish | ThresholdWish | EpochWish | RestoreWish
WISHES: dict[str, type[WishMessage]] = {
    "add": AddWish,
    "retire": RetireWish,
    "remove": RemoveWish,
    "revoke": RevokeWish,
    "threshold": ThresholdWish,
    "raise_epoch": EpochWish,
    "restore": RestoreWish,
}


@message
class BundleDraftRequest(Message):
    wishes: tuple[WishMessage, ...] = member(array(tagged_record("wish", WISHES), WISHES_MAX), default=())
    despite_reports: bool = member(BOOLEAN, default=False)


@message
class RecoveryDraftRequest(Message):
    node_id: str = member(IDENTIFIER)
    scope: str = member(SCOPE)
    to_config_version: int = member(integer(1))


@message
class SetDraftRequest(Message):
    """Of each coordinator that is to be one, the pin of another identity, or nothing; and the new mesh key,
    SubjectPublicKeyInfo in DER. `seed_share_owners`: by their ids, for a cluster that has none.
    """

    coordinators: Mapping[str, str] = member(table(IDENTIFIER, text(71), 64))
    algorithm: str = member(one_of(*ALGORITHMS))
    public_key: bytes = member(binary(3072))
    despite_reports: bool = member(BOOLEAN, default=False)
    seed_share_owners: Mapping[str, str] | None = member(_OWNERS, default=None)


@message
class SetSubmission(Message):
    """The file that root keys have signed, as it is."""

    MOST_BYTES: ClassVar[int] = SUBMISSION_BYTES

    set: str = member(CONTENT)
    despite_reports: bool = member(BOOLEAN, default=False)


@message
class SeedSharesRequest(Message):
    """Nothing is said with it: who the owners are stands in the manifest."""


@message
class SeedRecovery(Message):
    """The seed and its salt, as an owner brings them, signed for the manifest of this hash. No text of it shows them.
    `force`: though other coordinators may be ready.
    """

    owner: str = member(IDENTIFIER)
    manifest: str = member(DIGEST)
    seed: bytes = member(binary(64))
    salt: bytes = member(binary(64))
    signature: bytes = member(binary(64))
    force: bool = member(BOOLEAN, default=False)
    despite_reports: bool = member(BOOLEAN, default=False)

    def __repr__(self) -> str:
        return f"SeedRecovery(owner={self.owner!r}, ...)"

"""What a coordinator answers of keys, trust bundles, recoveries and revocations (docs/admin-api.md).

Times without a form are Unix seconds.
"""

from collections.abc import Mapping

from snapshot.signature import ALGORITHMS
from wire.answer_message import AnswerMessage
from wire.forms import (
    HASH,
    IDENTIFIER,
    TIMESTAMP,
    array,
    binary,
    integer,
    member,
    message,
    one_of,
)
from wire.messages import DOCUMENT_BYTES

VERSION = integer(1)


@message
class HeldKey:
    """`faults`: by scope type why it does not sign that now, or null."""

    key_id: str = member(HASH)
    algorithm: str = member(one_of(*ALGORITHMS))
    faults: Mapping[str, str | None]


@message
class HeldKeys(AnswerMessage):
    """The config keys of this replica, and where it looks for them."""

    directory: str
    keys: tuple[HeldKey, ...]


@message
class BundleDocuments(AnswerMessage):
    """Containers of trust bundles, in order."""

    documents: tuple[bytes, ...] = member(array(binary(DOCUMENT_BYTES)))


@message
class TakenBundle(AnswerMessage):
    version: int = member(VERSION)
    authority_epoch: int = member(VERSION)
    expires_at: str = member(TIMESTAMP)


@message
class TakenRecovery(AnswerMessage):
    node_id: str
    scope: str
    from_config_version: int = member(VERSION)
    to_config_version: int = member(VERSION)


@message
class HeadRevocations(AnswerMessage):
    """What every head carries."""

    version: int = member(integer())
    key_ids: tuple[str, ...] = member(array(HASH))
    node_ids: tuple[str, ...] = member(array(IDENTIFIER))
    role_assignments: tuple[str, ...]
    service_ids: tuple[str, ...]
    endpoints: tuple[str, ...]


@message
class RevocationDone(AnswerMessage):
    """Revoked, or taken back."""

    category: str
    value: str


@message
class KeyStep:
    """The next thing to do about one key. `due` is Unix seconds; before it, the step is too early."""

    key_id: str
    purpose: str
    status: str
    not_after: int
    action: str
    due: int | None
    why: str
    is_due: bool


@message
class Rotation(AnswerMessage):
    """The present bundle, and what comes next for each of its keys."""

    version: int = member(VERSION)
    authority_epoch: int = member(VERSION)
    expires_at: int = member(integer())
    renew_at: int = member(integer())
    thresholds: Mapping[str, int]
    revocations: Mapping[str, tuple[str, ...]]
    keys: tuple[KeyStep, ...]


@message
class UnprovenReport:
    """A member that reports a trust bundle which this database does not know."""

    node_id: str = member(IDENTIFIER)
    version: int = member(VERSION)


@message
class DraftedRequest(AnswerMessage):
    """A signing request: what it is about, what it would change, and the file that goes to the root keys."""

    about: str
    changes: tuple[str, ...]
    request: str
    reports: tuple[UnprovenReport, ...] = ()


@message
class PublishedVersion:
    """One version of a scope that was published for a node; `is_kept` while its document can be handed out again."""

    authority_epoch: int
    config_version: int
    content_hash: str
    published_at: float
    is_kept: bool


@message
class PublishedVersions(AnswerMessage):
    """The oldest first."""

    versions: tuple[PublishedVersion, ...]


@message
class CommittedSet(AnswerMessage):
    """Who the coordinators are now, and the config key that is theirs; `manifest`: the hash of the one that says so, of
    link `number`. `version`: of the trust bundle.
    """

    coordinators: tuple[str, ...]
    mesh_key: str = member(HASH)
    manifest: str
    number: int = member(VERSION)
    version: int = member(VERSION)


@message
class SeedShares(AnswerMessage):
    """A share of the seed for each owner that the manifest names, as its file has it: sealed to the owner's key."""

    shares: Mapping[str, str]


@message
class RecoveryStanding(AnswerMessage):
    """What this coordinator lacks, in words, or nothing; the newest manifest, by its hash, and the owners whom it
    names: not verified where the seed is what is missing.
    """

    cluster_id: str = member(IDENTIFIER)
    coordinator_id: str = member(IDENTIFIER)
    manifest: str
    lacks: str
    owners: tuple[str, ...]

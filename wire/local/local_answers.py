"""What an agent answers beside its status: answers that are one JSON object and no content of a scope.

Whole scopes, sections and all routes are streamed as they were signed, and not described here.
"""

from collections.abc import Mapping

from snapshot.config_files import MODES as FILE_MODES
from wire.answer_message import AnswerMessage
from wire.forms import HASH, TIMESTAMP, integer, member, message, one_of
from wire.messages import GRADES, MODES, LastRejected

_COUNT, _VERSION = integer(), integer(1)
_GRADE, _MODE = one_of(*GRADES), one_of(*MODES)


@message
class Liveness(AnswerMessage):
    """The event loop runs."""

    alive: bool


@message
class NodeReadiness(AnswerMessage):
    """Whether services may rely on this node. `cause` says why they may not; `warnings` what soon will."""

    ready: bool
    mode: str = member(_MODE)
    cause: str | None
    expired: tuple[str, ...]
    warnings: tuple[str, ...]


@message
class ActiveVersion:
    """An active scope in short. `sections`: how many it has."""

    authority_epoch: int = member(_VERSION)
    config_version: int = member(_VERSION)
    content_hash: str = member(HASH)
    expires_at: str = member(TIMESTAMP)
    grade: str = member(_GRADE)
    sections: int = member(_COUNT)


@message
class ActiveScopes(AnswerMessage):
    """The active scopes that the caller may read."""

    generation: int = member(_COUNT)
    scopes: Mapping[str, ActiveVersion]


@message
class OfDocument:
    """The document that an answer stands in."""

    version: int = member(_VERSION)
    expires_at: str = member(TIMESTAMP)
    grade: str = member(_GRADE)


@message
class ServiceList(AnswerMessage):
    """The services that the caller may read, by id."""

    generation: int = member(_COUNT)
    services: Mapping[str, OfDocument]


@message
class ServiceAnswer(OfDocument, AnswerMessage):
    """What this node knows of a service; null for what it is not told. `resources`: what it goes out by, by id,
    without what is revoked.
    """

    organization_id: str | None
    workload: str | None
    endpoints: object
    settings: object
    resources: Mapping[str, object]


@message
class RouteAnswer(OfDocument, AnswerMessage):
    """A route of `route_policy`: resources.md."""

    route: object


@message
class ListedConfigFile:
    """`size` in bytes. `hash`: of its bytes; above 1 MiB, over the hashes of its parts. Quoted, its ETag."""

    size: int = member(_COUNT)
    mode: str = member(one_of(*FILE_MODES))
    hash: str


@message
class ConfigFileList(OfDocument, AnswerMessage):
    """Which files a Config has, by path."""

    files: Mapping[str, ListedConfigFile]


@message
class RejectionDetail(LastRejected):
    """`detail`: what the verifier or a service's validator said. `source`: who sent it, or who refused it."""

    detail: str
    source: str


@message
class RejectionList(AnswerMessage):
    """What was refused in a scope, the newest first."""

    rejections: tuple[RejectionDetail, ...]


TAKEN = (
    *("activated", "kept", "pending", "candidate", "already_applied", "validator_refused"),
    "kept_for_neighbour",  # it is another node's, which may fetch it from here
)


@message
class TakenDocument(AnswerMessage):
    """What became of a document that was handed in."""

    outcome: str = member(one_of(*TAKEN))
    scope: str
    authority_epoch: int = member(_VERSION)
    config_version: int = member(_VERSION)


@message
class ConfirmedRoots(AnswerMessage):
    """The root keys are those that this node holds; it is kept."""

    outcome: str = member(one_of("confirmed", "already_confirmed"))
    root_key_ids: tuple[str, ...]
    root_threshold: int = member(_COUNT)


@message
class QuarantinedContent:
    """A version that failed its probation here: which check said no, and what it said."""

    scope: str
    authority_epoch: int = member(_VERSION)
    config_version: int = member(_VERSION)
    content_hash: str = member(HASH)
    snapshot_id: str
    check: str
    detail: str
    at: str = member(TIMESTAMP)


@message
class QuarantineList(AnswerMessage):
    """What is not activated again by itself, the oldest first; or what was, before it was cleared."""

    quarantine: tuple[QuarantinedContent, ...]

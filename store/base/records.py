"""The records of the store: MessagePack of our own making, one dataclass each, each with a checksum.

LMDB has no checksums (rules M6), so a flipped bit in a mark or a pointer would read as another mark or pointer.
"""

import dataclasses
import hashlib
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgpack

from snapshot.frozen import frozen
from snapshot.verifier_state import Mark
from store.base.errors import StoreError, StoreFault

CHECKSUM_BYTES = 8


class _Record(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


R = TypeVar("R", bound=_Record)


@frozen
class MetaRecord:
    """What the store knows of itself. `incarnation` is random and new with each new store (rules L38)."""

    cluster_id: str
    incarnation: str
    generation: int = 0
    next_slot: int = 1
    next_event: int = 1
    acknowledged_event: int = 0
    lost_events: int = 0
    rejections: int = 0
    evidence: int = 0
    floor_lost: bool = False  # until a full snapshot has been confirmed (threats D-24)


@frozen
class DocumentRecord:
    """A verified document. Manifest and state are digests of blobs; for a snapshot they are the same."""

    scope: str
    kind: str
    envelope: bytes
    signatures: tuple[tuple[str, bytes], ...]
    manifest: bytes
    state: bytes
    signers: tuple[str, ...]
    judged_at: float

    @property
    def content_hash(self) -> str:
        return name_of(self.state)


@frozen
class ScopeRecord:
    """The pointers of a scope and its mark. Pointers are digests of envelopes.

    `accepted` is the envelope that was activated last; `active` differs from it while previous serves (rules L34)
    and after a withdrawal (rules S3). `generation` is the store's when the scope changed last.
    """

    scope: str
    active: bytes | None = None
    previous: bytes | None = None
    accepted: bytes | None = None
    epoch: int = 0
    version: int = 0
    content_hash: str = ""
    generation: int = 0
    activated_at: float = 0.0
    refresh_after: int = 0
    expires_at: int = 0
    withdrawn: bool = False
    on_previous: bool = False

    @property
    def mark(self) -> Mark | None:
        return Mark(self.epoch, self.version, self.content_hash) if self.version else None

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.version


class Good(NamedTuple):
    """A document that has proved itself: the digest of its envelope, and that of its content."""

    document: bytes
    content: bytes


@frozen
class GoodRecord:
    """What of a scope has proved itself, the newest first. A row of its own, and no member of `ScopeRecord`: a release
    of before passes over it, and would take a scope's record with more members for damage.
    """

    scope: str
    good: tuple[tuple[bytes, bytes], ...] = ()  # as `Good`


@frozen
class ProbationTerms:
    """How long new content is on probation. `way`: losing every coordinator fails it, too."""

    lasts_s: float
    way: bool = False


@frozen
class ProbationRecord:
    """What is active of a scope is on probation; there is no row otherwise.

    `until`: Unix seconds by the guarded clock. `ends`: the same on the boot clock of `boot_id`, which is empty where
    nobody has read it. `began`: the generation that brought it. `is_stopped`: the agent has ended in order since it was
    seen last; `crashes` and `reboots` count when it has not.
    """

    scope: str
    until: float
    lasts_s: float
    way: bool = False
    boot_id: str = ""
    ends: float = 0.0
    began: int = 0
    is_stopped: bool = False
    crashes: int = 0
    reboots: int = 0


@frozen
class FailedContent:
    """Content that failed its probation: `check` names who said so, `detail` is bounded and holds no secret."""

    scope: str
    authority_epoch: int
    config_version: int
    content_hash: str
    snapshot_id: str
    check: str
    detail: str
    at: float


@frozen
class ScopeTrial:
    """What new content of a scope has come to. `good`: the hash of the newest good content; `until`: of a probation."""

    good: str | None = None
    until: float | None = None
    failed: FailedContent | None = None


@frozen
class PendingRecord:
    """A slot: a document being received, or received whole (`sealed`); `waiting` for its `valid_from`.

    `size`: of all that it holds. `repair`: a trust bundle, a recovery or a head, in the room that is kept for them.
    `candidate`: what a head lists as coming, in a slot of its own until it is listed to be run.
    """

    scope: str
    envelope: bytes = b""
    signatures: tuple[tuple[str, bytes], ...] = ()
    manifest: bytes = b""
    sections: int = 0
    sealed: bool = False
    waiting_until: int = 0
    received_at: float = 0.0
    size: int = 0
    repair: bool = False
    candidate: bool = False


@frozen
class Rejection:
    """One refused document (threats D-44). Times are Unix seconds; `detail` is bounded and holds no secret."""

    at: float
    scope: str
    reason: str
    step: int
    authenticated: bool
    detail: str = ""
    snapshot_id: str = ""
    config_version: int = 0
    source: str = ""
    content_hash: str = ""
    running: str = ""  # the content hash of what was active
    since: float = 0.0  # when this content was refused first, with the same one active


@frozen
class Evidence:
    """Two documents of one version with different content: the one accepted and the one refused (rules X16)."""

    at: float
    scope: str
    accepted: bytes  # envelope
    accepted_signatures: tuple[tuple[str, bytes], ...]
    refused: bytes
    refused_signatures: tuple[tuple[str, bytes], ...]
    refused_manifest: bytes


@frozen
class KeptRecovery:
    """A verified recovery as received (rules S87)."""

    scope: str
    envelope: bytes
    signatures: tuple[tuple[str, bytes], ...]
    manifest: bytes
    kept_at: float


def pack(record: _Record) -> bytes:
    return pack_value({name: getattr(record, name) for name in _names_of(type(record))})


@lru_cache(maxsize=64)
def _names_of(kind: type[_Record]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def unpack(kind: type[R], data: bytes) -> R:
    """The record; store_corrupt when the bytes are not one of that kind."""
    value = unpack_value(data)
    if not isinstance(value, dict):
        raise StoreError(StoreFault.STORE_CORRUPT, f"{kind.__name__} is no map")
    try:
        return kind(**value)
    except TypeError as error:
        raise StoreError(StoreFault.STORE_CORRUPT, f"{kind.__name__}: {error}") from error


def pack_value(value: object) -> bytes:
    body: bytes = msgpack.packb(value, use_bin_type=True)
    return body + _checksum(body)


def unpack_value(data: bytes) -> object:
    """A value of our own; store_corrupt when the bytes are not what was written. Arrays come back as tuples."""
    body = data[:-CHECKSUM_BYTES]
    if _checksum(body) != data[-CHECKSUM_BYTES:]:
        raise StoreError(StoreFault.STORE_CORRUPT, "a record does not have the checksum that it was written with")
    try:
        return msgpack.unpackb(body, raw=False, use_list=False)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise StoreError(StoreFault.STORE_CORRUPT, f"a record cannot be read: {error}") from error


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:CHECKSUM_BYTES]


def scope_key(scope: str) -> bytes:
    """The key of a scope: names can be longer than LMDB's keys (threats D-37)."""
    return hashlib.sha256(scope.encode()).digest()


def name_of(digest: bytes) -> str:
    """`sha256:<hex>` of a digest."""
    return f"sha256:{digest.hex()}"


def digest_from_name(name: str) -> bytes:
    """The digest that `sha256:<hex>` names."""
    return bytes.fromhex(name.removeprefix("sha256:"))

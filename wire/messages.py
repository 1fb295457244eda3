"""The JSON bodies of protocol.md: closed, bounded, free of control characters (rules K53, X14).

    JoinNonce, JoinRequest, JoinGrant      GET /v1/join/nonce, POST /v1/join
    Heartbeat, HeartbeatAnswer             POST /v1/heartbeat
    TrustList                              GET /v1/trust
    HeadAnswer                             GET /v1/head; containers, and no JSON
    MayRequest, MayAnswer, WatchAnswer     the local API
    ErrorBody                              every refusal

Times are Unix seconds here and `YYYY-MM-DDTHH:MM:SSZ` on the wire; documents are bytes here and base64 there.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, ClassVar, Self, TypeVar

from snapshot import canonical, container
from wire.forms import (
    BOOLEAN,
    ENDPOINT,
    HASH,
    IDENTIFIER,
    MESSAGE,
    SCOPE,
    TIME,
    Form,
    array,
    binary,
    integer,
    member,
    message,
    nullable,
    one_of,
    record,
    table,
    text,
    word_of,
)
from wire.strict_json import BadMessageError, parse_json

__all__ = ["BadMessageError"]

SMALL_BYTES = 64 * 1024
ERROR_BYTES = 256 * 1024
LAST_STEP = 12  # format.md 7
PROBLEMS_MAX = 1024
HEARTBEAT_BYTES = 1 << 20  # a node with a thousand services says of each what it has: some 700 bytes
JOURNAL_BYTES = 64 * 1024  # of a report with events, while there is less else in it
JOURNAL_LEAST_BYTES = 16 * 1024
CERTIFICATE_BYTES = 8 * 1024
DOCUMENT_BYTES = 16 << 20
DOCUMENTS_MAX = 256  # the steps of one walk over trust bundles (format.md 8)
INTERVAL_MOST_S = 3600  # between two reports, as a node says it
SCOPES_MAX = 1024
VOTES_MAX = SCOPES_MAX  # a head lists one candidate of a scope
ROOTS_MAX = 64
EVENTS_MAX = 1024
# What a node says of itself (rules A1..A9, J40), and of how old a document is.
STATES = ("unenrolled", "joining", "waiting", "active", "degraded", "recovering", "fenced", "revoked")
MODES = ("normal", "degraded", "fenced")
GRADES = ("fresh", "stale", "expired")
VERDICTS = ("accepted", "refused")  # of a candidate
STORE_FAULTS = ("store_full", "store_io")  # a counter of this name is 1 while the node's store takes nothing
WAYS = ("coordinator", "manual", "storage", "peer", "relay", "join", "import", "pending")  # by which a document comes
NEIGHBOURS_MAX = 1024
NAME = text(128, 1)
SHORT = text(256)


class Message:
    """Read by `parse` (BadMessageError for anything out of form), written by `to_bytes` as canonical JSON."""

    MOST_BYTES: ClassVar[int] = SMALL_BYTES

    @classmethod
    def parse(cls, data: bytes, most: int | None = None) -> Self:
        return record(cls).read(parse_json(data, cls.MOST_BYTES if most is None else most), MESSAGE)

    def to_value(self) -> object:
        return record(type(self)).write(self)

    def to_bytes(self) -> bytes:
        return canonical.dumps(self.to_value())


T = TypeVar("T", bound=Message)


@message
class Problem:
    """One thing wrong in what was declared."""

    file: str = member(text(1024))
    line: int = member(integer())
    field: str = member(text(1024))
    message: str = member(text(1024))
    remedy: str = member(text(1024))


@message
class ErrorBody(Message):
    """`step`: where the verification of a document has ended. `remedy`, `problems`: for operators."""

    MOST_BYTES: ClassVar[int] = ERROR_BYTES

    code: str = member(text(64))
    message: str = member(text(1024))
    step: int | None = member(integer(0, LAST_STEP), default=None)
    remedy: str | None = member(text(1024), default=None)
    problems: tuple[Problem, ...] | None = member(array(record(Problem), PROBLEMS_MAX), default=None)

    @classmethod
    def from_answer(cls, data: bytes) -> Self:
        """What an error answer says, for who asked: members that are unknown or out of form are passed over, since
        the status alone decides; without a code it says nothing.
        """
        try:
            value = parse_json(data, cls.MOST_BYTES)
        except BadMessageError:
            value = None
        known = value if isinstance(value, dict) else {}
        given = {name: _read(form, known.get(name)) for name, form in _ERROR_MEMBERS.items()}
        return cls(**{"code": "", "message": "", **{name: value for name, value in given.items() if value is not None}})


_ERROR_MEMBERS: dict[str, Form[Any]] = {field.name: field.metadata["form"] for field in fields(ErrorBody)}


def _read(form: Form[Any], value: object) -> Any:  # noqa: ANN401 - of any member
    """None for what is out of form."""
    return form.make(value) if form.takes(value) else None


@message
class JoinNonce(Message):
    nonce: str = member(NAME)


@message
class JoinRequest(Message):
    """`certificate` is DER. `server` is the fingerprint of what the coordinator showed. No token for a member."""

    cluster_id: str = member(text(64, 1))  # J25: a wrong form is told apart from another cluster by the coordinator
    node_id: str = member(IDENTIFIER)
    kind: str = member(text(64, 1))
    certificate: bytes = member(binary(CERTIFICATE_BYTES))
    incarnation: str = member(IDENTIFIER)
    nonce: str = member(NAME)
    server: str = member(HASH)
    token_sha256: str | None = member(HASH, default=None)
    direct_url: str | None = member(ENDPOINT, default=None)


@message
class JoinGrant(Message):
    MOST_BYTES: ClassVar[int] = DOCUMENT_BYTES

    outcome: str = member(one_of("admitted", "already_member"))
    coordinator_id: str = member(IDENTIFIER)
    documents: tuple[bytes, ...] = member(array(binary(DOCUMENT_BYTES), DOCUMENTS_MAX))


@message
class TrustList(Message):
    """The trust bundles asked for, in order."""

    MOST_BYTES: ClassVar[int] = DOCUMENT_BYTES

    documents: tuple[bytes, ...] = member(array(binary(DOCUMENT_BYTES), DOCUMENTS_MAX))


@message
class ClockReport(Message):
    """`synchronised` is None where it cannot be known."""

    synchronised: bool | None = member(nullable(BOOLEAN))
    offset_floor_s: int = member(integer(-(2**53 - 1)))


@message
class HeadReport(Message):
    generation: int = member(integer(1))
    authority_epoch: int = member(integer(1))
    age_s: int = member(integer())
    grade: str = member(one_of(*GRADES))


@message
class HeldVersion(Message):
    """A version in the previous or pending slot."""

    authority_epoch: int = member(integer(1))
    config_version: int = member(integer(1))
    content_hash: str = member(HASH)
    snapshot_id: str = member(IDENTIFIER)


@message
class Active(Message):
    authority_epoch: int = member(integer(1))
    config_version: int = member(integer(1))
    content_hash: str = member(HASH)
    snapshot_id: str = member(IDENTIFIER)
    signer_key_id: str = member(HASH)
    applied_at: int = member(TIME)
    expires_at: int = member(TIME)
    grade: str = member(one_of(*GRADES))


@message
class LastRejected(Message):
    """What the refused document claimed of itself may be unknown."""

    config_version: int | None = member(nullable(integer(1)))
    snapshot_id: str | None = member(nullable(IDENTIFIER))
    reason: str = member(text(64, 1))
    step: int = member(integer(0, 12))
    at: int = member(TIME)


@message
class NotifiedVersion(Message):
    version: int = member(integer())
    ok: bool = member(BOOLEAN)


@message
class Reverted(Message):
    """What failed its probation here, by which check, and what that said."""

    config_version: int = member(integer(1))
    content_hash: str = member(HASH)
    check: str = member(NAME)
    detail: str = member(SHORT)
    at: int = member(TIME)


@message
class DocumentOrigin(Message):
    """`kind`: whether it came whole or as an increment. `source`: a URL, `join`, `import`, or `pending`: out of its
    slot, since a restart. `way`: by whom it came, null where an earlier version has noted it, `other` where a later one
    has a word for it that this one does not know; `node_id`: of a peer or relay.
    """

    snapshot_id: str = member(IDENTIFIER)
    source: str = member(text(512))
    kind: str = member(text(64, 1))
    way: str | None = member(word_of(*WAYS), default=None)
    node_id: str | None = member(IDENTIFIER, default=None)


@message
class ScopeReport(Message):
    """`good`: the newest content that has proved itself. `probation_until`: of what is active, while it has not.

    `reverted`: what was tried last and failed, until other content comes; `active` is what the node went back to, or
    the same content where there was nothing to go back to. `attempted`: that document, where another serves instead.
    `origin`: where what is active came from; the status has it apart, as `origins`.
    """

    active: Active | None = member(nullable(record(Active)))
    previous: HeldVersion | None = member(nullable(record(HeldVersion)))
    pending: HeldVersion | None = member(nullable(record(HeldVersion)))
    last_rejected: LastRejected | None = member(nullable(record(LastRejected)))
    notified: Mapping[str, NotifiedVersion] = member(table(NAME, record(NotifiedVersion), 256))
    has_validator: bool | None = member(BOOLEAN, default=None)
    good: str | None = member(HASH, default=None)
    probation_until: int | None = member(TIME, default=None)
    attempted: HeldVersion | None = member(record(HeldVersion), default=None)
    reverted: Reverted | None = member(record(Reverted), default=None)
    origin: DocumentOrigin | None = member(record(DocumentOrigin), default=None)


@message
class Vote(Message):
    """What the node says of a candidate that its head lists. `step` and `reason`: where it was refused, and why."""

    scope: str = member(SCOPE)
    snapshot_id: str = member(IDENTIFIER)
    content_hash: str = member(HASH)
    verdict: str = member(one_of(*VERDICTS))
    step: int | None = member(nullable(integer(0, LAST_STEP)))
    reason: str = member(text(64))
    detail: str = member(SHORT)


@message
class ScopeLimits:
    """The narrowest that this node's services set for a scope; what is left out, none of them sets."""

    entries: int | None = member(nullable(integer()))
    bytes: int | None = member(nullable(integer()))
    removed_percent: int | None = member(nullable(integer(0, 100)))


@message
class HeartbeatEvent(Message):
    sequence: int = member(integer(1))
    at: int = member(TIME)
    event: str = member(text(64, 1))
    scope: str = member(text(4300))
    detail: str = member(SHORT)


@message
class StorageReport(Message):
    """What a storage node keeps of all that is published, and how much it may."""

    files: int = member(integer())
    bytes: int = member(integer())
    most_bytes: int = member(integer())


@message
class RelayCondition(Message):
    """What a node keeps for its neighbours, `for_nodes`, and how much of it there may be. `is_relay`: it is the relay
    of its site, and fetches for them. `handed_bytes`: given to other nodes since its start, at most `bytes_per_second`;
    `waiting`: answers that wait for that now. `fetched_bytes`: of the `fetch_most_bytes` that it may fetch for
    neighbours alone in an hour, what is not free again.
    """

    for_nodes: tuple[str, ...] = member(array(IDENTIFIER, NEIGHBOURS_MAX))
    heads: int = member(integer())
    documents: int = member(integer())
    bytes: int = member(integer())
    most_bytes: int = member(integer())
    is_relay: bool = member(BOOLEAN, default=False)
    handed_bytes: int = member(integer(), default=0)
    bytes_per_second: int = member(integer(), default=0)
    waiting: int = member(integer(), default=0)
    fetched_bytes: int = member(integer(), default=0)
    fetch_most_bytes: int = member(integer(), default=0)


@message
class Heartbeat(Message):
    """A report of the node (protocol.md 3), never a configuration write (rules S70). A coordinator passes over members
    that a later release has added (coordinator/reports/heartbeat_form.py).
    """

    MOST_BYTES: ClassVar[int] = HEARTBEAT_BYTES

    node_id: str = member(IDENTIFIER)
    cluster_id: str = member(IDENTIFIER)
    incarnation: str = member(IDENTIFIER)
    boot_id: str = member(text(64, 1))
    agent_version: str = member(text(64, 1))
    sent_at: int = member(TIME)
    uptime_s: int = member(integer())
    state: str = member(one_of(*STATES))
    mode: str = member(one_of(*MODES))
    degraded_since: int | None = member(nullable(TIME))
    clock: ClockReport = member(record(ClockReport))
    head: HeadReport | None = member(nullable(record(HeadReport)))
    scopes: Mapping[str, ScopeReport] = member(table(SCOPE, record(ScopeReport), SCOPES_MAX))
    trust_bundle_version: int = member(integer())
    counters: Mapping[str, int] = member(table(NAME, integer(), 256))
    journal: tuple[HeartbeatEvent, ...] = member(array(record(HeartbeatEvent), EVENTS_MAX))
    interval_s: int | None = member(integer(1, INTERVAL_MOST_S), default=None)
    roots_confirmed: bool | None = member(BOOLEAN, default=None)
    features: tuple[str, ...] | None = member(array(IDENTIFIER, 64), default=None)
    votes: tuple[Vote, ...] | None = member(array(record(Vote), VOTES_MAX), default=None)
    limits: Mapping[str, ScopeLimits] | None = member(table(SCOPE, record(ScopeLimits), SCOPES_MAX), default=None)
    storage: StorageReport | None = member(record(StorageReport), default=None)
    relay: RelayCondition | None = member(record(RelayCondition), default=None)

    def with_votes(self, votes: Iterable[Vote]) -> "Heartbeat":
        """With as many of the votes, the first ones first, as leave room for some of the journal."""
        size = len(replace(self, journal=(), votes=()).to_bytes())
        return replace(self, votes=tuple(_fitting(votes, HEARTBEAT_BYTES - JOURNAL_LEAST_BYTES - size, VOTES_MAX)))

    def with_journal(self, events: Iterable[HeartbeatEvent]) -> "Heartbeat":
        """With as many of the events, oldest first, as the message has room for."""
        size = len(replace(self, journal=()).to_bytes())
        room = min(max(JOURNAL_BYTES - size, JOURNAL_LEAST_BYTES), HEARTBEAT_BYTES - size)
        return replace(self, journal=tuple(_fitting(events, room, EVENTS_MAX)))


def _fitting(items: Iterable[T], room: int, most: int) -> Iterator[T]:
    """Those of an array that so many bytes have room for."""
    for item in islice(items, most):
        room -= len(item.to_bytes()) + 1
        if room < 0:
            return
        yield item


@message
class Recorded(Message):
    authority_epoch: int = member(integer(1))
    config_version: int = member(integer(1))


@message
class HeartbeatAnswer(Message):
    """`directives` is always empty in version 1."""

    MOST_BYTES: ClassVar[int] = HEARTBEAT_BYTES

    generation: int = member(integer())
    acknowledged_event: int = member(integer())
    recorded: Mapping[str, Recorded] = member(table(SCOPE, record(Recorded), SCOPES_MAX))
    directives: tuple[str, ...] = member(array(NAME, 0))


@message
class ConfirmRoots(Message):
    """What an operator has compared: all pinned root keys, and how many of them must sign."""

    root_key_ids: tuple[str, ...] = member(array(HASH, ROOTS_MAX))
    root_threshold: int = member(integer(1, ROOTS_MAX))


@message
class ClearQuarantine(Message):
    """What is in quarantine of a scope may be tried again."""

    scope: str = member(SCOPE)


@message
class MayRequest(Message):
    action: str = member(text(64, 1))
    scope: str | None = member(SCOPE, default=None)
    resource: str | None = member(SHORT, default=None)
    running_since: int | None = member(TIME, default=None)
    certificate: str | None = member(HASH, default=None)


@message
class MayAnswer(Message):
    """`until` is when the permission ends at the latest."""

    allowed: bool = member(BOOLEAN)
    reason: str = member(text(64, 1))
    mode: str = member(one_of(*MODES))
    until: int | None = member(nullable(TIME))


@message
class WatchAnswer(Message):
    """The new generation, and for each changed scope the sections that changed; which services and routes these are,
    by their ids, `*` for all routes.
    """

    MOST_BYTES: ClassVar[int] = 4 << 20

    generation: int = member(integer())
    scopes: Mapping[str, tuple[str, ...]] = member(table(SCOPE, array(NAME, 20_000), SCOPES_MAX))
    services: tuple[str, ...] = member(array(NAME, SCOPES_MAX))
    routes: tuple[str, ...] = member(array(NAME, 256))


DOCUMENTS_TYPE = "application/vnd.holdfast.documents"
INLINE_BYTES = 32 << 10  # of documents beside one head, at most
INLINE_DOCUMENTS = 64
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class HeadAnswer:
    """What a request for a head is answered with: the head, and small documents that it lists anew, where asked for.

    A change of one small document costs a node two requests, the head and the document, and of a fleet the coordinator
    has as many to answer: with `inline` in its request a node says how many bytes of documents it takes beside a head.
    The answer is of a type of its own then. What is in it is as good as its signatures: the node verifies each as if it
    had fetched it, looks for what its head lists alone, and asks for all that is not there.

    The form: of each container its length in four bytes, the greatest first, and its bytes; the head is the first.

    Rejected: JSON with base64, a third more bytes and a copy of each; and multipart, whose boundaries have to be
    searched.
    """

    head: bytes
    documents: tuple[bytes, ...] = ()

    @property
    def media_type(self) -> str:
        return DOCUMENTS_TYPE if self.documents else container.MEDIA_TYPE

    def to_bytes(self) -> bytes:
        if not self.documents:
            return self.head
        parts = (self.head, *self.documents)
        return b"".join(piece for part in parts for piece in (len(part).to_bytes(_LENGTH_BYTES, "big"), part))

    @classmethod
    def parse(cls, media_type: str, data: bytes) -> Self:
        """BadMessageError for what is out of form. Of another type it is a head alone: whoever serves files knows of no
        other.
        """
        if media_type != DOCUMENTS_TYPE:
            return cls(data)
        head, *documents = islice(_parts_of(data), INLINE_DOCUMENTS + 2)  # one more than there may be shows it
        if len(documents) > INLINE_DOCUMENTS or sum(map(len, documents)) > INLINE_BYTES:
            raise BadMessageError("more documents beside a head than it may have")
        if len(set(documents)) < len(documents):
            raise BadMessageError("a document beside a head that stands there twice")
        return cls(head, tuple(documents))


def _parts_of(data: bytes) -> Iterator[bytes]:
    start = 0
    while not start or start < len(data):
        length = int.from_bytes(data[start : start + _LENGTH_BYTES], "big")
        start += _LENGTH_BYTES
        if not 0 < length <= len(data) - start:
            raise BadMessageError("a length that is none of a document's")
        yield data[start : start + length]
        start += length

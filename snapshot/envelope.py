"""The envelope of format.md 4: closed, canonical, and every member in form, or no envelope at all."""

from collections.abc import Callable, Mapping
from functools import lru_cache

from snapshot import canonical
from snapshot.algorithms import ALGORITHMS
from snapshot.frozen import frozen
from snapshot.identifiers import (
    CONFIG,
    HEAD,
    MAX_SCOPE_IDS,
    format_time,
    is_hash,
    is_id,
    is_integer,
    is_key_id,
    is_sorted_set,
    parse_time,
    scope_name,
)
from snapshot.limits import DEFAULT, Limits
from snapshot.reasons import Reason, Rejected

SCHEMA_VERSION = 1
ENVELOPES_REMEMBERED = 16
SNAPSHOT, INCREMENT, RECOVERY = "snapshot", "increment", "recovery"
KINDS = (SNAPSHOT, INCREMENT, HEAD, RECOVERY)
SHARED = "*"

_TIMES = ("issued_at", "valid_from", "refresh_after", "expires_at")
_INCREMENT_ONLY = ("base_config_version", "next_config_version", "base_content_hash", "next_content_hash")


@frozen
class Envelope:
    """The members of format.md 4; times are Unix seconds. The last four are None but for an increment."""

    kind: str
    snapshot_id: str
    cluster_id: str
    subject_node_id: str
    scope_type: str
    scope_ids: tuple[str, ...]
    roles: tuple[str, ...]
    organization_ids: tuple[str, ...]
    config_version: int
    authority_epoch: int
    issued_at: int
    valid_from: int
    refresh_after: int
    expires_at: int
    min_trust_bundle_version: int
    signer_key_id: str
    signature_algorithm: str
    cosigner_key_ids: tuple[str, ...]
    content_hash: str
    content_length: int
    base_config_version: int | None = None
    next_config_version: int | None = None
    base_content_hash: str | None = None
    next_content_hash: str | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def scope(self) -> str:
        """`route_policy/a,b`; a head's is `head`, whatever ids it has: a node has one line of generations."""
        return HEAD if self.kind == HEAD else scope_name(self.scope_type, self.scope_ids)

    @property
    def version(self) -> tuple[int, int]:
        """(authority_epoch, config_version): what versions of a scope are compared by."""
        return self.authority_epoch, self.config_version

    @property
    def state_hash(self) -> str:
        """The content hash of the full state that the document leads to."""
        return self.next_content_hash or self.content_hash

    @property
    def signers(self) -> tuple[str, ...]:
        """The listed signers, the primary first."""
        return self.signer_key_id, *self.cosigner_key_ids

    def to_bytes(self) -> bytes:
        members = dict(vars(self))
        for name in _TIMES:
            members[name] = format_time(getattr(self, name))
        if self.kind != INCREMENT:
            for name in _INCREMENT_ONLY:
                del members[name]
        return canonical.dumps_flat(members)


@lru_cache(maxsize=ENVELOPES_REMEMBERED)
def parse(data: bytes, kind: str, limits: Limits = DEFAULT) -> Envelope:
    """The envelope of the kind that was asked for; Rejected at step 1 otherwise. By all of its bytes: a document's is
    looked at as it opens, as it is judged, and as it is held.
    """
    members = _members(data, limits)
    _refuse_other_schema(members.get("schema_version"))
    form = _FORM | _INCREMENT_FORM if members.get("kind") == INCREMENT else _FORM
    _refuse_unless_closed(members, form)
    for name, is_in_form in form.items():
        if not is_in_form(members[name]):
            raise _bad(f"{name} in the form of format.md 4", members[name], name)
    envelope = Envelope(**{name: _value(name, value) for name, value in members.items()})  # type: ignore[arg-type]
    _refuse_at_odds(envelope, kind)
    return envelope


def refuse_bad_validity(envelope: Envelope) -> None:
    """The order of the four times, which step 7 judges (`bad_validity`)."""
    issued, valid, refresh, expires = (getattr(envelope, name) for name in _TIMES)
    if not (issued <= valid <= refresh <= expires and valid < expires):
        raise Rejected(
            7,
            Reason.BAD_VALIDITY,
            expected="issued_at <= valid_from <= refresh_after <= expires_at, valid_from < expires_at",
            found=" ".join(format_time(time) for time in (issued, valid, refresh, expires)),
        )


def _members(data: bytes, limits: Limits) -> dict[str, object]:
    try:
        members = canonical.loads(data, limits, depth=limits.envelope_depth)
    except canonical.NotCanonical as error:
        raise _bad("canonical JSON", str(error)) from None
    if not isinstance(members, dict):
        raise _bad("an object", type(members).__name__)
    return members


def _refuse_other_schema(version: object) -> None:
    if type(version) is int and version != SCHEMA_VERSION:
        raise Rejected(1, Reason.UNSUPPORTED_SCHEMA, expected=SCHEMA_VERSION, found=version, where="schema_version")


def _refuse_unless_closed(members: Mapping[str, object], form: Mapping[str, object]) -> None:
    for name in form:
        if name not in members:
            raise _bad(f"a member {name}", "none", name)
    for name in members:
        if name not in form:
            raise _bad("no unknown member", "one", name)


def _refuse_at_odds(envelope: Envelope, kind: str) -> None:
    """What single members cannot tell."""
    if envelope.kind != kind:
        raise _bad(f"a {kind}", envelope.kind, "kind")
    if envelope.signer_key_id in envelope.cosigner_key_ids:
        raise _bad("cosigners without the primary signer", "the primary signer among them", "cosigner_key_ids")
    if envelope.scope_type == CONFIG and len(envelope.scope_ids) != 1:
        raise _bad("one scope id", len(envelope.scope_ids), "scope_ids")
    if kind == HEAD and envelope.scope_type != HEAD:
        raise _bad("head", envelope.scope_type, "scope_type")
    if kind == INCREMENT:
        _refuse_increment_at_odds(envelope)


def _refuse_increment_at_odds(envelope: Envelope) -> None:
    if envelope.scope_type == "trust_bundle":
        raise _bad("a snapshot: a trust bundle has no increments", "an increment", "scope_type")
    if envelope.next_config_version != envelope.config_version:
        raise _bad("next_config_version = config_version", envelope.next_config_version, "next_config_version")
    if envelope.base_config_version is None or envelope.base_config_version >= envelope.config_version:
        raise _bad("a base below config_version", envelope.base_config_version, "base_config_version")


def _value(name: str, value: object) -> object:
    if name in _TIMES:
        return parse_time(value)
    return tuple(value) if isinstance(value, list) else value


def _is_time(value: object) -> bool:
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


def _sorted_ids(most: int) -> Callable[[object], bool]:
    return lambda value: is_sorted_set(value, is_id, most)


_FORM: dict[str, Callable[[object], bool]] = {
    "schema_version": lambda value: type(value) is int,
    "kind": lambda value: value in KINDS,
    "snapshot_id": is_id,
    "cluster_id": is_id,
    "subject_node_id": lambda value: value == SHARED or is_id(value),
    "scope_type": is_id,
    "scope_ids": _sorted_ids(MAX_SCOPE_IDS),
    "roles": _sorted_ids(16),
    "organization_ids": _sorted_ids(256),
    "config_version": is_integer,
    "authority_epoch": is_integer,
    "issued_at": _is_time,
    "valid_from": _is_time,
    "refresh_after": _is_time,
    "expires_at": _is_time,
    "min_trust_bundle_version": lambda value: is_integer(value, 0),
    "signer_key_id": is_key_id,
    "signature_algorithm": lambda value: value in ALGORITHMS,
    "cosigner_key_ids": lambda value: is_sorted_set(value, is_key_id, 15),
    "content_hash": is_hash,
    "content_length": lambda value: is_integer(value, 0),
}
_INCREMENT_FORM: dict[str, Callable[[object], bool]] = {
    "base_config_version": is_integer,
    "next_config_version": is_integer,
    "base_content_hash": is_hash,
    "next_content_hash": is_hash,
}


def _bad(expected: object, found: object, where: str = "envelope") -> Rejected:
    return Rejected(1, Reason.BAD_ENVELOPE, expected=expected, found=found, where=where)

"""The trust bundle (format.md 8): which keys are trusted, from its four sections, checked whole when it is loaded.

Sections beside the four, further members of a key record, scope types and thresholds that this release does not know
are passed over (format.md 1, "Extension").
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping

from snapshot import canonical
from snapshot.envelope import Envelope
from snapshot.extension import refuse_critical
from snapshot.frozen import frozen
from snapshot.identifiers import (
    HEAD,
    MAX_INTEGER,
    SCOPE_TYPES,
    is_id,
    is_integer,
    is_sorted_set,
    parse_time,
)
from snapshot.limits import DEFAULT, Limits
from snapshot.manifest import Revocations, bad_content, closed_object, open_object, parse_revocations
from snapshot.reasons import Reason
from snapshot.signature import ALGORITHMS, BadKey, key_id, load_public_key

SCOPE = "trust_bundle"
SECTIONS = ("authority", "keys", "revocations", "thresholds")
ROOT, CONFIG = "root", "config"
OF_TYPE = f"{CONFIG}/"  # before the scope type whose threshold it is
ACTIVE, RETIRING, REVOKED = "active", "retiring", "revoked"


@frozen
class KeyRecord:
    """One key; times are Unix seconds, `public_key` is the SubjectPublicKeyInfo in DER."""

    key_id: str
    algorithm: str
    public_key: bytes
    purpose: str
    cluster_id: str
    scope_types: tuple[str, ...]
    not_before: int
    not_after: int
    status: str

    def fault(self, cluster_id: str, now: float, scope_type: str, purpose: str, revoked: bool) -> Reason | None:
        """The first thing that keeps this key from signing, in the order of format.md 7, step 4."""
        if self.cluster_id != cluster_id:
            return Reason.UNKNOWN_KEY
        if not self.not_before <= now < self.not_after:
            return Reason.KEY_EXPIRED
        if self.status == REVOKED or (revoked and self.purpose == CONFIG):
            return Reason.KEY_REVOKED
        if self.purpose != purpose or (purpose == CONFIG and scope_type not in self.scope_types):
            return Reason.KEY_NOT_FOR_SCOPE
        return None


@frozen
class TrustBundle:
    version: int
    epoch: int  # its own envelope's
    issued_at: int
    expires_at: int
    keys: Mapping[str, KeyRecord]
    thresholds: Mapping[str, int]  # `root`, `config`, and perhaps `config/<scope type>`
    authority_epoch: int  # the highest that any document may carry
    revocations: Revocations
    passed_over: tuple[str, ...] = ()  # what this release does not know, as JSON pointers

    def config_threshold(self, scope_type: str) -> int:
        """How many config keys must sign what is of this type, or a head."""
        return threshold_of(self.thresholds, scope_type)


def threshold_of(thresholds: Mapping[str, int], scope_type: str) -> int:
    """The type's own in the place of that of all config keys."""
    return thresholds.get(f"{OF_TYPE}{scope_type}", thresholds[CONFIG])


def from_sections(envelope: Envelope, sections: Mapping[str, object], limits: Limits = DEFAULT) -> TrustBundle:
    """The bundle that parsed sections say; Rejected as `bad_content` where one of the four does not hold."""
    refuse_unsupported(sections)
    if not sections.keys() >= set(SECTIONS):
        raise bad_content(", ".join(SECTIONS), ", ".join(sorted(sections)), "sections")
    keys = parse_keys(sections["keys"], limits)
    return TrustBundle(
        version=envelope.config_version,
        epoch=envelope.authority_epoch,
        issued_at=envelope.issued_at,
        expires_at=envelope.expires_at,
        keys=keys,
        thresholds=_thresholds(sections["thresholds"], keys),
        authority_epoch=_authority_epoch(sections["authority"]),
        revocations=parse_revocations(sections["revocations"], of_head=False),
        passed_over=tuple(_unknown(sections)),
    )


def refuse_unsupported(sections: Mapping[str, object]) -> None:
    """A critical name that is not known: of a section, a threshold, a key record's member or scope type. It is looked
    for in whatever is of the form to have one, before any other rule of step 11.
    """
    refuse_critical(sections, "sections")
    refuse_critical(_members(sections.get("thresholds")), "/thresholds")
    for name, record in _members(sections.get("keys")).items():
        refuse_critical(_members(record), f"/keys/{name}")
        refuse_critical(_scope_types(record), f"/keys/{name}/scope_types")


def _members(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _scope_types(record: object) -> list[str]:
    """Of a key that is no root key: what one of those may sign follows from its purpose."""
    members = _members(record)
    types = members.get("scope_types") if members.get("purpose") != ROOT else None
    return [name for name in types if isinstance(name, str)] if isinstance(types, list) else []


def _unknown(sections: Mapping[str, object]) -> Iterator[str]:
    """What a whole bundle says that this release does not know."""
    yield from (f"/{name}" for name in sections if name not in SECTIONS)
    for name in _members(sections["thresholds"]):
        if name not in (ROOT, CONFIG) and _type_of(name) not in _SIGNED:
            yield f"/thresholds/{name.replace('/', '~1')}"
    for key, record in _members(sections["keys"]).items():
        yield from (f"/keys/{key}/{name}" for name in _members(record) if name not in _KEY_FORM)
        yield from (f"/keys/{key}/scope_types/{name}" for name in _scope_types(record) if name not in _SIGNED)


def from_bytes(envelope: Envelope, sections: Mapping[str, bytes], limits: Limits = DEFAULT) -> TrustBundle:
    """The bundle of sections that have been verified before (what a store or a context holds)."""
    try:
        parsed = {name: canonical.loads(data, limits) for name, data in sections.items()}
    except canonical.NotCanonical as error:
        raise bad_content("canonical JSON", str(error), "sections") from None
    return from_sections(envelope, parsed, limits)


def parse_keys(value: object, limits: Limits = DEFAULT) -> dict[str, KeyRecord]:
    """Key records by id: ids recomputed, one public key once, no key that must not verify (threats D-9, D-10)."""
    if not isinstance(value, dict) or not 1 <= len(value) <= limits.trust_bundle_keys:
        raise bad_content(f"an object of 1..{limits.trust_bundle_keys} keys", "another value", "/keys")
    return {name: _key_record(name, members) for name, members in value.items()}


_TIME = "not_before", "not_after"


def _key_record(name: str, value: object) -> KeyRecord:
    where = f"/keys/{name}"
    is_root = isinstance(value, dict) and value.get("purpose") == ROOT
    # What a root key may sign follows from its purpose: its scope types are not looked at.
    given = open_object(value, _KEY_FORM | ({"scope_types": lambda _: True} if is_root else {}), {}, where)
    members = {member: given[member] for member in _KEY_FORM}
    public_key = _public_key(members["public_key"], where)
    if key_id(public_key) != name:
        raise bad_content(f"the id {key_id(public_key)}", name, where)
    algorithm = str(members["algorithm"])
    try:
        load_public_key(algorithm, public_key)
    except BadKey as error:
        raise bad_content(f"an {algorithm} key that may verify", str(error), where) from None
    record = dict(members, key_id=name, public_key=public_key, scope_types=())
    record |= {} if is_root else {"scope_types": tuple(members["scope_types"])}  # type: ignore[arg-type]
    record |= {time: parse_time(members[time]) for time in _TIME}
    return KeyRecord(**record)  # type: ignore[arg-type]


def _public_key(value: object, where: str) -> bytes:
    """The DER of padded standard base64, which must be what we would write."""
    try:
        der = base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise bad_content("base64 of a SubjectPublicKeyInfo", "something else", where) from None
    if base64.b64encode(der).decode() != value:
        raise bad_content("padded standard base64", "another form", where)
    return der


def _is_time(value: object) -> bool:
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


_KEY_FORM: dict[str, Callable[[object], bool]] = {
    "algorithm": lambda value: value in ALGORITHMS,
    "public_key": lambda value: isinstance(value, str),
    "purpose": lambda value: value in (ROOT, CONFIG),
    "cluster_id": is_id,
    "scope_types": lambda value: is_sorted_set(value, is_id),
    "not_before": _is_time,
    "not_after": _is_time,
    "status": lambda value: value in (ACTIVE, RETIRING, REVOKED),
}


_SIGNED = (*SCOPE_TYPES, HEAD)  # what a key record may name that this release knows


def _thresholds(value: object, keys: Mapping[str, KeyRecord]) -> dict[str, int]:
    members = _members(value)
    of_types = {name: is_integer for name in members if is_id(_type_of(name))}
    closed_object(value, {ROOT: is_integer, CONFIG: is_integer, **of_types}, "/thresholds")
    for name, threshold in members.items():
        usable = _able(name, keys)
        if usable is not None and not (isinstance(threshold, int) and 1 <= threshold <= usable):
            raise bad_content(f"1..{usable}, the keys that can sign", threshold, f"/thresholds/{name}")
    return {name: int(str(threshold)) for name, threshold in members.items()}


def _type_of(threshold: str) -> str:
    return threshold.removeprefix(OF_TYPE) if threshold.startswith(OF_TYPE) else ""


def _able(threshold: str, keys: Mapping[str, KeyRecord]) -> int | None:
    """How many keys can sign for it; None where its scope type is not known."""
    usable = [key for key in keys.values() if key.status != REVOKED]
    if threshold in (ROOT, CONFIG):
        return sum(key.purpose == threshold for key in usable)
    scope_type = _type_of(threshold)
    if scope_type not in _SIGNED:
        return None
    return sum(key.purpose == CONFIG and scope_type in key.scope_types and scope_type != SCOPE for key in usable)


def _authority_epoch(value: object) -> int:
    members = closed_object(value, {"authority_epoch": is_integer}, "/authority")
    epoch = members["authority_epoch"]
    return epoch if isinstance(epoch, int) else MAX_INTEGER

"""The trust bundle (format.md 8): which keys are trusted, from its four sections, checked whole when it is loaded."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from snapshot import canonical
from snapshot.envelope import Envelope
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
from snapshot.manifest import Revocations, bad_content, closed, parse_revocations
from snapshot.reasons import Reason
from snapshot.signature import ALGORITHMS, BadKey, key_id, load_public_key

SCOPE = "trust_bundle"
SECTIONS = ("authority", "keys", "revocations", "thresholds")
ROOT, CONFIG = "root", "config"
ACTIVE, RETIRING, REVOKED = "active", "retiring", "revoked"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class TrustBundle:
    version: int
    epoch: int  # its own envelope's
    issued_at: int
    expires_at: int
    keys: Mapping[str, KeyRecord]
    thresholds: Mapping[str, int]
    authority_epoch: int  # the highest that any document may carry
    revocations: Revocations


def from_sections(envelope: Envelope, sections: Mapping[str, object], limits: Limits = DEFAULT) -> TrustBundle:
    """The bundle that four parsed sections say; Rejected as `bad_content` where one of them does not hold."""
    if tuple(sorted(sections)) != SECTIONS:
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
    )


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
    members = closed(value, _KEY_FORM | ({"scope_types": lambda _: True} if is_root else {}), where)
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
    "scope_types": lambda value: is_sorted_set(value, lambda item: item in (*SCOPE_TYPES, HEAD)),
    "not_before": _is_time,
    "not_after": _is_time,
    "status": lambda value: value in (ACTIVE, RETIRING, REVOKED),
}


def _thresholds(value: object, keys: Mapping[str, KeyRecord]) -> dict[str, int]:
    members = closed(value, {ROOT: is_integer, CONFIG: is_integer}, "/thresholds")
    for purpose, threshold in members.items():
        usable = sum(key.purpose == purpose and key.status != REVOKED for key in keys.values())
        if not (isinstance(threshold, int) and 1 <= threshold <= usable):
            raise bad_content(f"1..{usable}, the keys that can sign", threshold, f"/thresholds/{purpose}")
    return {purpose: int(str(threshold)) for purpose, threshold in members.items()}


def _authority_epoch(value: object) -> int:
    members = closed(value, {"authority_epoch": is_integer}, "/authority")
    epoch = members["authority_epoch"]
    return epoch if isinstance(epoch, int) else MAX_INTEGER

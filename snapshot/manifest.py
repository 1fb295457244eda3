"""The manifests of format.md 5, one form for each kind; out of form is `bad_content`, step 11."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from snapshot import canonical
from snapshot.identifiers import (
    is_endpoint,
    is_hash,
    is_hex_digest,
    is_id,
    is_integer,
    is_key_id,
    is_nonce,
    is_section_name,
    is_sorted_set,
    parse_scope,
)
from snapshot.limits import DEFAULT, Limits
from snapshot.reasons import Reason, Rejected


@dataclass(frozen=True)
class SectionEntry:
    """One section of a full state: the SHA-256 of its bytes (64 hex digits) and their number."""

    sha256: str
    size: int


@dataclass(frozen=True)
class SectionChange:
    """One section of an increment: the bytes that it brings, and what they leave behind (None: the section goes)."""

    op: Literal["set", "remove", "patch"]
    brought: SectionEntry | None
    result: SectionEntry | None


@dataclass(frozen=True)
class ScopeVersion:
    """What a head lists for one scope."""

    authority_epoch: int
    config_version: int
    content_hash: str
    snapshot_id: str


@dataclass(frozen=True)
class Revocations:
    """What has been revoked: by a trust bundle, or by a head since it (then with a `version`)."""

    version: int = 0
    key_ids: frozenset[str] = frozenset()
    node_ids: frozenset[str] = frozenset()
    role_assignments: frozenset[str] = frozenset()
    service_ids: frozenset[str] = frozenset()
    endpoints: frozenset[str] = frozenset()

    def with_bundle(self, bundle: "Revocations") -> "Revocations":
        """A head's with a trust bundle's: what either takes away; what an expired head revoked stays revoked."""
        return Revocations(
            self.version,
            self.key_ids,
            bundle.node_ids | self.node_ids,
            bundle.role_assignments | self.role_assignments,
            bundle.service_ids | self.service_ids,
            bundle.endpoints | self.endpoints,
        )


@dataclass(frozen=True)
class Head:
    generation: int
    poll_after_s: int
    revocations: Revocations
    scopes: Mapping[str, ScopeVersion] = field(default_factory=dict)


@dataclass(frozen=True)
class RecoveryManifest:
    from_config_version: int
    to_config_version: int
    to_content_hash: str
    nonce: str


def parse_state(data: bytes, limits: Limits = DEFAULT) -> dict[str, SectionEntry]:
    """A snapshot's manifest, and that of every full state."""
    return {name: _entry(name, members) for name, members in _sections(data, limits).items()}


def parse_changes(data: bytes, limits: Limits = DEFAULT) -> dict[str, SectionChange]:
    return {name: _change(name, members) for name, members in _sections(data, limits).items()}


def parse_head(data: bytes, limits: Limits = DEFAULT) -> Head:
    form = {
        "generation": is_integer,
        "poll_after_s": is_integer,
        "revocations": lambda value: isinstance(value, dict),
        "scopes": lambda value: isinstance(value, dict),
    }
    members = _closed(_object(data, limits), form, "")
    scopes = members["scopes"]
    assert isinstance(scopes, dict)  # noqa: S101 - the form above says so
    return Head(
        generation=_integer(members["generation"]),
        poll_after_s=_integer(members["poll_after_s"]),
        revocations=parse_revocations(members["revocations"], of_head=True),
        scopes={_scope(name): _scope_version(name, value) for name, value in scopes.items()},
    )


def parse_recovery(data: bytes, limits: Limits = DEFAULT) -> RecoveryManifest:
    form = {
        "from_config_version": is_integer,
        "to_config_version": is_integer,
        "to_content_hash": is_hash,
        "nonce": is_nonce,
    }
    recovery = RecoveryManifest(**_closed(_object(data, limits), form, ""))  # type: ignore[arg-type]
    if recovery.to_config_version >= recovery.from_config_version:
        raise bad_content("to_config_version below from_config_version", recovery.to_config_version)
    return recovery


def parse_revocations(value: object, *, of_head: bool) -> Revocations:
    """The `revocations` of a head, or the section of a trust bundle, which has no version and no key ids."""
    form = {
        "node_ids": _sorted(is_id),
        "role_assignments": _sorted(_is_role_assignment),
        "service_ids": _sorted(is_id),
        "endpoints": _sorted(is_endpoint),
    }
    if of_head:
        form |= {"version": lambda version: is_integer(version, 0), "key_ids": _sorted(is_key_id)}
    members = _closed(value, form, "/revocations")
    return Revocations(
        **{name: frozenset(item) if isinstance(item, list) else item for name, item in members.items()}  # type: ignore[arg-type]
    )


def state_bytes(entries: Mapping[str, SectionEntry]) -> bytes:
    """The canonical manifest of a full state."""
    return canonical.dumps({name: {"sha256": entry.sha256, "size": entry.size} for name, entry in entries.items()})


def state_after(base: Mapping[str, SectionEntry], changes: Mapping[str, SectionChange]) -> dict[str, SectionEntry]:
    """The full state that `changes` make of `base`."""
    after = dict(base)
    for name, change in changes.items():
        if change.result is None:
            after.pop(name, None)
        else:
            after[name] = change.result
    return after


def bad_content(expected: object, found: object, where: str = "") -> Rejected:
    return Rejected(11, Reason.BAD_CONTENT, expected=expected, found=found, where=where or "manifest")


def closed(value: object, form: Mapping[str, Callable[[object], bool]], where: str) -> dict[str, object]:
    """`value` as an object of exactly the members of `form`, each in form; `bad_content` otherwise."""
    if not isinstance(value, dict):
        raise bad_content("an object", type(value).__name__, where)
    for name in form:
        if name not in value:
            raise bad_content(f"a member {name}", "none", where)
    for name, item in value.items():
        if name not in form:
            raise bad_content("no unknown member", name, where)
        if not form[name](item):
            raise bad_content(f"{name} in its form", type(item).__name__, f"{where}/{name}")
    return value


_closed = closed


def _object(data: bytes, limits: Limits) -> dict[str, object]:
    try:
        value = canonical.loads(data, limits)
    except canonical.NotCanonical as error:
        raise bad_content("a canonical manifest", str(error)) from None
    if not isinstance(value, dict):
        raise bad_content("an object", type(value).__name__)
    return value


def _sections(data: bytes, limits: Limits) -> dict[str, object]:
    sections = _object(data, limits)
    if len(sections) > limits.sections:
        raise Rejected(0, Reason.TOO_LARGE, expected=f"at most {limits.sections} sections", found=len(sections))
    for name in sections:
        if not is_section_name(name):
            raise bad_content("a section name", name)
    return sections


_ENTRY = {"sha256": is_hex_digest, "size": lambda value: is_integer(value, 0)}
_RESULT = {"result_sha256": is_hex_digest, "result_size": lambda value: is_integer(value, 0)}


def _entry(name: str, value: object, prefix: str = "") -> SectionEntry:
    members = value if prefix else closed(value, _ENTRY, name)
    assert isinstance(members, dict)  # noqa: S101 - closed() gives one
    return SectionEntry(str(members[prefix + "sha256"]), _integer(members[prefix + "size"]))


def _change(name: str, value: object) -> SectionChange:
    op = value.get("op") if isinstance(value, dict) else None
    if op == "remove":
        closed(value, {"op": bool}, name)
        return SectionChange("remove", None, None)
    if op not in ("set", "patch"):
        raise bad_content("an op of set, remove or patch", op, name)
    members = closed(value, {"op": bool} | _ENTRY | (_RESULT if op == "patch" else {}), name)
    brought = SectionEntry(str(members["sha256"]), _integer(members["size"]))
    return SectionChange(op, brought, _entry(name, members, "result_") if op == "patch" else brought)


def _scope(name: str) -> str:
    try:
        parse_scope(name)
    except ValueError as error:
        raise bad_content(str(error), name, "/scopes") from None
    return name


def _scope_version(name: str, value: object) -> ScopeVersion:
    form = {
        "authority_epoch": is_integer,
        "config_version": is_integer,
        "content_hash": is_hash,
        "snapshot_id": is_id,
    }
    return ScopeVersion(**closed(value, form, f"/scopes/{name}"))  # type: ignore[arg-type]


def _is_role_assignment(value: object) -> bool:
    """`<node id>/<role>`"""
    node, slash, role = value.partition("/") if isinstance(value, str) else ("", "", "")
    return bool(slash) and is_id(node) and is_id(role)


def _sorted(member: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: is_sorted_set(value, member)


def _integer(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - its form was checked
    return value

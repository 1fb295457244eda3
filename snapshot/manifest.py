"""The manifests of format.md 5, one form for each kind; out of form is `bad_content`, step 11."""

import operator
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, pairwise, starmap
from typing import Literal, NamedTuple

from snapshot import canonical
from snapshot.extension import refuse_critical
from snapshot.frozen import frozen
from snapshot.identifiers import (
    HEAD,
    SCOPE_TYPES,
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

RAW = "raw"
HEADS_REMEMBERED = 2  # the one that is held, and the one that comes
# One section as a canonical manifest has it: its name, its form, its hash, its size of up to 15 digits.
_ENTRY_FORM = (
    r'"([a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?)":'
    r'\{("form":"raw",)?"sha256":"([0-9a-f]{64})","size":(0|[1-9][0-9]{0,14})\}'
)
ENTRY = re.compile(_ENTRY_FORM, re.ASCII)
# All of a manifest; it notes nothing of any entry, and does not come back to one that it has read.
_UNNOTED = re.sub(r"\((?!\?)", "(?:", _ENTRY_FORM)
_ENTRIES = re.compile(rf"\{{{_UNNOTED}(?:,{_UNNOTED})*+\}}", re.ASCII)
_NEXT_NAME = re.compile(r'\},"([^"]+)')


class SectionEntry(NamedTuple):
    """One section of a full state: the SHA-256 of its bytes (64 hex digits) and their number. A raw one is no JSON.
    Tens of thousands of them are made for one document, which takes a tuple a third of the time.
    """

    sha256: str
    size: int
    is_raw: bool = False

    def members(self) -> dict[str, object]:
        """As a manifest has it."""
        return {"sha256": self.sha256, "size": self.size, **({"form": RAW} if self.is_raw else {})}

    def text(self) -> str:
        """The canonical text of these: hex digits need no escapes."""
        form = f'"form":"{RAW}",' if self.is_raw else ""
        return f'{{{form}"sha256":"{self.sha256}","size":{self.size}}}'


@dataclass(frozen=True)
class SectionChange:
    """One section of an increment: the bytes that it brings, and what they leave behind (None: the section goes)."""

    op: Literal["set", "remove", "patch"]
    brought: SectionEntry | None
    result: SectionEntry | None


@dataclass(frozen=True)
class ScopeVersion:
    """What a head lists for one scope, or as a candidate. The last three are of a guarded change, perhaps left out."""

    authority_epoch: int
    config_version: int
    content_hash: str
    snapshot_id: str
    change: str | None = None
    probation_s: int | None = None
    allowed: str | None = None  # the hash of a plan that an operator let pass

    def members(self) -> dict[str, object]:
        """As a head lists it."""
        return {name: value for name, value in vars(self).items() if value is not None}


@frozen
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


@frozen
class Head:
    generation: int
    poll_after_s: int
    revocations: Revocations
    scopes: Mapping[str, ScopeVersion] = field(default_factory=dict)
    candidates: Mapping[str, ScopeVersion] = field(default_factory=dict)  # what is coming: judged, and not activated
    passed_over: tuple[str, ...] = ()  # members that this release does not know, as JSON pointers

    @cached_property
    def known_scopes(self) -> frozenset[str]:
        """Those listed whose types are known (format.md 5): found once for a head, since each document that comes asks,
        and thousands may be listed.
        """
        return frozenset(name for name in self.scopes if parse_scope(name)[0] in (*SCOPE_TYPES, HEAD))


@frozen
class RecoveryManifest:
    from_config_version: int
    to_config_version: int
    to_content_hash: str
    nonce: str


def parse_state(data: bytes, limits: Limits = DEFAULT) -> dict[str, SectionEntry]:
    """A snapshot's manifest, and that of every full state."""
    if not is_plain_state(data, limits):
        return {name: _entry(name, members) for name, members in _sections(data, limits).items()}
    found = ENTRY.findall(data.decode("ascii"))
    return {name: SectionEntry(sha256, int(size), bool(form)) for name, form, sha256, size in found}


def is_plain_state(data: bytes, limits: Limits = DEFAULT) -> bool:
    """Whether it is of nothing but entries in form, in their order, which is known in a fifth of the time. False for
    any other, also for one in which something is wrong: whether it is, and what is said of it, is for those who read it
    value by value.

    Of tens of thousands of entries nothing is kept meanwhile: what is taken for a moment between things that stay
    is not given back, and was a tenth of an agent's memory.
    """
    if not data.isascii() or b".." in data:
        return False
    text = data.decode("ascii")
    if not _lets_in(text.count("},") + 1, limits) or _ENTRIES.fullmatch(text) is None:
        return False
    first, others = text[2 : text.index('"', 2)], map(operator.itemgetter(1), _NEXT_NAME.finditer(text))
    return all(starmap(operator.lt, pairwise(chain((first,), others))))


def _lets_in(count: int, limits: Limits) -> bool:
    """So many entries, each an object of three values at most: also by what limits any JSON."""
    is_json = limits.json_depth >= 2 and limits.json_values >= 1 + 4 * count and limits.string_bytes >= 128
    return is_json and count <= limits.sections


def parse_changes(data: bytes, limits: Limits = DEFAULT) -> dict[str, SectionChange]:
    return {name: _change(name, members) for name, members in _sections(data, limits).items()}


def parse_head(data: bytes, limits: Limits = DEFAULT) -> Head:
    """The manifest of a head; `bad_content` where it is out of form, and what is unknown is named as passed over.

    By all of its bytes: the one that comes and the one that is held are asked for by half a dozen who know nothing of
    each other, at each update, some without limits.
    """
    return _head_of(data, limits)


@lru_cache(maxsize=HEADS_REMEMBERED)
def _head_of(data: bytes, limits: Limits) -> Head:
    value = _object(data, limits)
    refuse_critical(_names_of_head(value), "manifest")
    form = {
        "generation": is_integer,
        "poll_after_s": is_integer,
        "revocations": lambda value: isinstance(value, dict),
        "scopes": lambda value: isinstance(value, dict),
    }
    members = open_object(value, form, {"candidates": lambda value: isinstance(value, dict)}, "")
    return Head(
        generation=_integer(members["generation"]),
        poll_after_s=_integer(members["poll_after_s"]),
        revocations=parse_revocations(members["revocations"], of_head=True),
        scopes=_listing(members, "scopes"),
        candidates=_listing(members, "candidates"),
        passed_over=tuple(_unknown_of_head(members)),
    )


def parse_recovery(data: bytes, limits: Limits = DEFAULT) -> RecoveryManifest:
    """The manifest of a recovery: from a version of a scope to an earlier one, once; `bad_content` otherwise."""
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
        "node_ids": _sorted_set_of(is_id),
        "role_assignments": _sorted_set_of(_is_role_assignment),
        "service_ids": _sorted_set_of(is_id),
        "endpoints": _sorted_set_of(is_endpoint),
    }
    if of_head:
        form |= {"version": lambda version: is_integer(version, 0), "key_ids": _sorted_set_of(is_key_id)}
    members = _closed(value, form, "/revocations")
    return Revocations(
        **{name: frozenset(item) if isinstance(item, list) else item for name, item in members.items()}  # type: ignore[arg-type]
    )


def names_in(data: bytes, limits: Limits = DEFAULT) -> Iterable[str]:
    """Of the sections, whatever their form."""
    return _object(data, limits)


def state_bytes(entries: Mapping[str, SectionEntry]) -> bytes:
    """The canonical manifest of a full state. An increment of one section makes it of all of them: so it is written
    entry by entry, in a fifth of the time that a writer of any value takes.
    """
    return canonical.join({name: entry.text() for name, entry in entries.items()}).encode()


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


def closed_object(value: object, form: Mapping[str, Callable[[object], bool]], where: str) -> dict[str, object]:
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


def open_object(
    value: object,
    form: Mapping[str, Callable[[object], bool]],
    optional: Mapping[str, Callable[[object], bool]],
    where: str,
) -> dict[str, object]:
    """`value` as an object of the members of `form`, perhaps those of `optional`, and others whose names are ids."""
    if not isinstance(value, dict):
        raise bad_content("an object", type(value).__name__, where)
    known = {name: value[name] for name in value if name in form or name in optional}
    for name in value.keys() - known.keys():
        if not is_id(name):
            raise bad_content("members whose names are ids", name, where)
    closed_object(known, {**form, **{name: optional[name] for name in known.keys() & optional.keys()}}, where)
    return value


_closed = closed_object


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


_ENTRY: dict[str, Callable[[object], bool]] = {"sha256": is_hex_digest, "size": lambda value: is_integer(value, 0)}
_RESULT: dict[str, Callable[[object], bool]] = {
    "result_sha256": is_hex_digest,
    "result_size": lambda value: is_integer(value, 0),
}


_FORM_OF_RAW: dict[str, Callable[[object], bool]] = {"form": lambda value: value == RAW}


def _entry(name: str, value: object) -> SectionEntry:
    return _entry_of(closed_object(value, _ENTRY | _form_of(value), name))


def _form_of(value: object) -> dict[str, Callable[[object], bool]]:
    """Of a section that is bytes; what may be one is for the reader of the scope type to say."""
    return _FORM_OF_RAW if isinstance(value, dict) and "form" in value else {}


def _entry_of(members: Mapping[str, object], prefix: str = "") -> SectionEntry:
    sha256, size = str(members[prefix + "sha256"]), _integer(members[prefix + "size"])
    return SectionEntry(sha256, size, is_raw=not prefix and "form" in members)


def _change(name: str, value: object) -> SectionChange:
    op = value.get("op") if isinstance(value, dict) else None
    if op == "remove":
        closed_object(value, {"op": bool}, name)
        return SectionChange("remove", None, None)
    if op not in ("set", "patch"):
        raise bad_content("an op of set, remove or patch", op, name)
    members = closed_object(value, {"op": bool} | _ENTRY | (_RESULT if op == "patch" else _form_of(value)), name)
    brought = _entry_of(members)
    return SectionChange(op, brought, _entry_of(members, "result_") if op == "patch" else brought)


def _listing(members: Mapping[str, object], name: str) -> dict[str, ScopeVersion]:
    """The versions by scope, under `scopes` or `candidates`."""
    listed = members.get(name, {})
    assert isinstance(listed, dict)  # noqa: S101 - the form says so
    return {_scope(scope, f"/{name}"): _scope_version(value, f"/{name}/{scope}") for scope, value in listed.items()}


def _scope(name: str, where: str) -> str:
    try:
        parse_scope(name)
    except ValueError as error:
        raise bad_content(str(error), name, where) from None
    return name


_LISTED: dict[str, Callable[[object], bool]] = {
    "authority_epoch": is_integer,
    "config_version": is_integer,
    "content_hash": is_hash,
    "snapshot_id": is_id,
}
MOST_PROBATION_S = 86_400
_GUARDED: dict[str, Callable[[object], bool]] = {
    "change": is_id,
    "probation_s": lambda value: type(value) is int and 0 <= value <= MOST_PROBATION_S,
    "allowed": is_hash,
}


def _scope_version(value: object, where: str) -> ScopeVersion:
    members = open_object(value, _LISTED, _GUARDED, where)
    return ScopeVersion(**{name: members[name] for name in members if name in _LISTED or name in _GUARDED})  # type: ignore[arg-type]


def _names_of_head(value: Mapping[str, object]) -> Iterator[str]:
    """Every name that a head leaves open: its members, the types of scopes, the members of their entries."""
    yield from value
    for _, scope, entry in _entries(value):
        yield scope
        yield from entry


def _unknown_of_head(value: Mapping[str, object]) -> Iterator[str]:
    known: Container[str] = ("generation", "poll_after_s", "revocations", *_LISTINGS)
    yield from (f"/{name}" for name in value if name not in known)
    for listing, scope, entry in _entries(value):
        unknown = (name for name in entry if name not in _LISTED and name not in _GUARDED)
        yield from (f"/{listing}/{scope.replace('/', '~1')}/{name}" for name in unknown)


_LISTINGS = ("scopes", "candidates")


def _entries(value: Mapping[str, object]) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """(scopes or candidates, the scope, its entry), of whatever has that form."""
    for listing in _LISTINGS:
        listed = value.get(listing)
        for scope, entry in listed.items() if isinstance(listed, dict) else ():
            yield listing, scope, entry if isinstance(entry, dict) else {}


def _is_role_assignment(value: object) -> bool:
    """`<node id>/<role>`"""
    node, slash, role = value.partition("/") if isinstance(value, str) else ("", "", "")
    return bool(slash) and is_id(node) and is_id(role)


def _sorted_set_of(member: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: is_sorted_set(value, member)


def _integer(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - its form was checked
    return value

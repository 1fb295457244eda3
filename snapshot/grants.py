"""What an active scope names that a node itself goes by (format.md 10). Pure.

    read_grants     services, routes, peers, storage endpoints, resources and secret references of one scope
    parse_policy    the degraded_mode_policy's section `policy`

What is malformed there authorises nothing, and is no fault of the document.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cached_property

from snapshot import canonical
from snapshot.egress import RESOURCES, ResourceGrant, references, resource_grants
from snapshot.frozen import frozen
from snapshot.identifiers import is_id, is_integer
from snapshot.mirrors import Mirror, parse_mirror

POLICY_SCOPE, POLICY_SECTION = "degraded_mode_policy", "policy"
DAY_S = 86_400

# rules S55: what a policy may name; the letters are those of the rules.
ALLOWABLE = (
    "continue_services",  # S55a
    "preserve_routes",  # S55b
    "reconnect_peers",  # S55c
    "validate_peers",  # S55d
    "use_storage_endpoints",  # S55e
    "report_degraded",  # S55f
)
# rules, Numbers: `max_duration_s` 0..7 days, `route_ttl_s` and `session_ttl_s` 0..24 h.
_MOST_S = {"max_duration_s": 7 * DAY_S, "route_ttl_s": DAY_S, "session_ttl_s": DAY_S}

_REFERENCE = b'"secret_ref"'


@frozen
class Policy:
    """What may go on without a fresh head, and for how many seconds (rules S58)."""

    allow: frozenset[str]
    max_duration_s: int
    route_ttl_s: int
    session_ttl_s: int
    allow_unconfirmed_start: bool


@frozen
class Grants:
    """What one scope names, by kind. `secrets` are `<resolver>:<path>`, `endpoints` are `https://host:port`, those of
    `mirrors`. The secrets of `resources` stand with these, and go with them. `pins`: of `peers`, as `pin_of` writes it.
    """

    services: Container[str] = frozenset()
    routes: Container[str] = frozenset()
    peers: Container[str] = frozenset()
    endpoints: frozenset[str] = frozenset()
    secrets: Container[str] = frozenset()
    resources: frozenset[ResourceGrant] = frozenset()
    mirrors: frozenset[Mirror] = frozenset()
    pins: Container[str] = frozenset()


class LateGrants:
    """Those of a large document, which are read at their first use. That takes a while: on a thread, please."""

    def __init__(self, read: Callable[[], Grants]) -> None:
        self._read = read

    def __getattr__(self, kind: str) -> Container[str]:
        if kind not in Grants.__dataclass_fields__:
            raise AttributeError(kind)
        found: Container[str] = getattr(self._grants, kind)
        return found

    @property
    def endpoints(self) -> frozenset[str]:
        return self._grants.endpoints

    @property
    def resources(self) -> frozenset[ResourceGrant]:
        return self._grants.resources

    @property
    def mirrors(self) -> frozenset[Mirror]:
        return self._grants.mirrors

    @cached_property
    def _grants(self) -> Grants:
        return self._read()


# Scope type -> the kind of what it grants, which is also the stem of the sections that say so.
GRANTED_BY = {
    "service_assignment": "services",
    "route_policy": "routes",
    "peer_directory": "peers",
    "storage_directory": "endpoints",
}


def parse_policy(section: bytes | None) -> Policy | None:
    """The policy, of exactly the members of rules S58; None for anything else, which is as no policy."""
    value = _load(section) if section is not None else None
    members = {"allow", "allow_unconfirmed_start", *_MOST_S}
    if not isinstance(value, dict) or value.keys() != members:
        return None
    allow, unconfirmed = value["allow"], value["allow_unconfirmed_start"]
    if not isinstance(allow, list) or not isinstance(unconfirmed, bool):
        return None
    if not all(isinstance(action, str) and action in ALLOWABLE for action in allow):
        return None
    if not all(is_integer(value[name], 0) and value[name] <= most for name, most in _MOST_S.items()):
        return None
    return Policy(frozenset(allow), **{name: value[name] for name in _MOST_S}, allow_unconfirmed_start=unconfirmed)


def read_grants(scope_type: str, sections: Iterable[tuple[str, bytes]]) -> Grants:
    """From the sections' names and bytes, one section parsed at a time."""
    kind = GRANTED_BY.get(scope_type)
    named: set[str] = set()
    secrets: set[str] = set()
    resources: set[ResourceGrant] = set()
    mirrors: set[Mirror] = set()
    pins: set[str] = set()
    for name, data in sections:
        if kind == "services" and name == RESOURCES:
            resources |= resource_grants(data)
            continue
        grants_here = kind is not None and _holds(name, kind)
        refers = _REFERENCE in data  # a walk over every value is for those that do
        if not grants_here and not refers:
            continue
        value = _load(data)
        if refers:
            secrets.update(references(value))
        if kind == "endpoints" and grants_here:
            mirrors.update(_mirrors_in(value))
        elif grants_here:
            named.update(_names_in(value))
            if kind == "peers":
                pins.update(_pins_in(value))
    if kind == "endpoints":
        named.update(mirror.url for mirror in mirrors)
    granted = {kind: frozenset(named)} if kind else {}
    return Grants(
        **granted,
        secrets=frozenset(secrets),
        resources=frozenset(resources),
        mirrors=frozenset(mirrors),
        pins=frozenset(pins),
    )


def _holds(name: str, kind: str) -> bool:
    """`services`, or a part of them, `services.<part>`; of the endpoints there are no parts."""
    return name == kind or (kind != "endpoints" and name.startswith(f"{kind}."))


def _load(data: bytes) -> object:
    """Of a section that was verified before it became active."""
    try:
        return canonical.reread(data)
    except canonical.NotCanonical:
        return None


def _names_in(value: object) -> Iterator[str]:
    return (name for name, _entry in _entries(value))


def pin_of(node_id: str, certificate: bytes) -> str:
    """That a peer shows this certificate (DER). No id holds a space."""
    return f"{node_id} sha256:{hashlib.sha256(certificate).hexdigest()}"


def _pins_in(value: object) -> Iterator[str]:
    for node_id, entry in _entries(value):
        certificates = entry.get("certificates") if isinstance(entry, dict) else None
        for text in certificates if isinstance(certificates, list) else ():
            try:
                yield pin_of(node_id, base64.b64decode(str(text), validate=True))
            except (binascii.Error, ValueError):
                continue


def _mirrors_in(value: object) -> Iterator[Mirror]:
    found = (parse_mirror(entry) for _name, entry in _entries(value))
    return (mirror for mirror in found if mirror is not None)


def _entries(value: object) -> Iterator[tuple[str, object]]:
    for name, entry in value.items() if isinstance(value, dict) else ():
        if is_id(name) and isinstance(entry, dict):
            yield name, entry

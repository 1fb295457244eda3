"""/etc/holdfast/coordinator.toml, read strictly (protocol 5): unknown keys are errors that name the nearest known one.

coordinator_id = "coord-1"
[database]  url
[listen]    fleet  join  probes  admin_socket  admin  coordinators  connections_per_address
[peers]     ask
[tls]       certificate  key
[keys]      directory (of config-*.pem)  token
[trust]     root_key_ids  root_threshold
[secrets]   value_shapes
[storage.<id>]  how this machine writes to a StorageEndpoint (storage_access.py)
[settings]  the numbers of settings.py
"""

import difflib
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.storage_access import StorageAccess, access_faults, read_access
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.trust.ceremony import MOST_ROOTS
from snapshot.identifiers import is_hash
from wire import forms

CREDENTIAL = "credential:"
MAX_PORT = 65_535
_TEXT = forms.text(forms.PATH_MAX, 1)

# What belongs into an agent's configuration: the coordinator's role is its own daemon (rules K8, K9).
_AGENTS = frozenset({"coordinators", "coordinator_urls", "ca", "ca_file", "token_file", "map", "direct_url", "node_id"})
ID_ABOUT = "This replica's id, as nodes and the log see it."
# Each key with what it is for: docs/configuration.md is made of this.
TABLES = {
    "database": {
        "url": "`sqlite:///PATH`, or `postgresql+psycopg://...` with all servers where there are several "
        "(`@db-1:5432,db-2:5432/`): the only durable source of truth. An `@` in a password is written `%40`.",
    },
    "listen": {
        "fleet": "`host:port` for members: TLS with pinned client certificates.",
        "join": "`host:port` for nodes that are no members yet: TLS without client certificates.",
        "probes": "`host:port` for `/probe/*` and `/metrics`, without TLS.",
        "admin_socket": "The Unix socket for operators: root and the service's own user.",
        "admin": "`host:port` for operators elsewhere: TLS with the certificates that were added; or nothing.",
        "coordinators": "`host:port` for the other coordinators of the manifest, by their identities: who lacks the "
        "mesh key or the seed gets it there; or nothing.",
        "connections_per_address": "Connections that one address may hold at `fleet`, and at `join`; more are turned "
        "away. A node holds two or three: raise it where many nodes come from one address (NAT).",
    },
    "peers": {
        "ask": "Where the other coordinators are asked, `host:port`, separated by commas; or nothing: at the hosts of "
        "the manifest's URLs, at the port of `listen.coordinators`.",
    },
    "tls": {
        "certificate": "The chain that nodes are shown, PEM: a file, or `credential:NAME`.",
        "key": "Its private key, PEM: a file, or `credential:NAME`.",
    },
    "keys": {
        "directory": "Where the config keys lie, `config-*.pem`; they are also looked for among the credentials.",
        "token": "The key that join tokens are signed with: a file, or `credential:NAME`.",
    },
    "trust": {
        "root_key_ids": "The cluster's root keys, as `holdfastctl trust show` names them, separated by commas: what a "
        "coordinator gets from another one, or from an owner, is believed where they lead to the manifest's trust "
        "bundle. Without them a coordinator without a seed believes no other one.",
        "root_threshold": "How many of them must have signed the first bundle that is followed; 0: all of them.",
    },
    "secrets": {
        "value_shapes": "A TOML file with families of values that `apply` takes for secrets, beside or instead of "
        "those that are shipped (`coordinator/value_shapes.toml` has the form); or nothing. Read again by a reload.",
    },
}
OPTIONAL: dict[tuple[str, str], str | int] = {
    ("listen", "probes"): "127.0.0.1:9465",
    ("listen", "admin_socket"): "/run/holdfast-coordinator/admin.sock",
    ("listen", "admin"): "",
    ("listen", "coordinators"): "",
    ("peers", "ask"): "",
    ("listen", "connections_per_address"): 256,
    ("trust", "root_key_ids"): "",
    ("trust", "root_threshold"): 0,
    ("secrets", "value_shapes"): "",
}
# Keys that are numbers, from and to.
RANGES = {("listen", "connections_per_address"): (1, 65_536), ("trust", "root_threshold"): (0, MOST_ROOTS)}


@dataclass(frozen=True)
class Address:
    """Where a TCP listener is bound."""

    host: str
    port: int


@dataclass(frozen=True)
class Configuration:
    """`certificate`, `key` and `token_key` may be `credential:NAME`: a file that the service manager has given.

    Config keys are looked for among these credentials, too (keystore.py).
    """

    coordinator_id: str
    database_url: str
    fleet: Address
    join: Address
    probes: Address
    admin_socket: Path
    admin: Address | None
    coordinators: Address | None
    peers: tuple[Address, ...]
    connections_per_address: int
    certificate: str
    key: str
    keys_directory: Path
    token_key: str
    roots: PinnedRootKeys
    value_shapes: str
    storage: tuple[StorageAccess, ...]
    settings: CoordinatorSettings


def load(path: Path) -> Configuration:
    """Refused with everything that is wrong, and what to do."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        remedy = "name the right file: holdfastctl ... --configuration FILE, holdfast-coordinator --config FILE"
        raise Refused(Code.INVALID_SETTINGS, f"{path}: {error.strerror}", remedy=remedy) from error
    except UnicodeDecodeError as error:
        raise _wrong([f"{path} is not UTF-8"]) from error


def parse(text: str) -> Configuration:
    """The configuration of coordinator.toml; Refused with every problem at once."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _wrong([f"not TOML: {error}"]) from error
    problems = list(_problems(values))
    if problems:
        raise _wrong(problems)
    listen = {name: _value(values, "listen", name) for name in TABLES["listen"]}
    peers = _value(values, "peers", "ask")
    return Configuration(
        coordinator_id=values["coordinator_id"],
        database_url=values["database"]["url"],
        fleet=_address("listen.fleet", listen["fleet"]),
        join=_address("listen.join", listen["join"]),
        probes=_address("listen.probes", listen["probes"]),
        admin_socket=Path(listen["admin_socket"]),
        admin=_address("listen.admin", listen["admin"]) if listen["admin"] else None,
        coordinators=_address("listen.coordinators", listen["coordinators"]) if listen["coordinators"] else None,
        peers=tuple(_address("peers.ask", place.strip()) for place in peers.split(",") if place),
        connections_per_address=int(listen["connections_per_address"]),
        certificate=values["tls"]["certificate"],
        key=values["tls"]["key"],
        keys_directory=Path(values["keys"]["directory"]),
        token_key=values["keys"]["token"],
        roots=read_roots(_value(values, "trust", "root_key_ids"), int(_value(values, "trust", "root_threshold"))),
        value_shapes=_value(values, "secrets", "value_shapes"),
        storage=read_access(values.get("storage", {})),
        settings=CoordinatorSettings.from_mapping(values.get("settings", {})),
    )


def trust_table(pins: PinnedRootKeys) -> str:
    """As it stands in a file."""
    return f"""
[trust]
# The cluster's root keys: what another coordinator or an owner hands over is believed where they lead to it.
root_key_ids = "{", ".join(pins.key_ids)}"
root_threshold = {pins.threshold}
"""


def file_of(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The file that a key's name stands for."""
    if not name.startswith(CREDENTIAL):
        return Path(name)
    directory = environment.get("CREDENTIALS_DIRECTORY")
    if not directory:
        remedy = f"start the service with LoadCredential={name.removeprefix(CREDENTIAL)}"
        raise Refused(Code.INVALID_SETTINGS, f"{name}: the service was given no credentials", remedy=remedy)
    return Path(directory) / name.removeprefix(CREDENTIAL)


def _problems(values: Mapping[str, object]) -> Iterator[str]:
    known = ["coordinator_id", *TABLES, "storage", "settings"]
    yield from (_unknown(name, known) for name in values if name not in known)
    if not forms.IDENTIFIER.takes(values.get("coordinator_id")):
        yield "coordinator_id must be an id: a-z 0-9 . _ -"
    for table, members in TABLES.items():
        yield from _problems_of_table(table, members, values.get(table, {}))
    yield from access_faults(values.get("storage", {}))
    if not isinstance(values.get("settings", {}), dict):
        yield "settings must be a table"


def _problems_of_table(table: str, members: Collection[str], value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{table} must be a table"
        return
    known = [f"{table}.{name}" for name in members]
    yield from (_unknown(f"{table}.{name}", known) for name in value if name not in members)
    for name in members:
        given = value.get(name, OPTIONAL.get((table, name)))
        if given is None:
            yield f"{table}.{name} is missing"
        elif (table, name) in RANGES:
            least, most = RANGES[table, name]
            if not forms.integer(least, most).takes(given):
                yield f"{table}.{name} must be an integer from {least} to {most}"
        elif given != OPTIONAL.get((table, name)) and not _TEXT.takes(given):
            yield f"{table}.{name} must be text"


def _unknown(name: str, known: Sequence[str]) -> str:
    if name in _AGENTS:
        return f"{name} is an agent's setting, coordinator_id a coordinator's: two daemons, each with a file of its own"
    near = difflib.get_close_matches(name, known, 1)
    return f"{name} is no key" + (f"; did you mean {near[0]}?" if near else "")


def _value(values: Mapping[str, Any], table: str, name: str) -> str:
    return str(values.get(table, {}).get(name, OPTIONAL.get((table, name))))


def read_roots(key_ids: str, threshold: int) -> PinnedRootKeys:
    """As they stand in a file."""
    found = tuple(name for text in key_ids.split(",") if (name := text.strip()))
    if not all(map(is_hash, found)):
        raise _wrong(["trust.root_key_ids must be sha256:..., separated by commas"])
    if threshold > len(set(found)):
        raise _wrong([f"trust.root_threshold is {threshold}, and root_key_ids names {len(set(found))}"])
    return PinnedRootKeys(tuple(dict.fromkeys(found)), threshold)


def _address(name: str, text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= MAX_PORT:
        raise _wrong([f"{name} must be host:port, as 0.0.0.0:7443 or [::]:7443"])
    return Address(host.strip("[]"), int(port))


def _wrong(problems: Sequence[str]) -> Refused:
    return Refused(Code.INVALID_SETTINGS, "; ".join(problems), remedy="correct coordinator.toml")

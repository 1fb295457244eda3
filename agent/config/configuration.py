"""`agent.toml`: what the operator says, read once, strictly (protocol.md 5; rules A14, J39, K2, K4, K8, K9).

    load(path)      Settings, or ConfigurationError with every problem
    Settings        the tables, one dataclass each; units stand in the names of the keys

A node has `[coordinator]` or `[manual]`, never both. Nothing here decides: that is for whoever reads it.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from agent.config import patterns
from agent.config.check_address import FORM, CheckAddress, read_address
from agent.config.credentials import JOIN_TOKEN, credential
from agent.config.peer_certificate import FORM as CERTIFICATE_FORM
from agent.config.peer_certificate import read_certificate
from agent.config.toml_form import (
    ConfigurationError,
    TomlForm,
    absolute_path,
    array,
    boolean,
    file_mode,
    inline_table,
    named_tables,
    number,
    of_form,
    read_table,
    setting,
    tables,
    that,
    unknown,
    words,
)
from agent.config.units import Verb, is_unit
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD, SCOPE_TYPES
from snapshot.limits import Limits
from snapshot.manifest import MOST_PROBATION_S
from snapshot.mirrors import MOST_CERTIFICATES, MirrorTls
from wire import forms

__all__ = ["AgentSettings", "ConfigurationError", "load", "parse"]

MINUTE, HOUR, DAY = 60, 3_600, 86_400
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TOKEN_VARIABLE = "HOLDFAST_TOKEN_PATH"
DEFAULT_TOKEN = Path("/etc/holdfast/join.token")
MOST_BOOTSTRAP_PEERS = 16

_IDENTIFIER = of_form(forms.IDENTIFIER, "an id (lower-case letters, digits, '.', '_', '-')")
_URL = of_form(forms.ENDPOINT, "https://host:port and nothing more")
_SHA256 = of_form(forms.HASH, "sha256: and 64 hex digits")
_ACCOUNT = of_form(forms.text(64, 1), "the name of an account")
_UNIT = that(is_unit, "the name of a systemd unit")
_WORD = that(lambda value: bool(value) and forms.CONTENT.takes(value), "a word")
_SCOPE = TomlForm(patterns.check_pattern, patterns.FORM)


@frozen(kw_only=True)
class NodeTable:
    """Who the node is. A `witness` holds no services (rules J27)."""

    cluster_id: str = setting(_IDENTIFIER, about="The cluster that the node belongs to.")
    node_id: str = setting(
        _IDENTIFIER, about="The node's own name. It is its identity, with its pinned certificate; an address never is."
    )
    kind: str = setting(words("data", "witness"), "data", "As what it joins. A `witness` holds no services.")
    state_directory: Path = setting(
        absolute_path,
        Path("/var/lib/holdfast"),
        "All that the agent keeps: identity, store, floors. Its own account's alone, 0700.",
    )
    direct_url: str | None = setting(
        _URL, None, "Where other nodes reach this one. Left out: it is not reached by others."
    )
    certificate_lifetime_s: int = setting(
        number(DAY, 10 * 365 * DAY), 4 * 365 * DAY, "How long the certificate that the node makes for itself is good."
    )
    certificate_renewal_percent: int = setting(
        number(10, 95), 80, "The share of that lifetime after which it is renewed."
    )


@frozen(kw_only=True)
class CoordinatorTable:
    """Where the coordinators are. `join_urls`: their listeners that ask for no certificate, where they differ."""

    urls: tuple[str, ...] = setting(
        array(_URL, 1), about="The coordinators, asked in this order; beside them those that the cluster declares."
    )
    join_urls: tuple[str, ...] = setting(
        array(_URL, 1), (), "Their listeners that ask for no client certificate, in the same order, where they differ."
    )
    ca_file: Path = setting(
        absolute_path,
        about="The CA that the server's chain must end at, until the node holds a signed list of CAs: then that list "
        "alone is believed. The system's own are never used.",
    )
    token_file: Path | None = setting(
        absolute_path,
        None,
        "The join token, 0600 or 0400. Left out: the file that `HOLDFAST_TOKEN_PATH` names, else "
        "`/etc/holdfast/join.token`, else the credential `holdfast.join-token`.",
    )


@frozen(kw_only=True)
class MapEntry:
    """A source of a manual map (rules K5..K7): where, what its server has to show (one of `ca_file`, `system_roots` and
    `certificates`), and whether it is asked unattended.
    """

    url: str = setting(_URL, about="The source.")
    ca_file: Path | None = setting(absolute_path, None, "The CA that the server's chain must end at.")
    system_roots: bool = setting(
        boolean, False, "Its chain ends at a CA that the machine itself believes: a public file server."
    )
    certificates: tuple[str, ...] = setting(
        array(_SHA256),
        (),
        "The SHA-256 of certificates (DER) of which the server shows one, whatever name and dates that bears; "
        "at most 8.",
    )
    automatic_refresh: bool = setting(boolean, False, "Whether it is asked unattended.")

    @property
    def tls(self) -> MirrorTls | None:
        """None where a file says it."""
        if self.ca_file is not None:
            return None
        return MirrorTls(system_roots=self.system_roots, certificates=frozenset(self.certificates))


@frozen(kw_only=True)
class ManualPeer:
    """`[[manual.peer]]`: another node of a manual map (rules K5..K7), known by its own certificate. Each of the two has
    an entry for the other one, and of the two at most one refreshes automatically.
    """

    node_id: str = setting(_IDENTIFIER, about="The peer's own name.")
    certificate: bytes = setting(
        TomlForm(read_certificate, CERTIFICATE_FORM),
        about="Its certificate: whoever shows another one is nobody.",
    )
    type: str = setting(
        words("pull", "allow-pull", "mutual-pull"),
        "mutual-pull",
        "Who fetches: `pull` this node from the peer, `allow-pull` the peer from this node, `mutual-pull` both.",
    )
    url: str | None = setting(_URL, None, "Where it is reached: its `direct_url`. Needed where this node fetches.")
    automatic_refresh: bool = setting(
        boolean,
        False,
        "Whether a full resync from it may start unattended. Left out, what is lost or was never held waits for an "
        "operator (`refresh_required`, `systemctl reload holdfast-agent`); changes of what is held come by themselves. "
        "True on one side of a pair only.",
    )
    site: str | None = setting(
        _IDENTIFIER, None, "Its site: peers of one site may have each other's documents from here. Left out: none."
    )


@frozen(kw_only=True)
class BootstrapPeer:
    """`[[peers.bootstrap]]`: another node that is asked for documents when nobody else gives them."""

    node_id: str = setting(_IDENTIFIER, about="The peer's own name: once that is revoked, it is asked no more.")
    url: str = setting(_URL, about="Where it is reached: its `direct_url`.")
    certificate: bytes = setting(
        TomlForm(read_certificate, CERTIFICATE_FORM),
        about="Its certificate: whoever shows another one is nobody.",
    )
    relay: bool = setting(
        boolean, False, "Whether it is the relay of this node's site: it is asked for documents before coordinators."
    )


@frozen(kw_only=True)
class PeersTable:
    """Other nodes: what they are asked and what they are answered (rules L21, K5, J45). As sources: those of the signed
    `peer_directory`, and those named here, which are asked last and need no directory; of each kind at most so many are
    asked for one document.
    """

    active: int = setting(number(3, 5), 4, "How many peers are asked first: near ones before far ones.")
    warm: int = setting(number(8, 20), 12, "How many are asked where no active one gives what is missing.")
    cold: int = setting(
        number(1, 3),
        3,
        "How many of the others are tried after those, in turn: who failed last, and bootstrap peers that have not "
        "been needed yet.",
    )
    bootstrap: tuple[BootstrapPeer, ...] = setting(
        array(inline_table(BootstrapPeer)), (), "Peers that are known without a directory; at most 16."
    )
    listen: str | None = setting(
        of_form(forms.HOST_PORT, "host:port"),
        None,
        "Where other nodes may ask this one, over TLS with pinned certificates: those that its map names, and nobody "
        "else. Needs `node.direct_url`. Left out: no other node is answered.",
    )
    relay: bool = setting(
        boolean,
        False,
        "Whether this node is a relay of its site: it keeps what it fetches, so that its neighbours have it from here "
        "and not each by itself, and answers `coming` while it fetches. They ask it first where the coordinator "
        "declares it (`relay: true` of the Node), or their own `[[peers.bootstrap]]` does. Needs `listen`.",
    )
    relay_wait_s: int = setting(
        number(0, 3_600),
        300,
        "How long this node waits for a relay that says that it is fetching, before it asks the coordinator itself.",
    )
    relay_bytes: int = setting(
        number(0, 64 * GIB),
        256 * MIB,
        "The most that this node keeps for its neighbours: their heads, and documents that are not its own. "
        "0: nothing.",
    )
    relay_files: int = setting(number(1, 1_000_000), 4_096, "As many heads and documents at most.")
    relay_bytes_per_second: int = setting(
        number(MIB, 16 * GIB),
        16 * MIB,
        "The most that this node hands to other nodes, all of them together; who waits has the same share as others. "
        "The default is an eighth of a gigabit network: a relay has other work on it, and a hundred neighbours have a "
        "change of 5 MiB within half a minute.",
    )
    relay_fetch_bytes_per_hour: int = setting(
        number(MIB, 1_024 * GIB),
        256 * MIB,
        "The most that a relay fetches for its neighbours alone, on average: their heads, and what these list and its "
        "own does not. What it is to hold itself is not counted: without it each neighbour would fetch that over the "
        "same link. The default is what a link of 512 kbit/s carries in an hour; for a metered one say less.",
    )


@frozen(kw_only=True)
class StorageWriter:
    """`[[storage.writers]]`: a coordinator that may bring here what it publishes."""

    coordinator_id: str = setting(_IDENTIFIER, about="Its name, as the log tells it.")
    certificate: bytes = setting(
        TomlForm(read_certificate, CERTIFICATE_FORM),
        about="Its identity: what `holdfastctl show-certificate` prints on its machine.",
    )


@frozen(kw_only=True)
class StorageTable:
    """What a node of the role `storage_config` keeps of all that is published, and serves to nodes (`StorageEndpoint`
    with its `node`): its shard, as the signed `storage_directory` says.
    """

    listen: str | None = setting(
        of_form(forms.HOST_PORT, "host:port"),
        None,
        "Where nodes find the files, over TLS with this node's own certificate. Left out: nothing is kept or served.",
    )
    most_bytes: int = setting(number(MIB, 1024 * GIB), 4 * GIB, "The most that is kept; more is refused.")
    most_files: int = setting(number(16, 10_000_000), 262_144, "As many files at most.")
    writers: tuple[StorageWriter, ...] = setting(
        array(inline_table(StorageWriter)), (), "The coordinators that may write here; at most 16."
    )
    copy_bytes_per_s: int = setting(
        number(256 * KIB, GIB),
        16 * MIB,
        "The most that is fetched in a second from the stores that `replicates` of the StorageEndpoint names.",
    )


@frozen(kw_only=True)
class TrustTable:
    """The root keys of the first bundle, pinned by their ids; the bundle itself where it is installed; or first use."""

    root_key_ids: tuple[str, ...] = setting(
        array(_SHA256),
        (),
        "The root keys that the first trust bundle must be signed by. Empty: those that the join token names.",
    )
    root_threshold: int = setting(number(1, 64), 1, "How many of them must have signed it.")
    trust_on_first_use: bool = setting(
        boolean,
        False,
        "Whether, where neither the token nor `root_key_ids` names them, the root keys of the first answer are taken. "
        "Until somebody has confirmed them nothing of high risk is done.",
    )
    bundle_file: Path | None = setting(
        absolute_path, None, "The first trust bundle, where it is installed by hand. Needed with `[manual]`."
    )


@frozen(kw_only=True)
class LocalTable:
    """What local services see: the socket and the projected files. Groups by name; None: the agent's own."""

    socket_path: Path = setting(
        absolute_path,
        Path("/run/holdfast/agent.sock"),
        "The Unix socket of the local API. With a socket unit of systemd, that one's.",
    )
    socket_mode: int = setting(file_mode, 0o660, "The socket's mode.")
    socket_group: str | None = setting(
        _ACCOUNT,
        None,
        "The socket's group, by name. Left out: the agent's own. Without `[access]` it reads all scopes.",
    )
    projection_directory: Path | None = setting(
        absolute_path, Path("/run/holdfast"), "Where active scopes are laid out as files, under `active/`."
    )
    projection_access: str | None = setting(
        words("owner", "group", "scope"),
        None,
        "For whom these files are. `owner`: the agent's account alone, 0700 and 0600. `group`: all of them for "
        "`projection_group`. `scope`: each scope for whom `[access]` lets read it, by POSIX access lists, and the "
        "index for who may read all. Left out: `owner` as soon as there is an `[access]`, else `group`.",
    )
    projection_group: str | None = setting(_ACCOUNT, None, "The group of these files. Left out: the agent's own.")
    projection_file_mode: int = setting(file_mode, 0o640, "The mode of these files.")
    projection_directory_mode: int = setting(file_mode, 0o750, "The mode of their directories.")
    projection_bytes: int = setting(
        number(MIB, 64 * GIB),
        GIB,
        "The most that these files take, those of former generations among them: those go before. Below what is active "
        "and what it replaces together, the files stay as they are (`files_full`), and the socket serves.",
    )
    reload_directory: Path = setting(
        absolute_path,
        Path("/run/holdfast/reload"),
        "Where requests to reload a unit are put, for the units that carry them out; `restart`, `signal` and "
        "`validate` beside it.",
    )
    reload_answers_directory: Path = setting(
        absolute_path, Path("/run/holdfast-reload"), "Where those units put their answers; the other verbs' beside it."
    )
    candidates_directory: Path = setting(
        absolute_path,
        Path("/run/holdfast-candidates"),
        "Where candidates are laid out for `validate_unit`, whose units take them from there. The agent's alone.",
    )
    probes_listen: str | None = setting(
        of_form(forms.HOST_PORT, "host:port"),
        None,
        "A TCP address for `/probe/*` and `/metrics` beside the socket. Left out: the socket alone.",
    )


@frozen(kw_only=True)
class AccessEntry:
    """`[access."<scope pattern>"]`: the users and groups (by name) that may read these scopes."""

    users: tuple[str, ...] = setting(
        array(_ACCOUNT), (), "Users that may read, by name. Places at the socket are kept for them."
    )
    groups: tuple[str, ...] = setting(array(_ACCOUNT), (), "Groups that may read, by name.")
    expired: bool = setting(boolean, False, "Whether they may also read what has expired, with `?expired=allow`.")


@frozen(kw_only=True)
class ServiceLimitsTable:
    """What a service can take of one of its scopes; what is left out, it does not limit."""

    entries: int | None = setting(number(1, 10_000_000), None, "Members of the top level of JSON sections, or files.")
    bytes: int | None = setting(number(1, 4 * GIB), None, "The whole content.")
    removed_percent: int | None = setting(number(0, 100), None, "The share of its entries that may go at a time.")


@frozen(kw_only=True)
class ServiceTable:
    """`[[service]]`: a local service, the scopes that it lives by, how it is asked and how it is told.

    `notify`: `reload`, `restart` and `signal` of the systemd `unit`, `command`, or `none` (it watches). `validate` is a
    command that is given the candidate before it becomes active, and may keep it out; `validate_unit` a unit with the
    rights that it needs. `check`, `check_http` and `unit` are asked afterwards, while new content is on probation.
    """

    name: str = setting(
        _IDENTIFIER, about="The service, as status and the journal name it: its id in the assignment, where it has one."
    )
    scopes: tuple[str, ...] = setting(
        array(_SCOPE, 1), about="The scopes that it lives by. It is told when one of them changes."
    )
    notify: str = setting(
        words("reload", "restart", "signal", "command", "none"),
        "none",
        "How it is told: `reload`, `restart` or `signal` of `unit`, `command`, or `none` where it watches by itself.",
    )
    unit: str | None = setting(
        _UNIT, None, "The systemd unit, which shows whether it runs. Needed for `reload`, `restart` and `signal`."
    )
    signal: str = setting(words("HUP", "USR1", "USR2"), "HUP", "The signal for `signal`.")
    command: tuple[str, ...] = setting(array(_WORD, 1), (), "The command for `command`; no shell reads it.")
    timeout_s: int = setting(number(1, 300), 30, "How long telling may take.")
    check: tuple[str, ...] = setting(
        array(_WORD, 1),
        (),
        "A command that is asked while new content of its scopes is on probation, run as `validate` is: unless it "
        "exits with 0, the node goes back to what was good before.",
    )
    check_http: CheckAddress | None = setting(
        TomlForm(read_address, FORM),
        None,
        "Likewise an address of this machine, asked with GET: unless it answers with 200 to 299, the node goes back.",
    )
    check_interval_s: int = setting(
        number(1, 300), 5, "How often both are asked, first so long after it was told; and how long an answer may take."
    )
    check_coordinator: bool = setting(
        boolean,
        False,
        "Whether the node's way to its coordinators depends on it, as on a firewall or a routing daemon. Then it is a "
        "failed check as well if none of them can be reached any more, where one could be a minute before.",
    )
    probation_s: int | None = setting(
        number(0, MOST_PROBATION_S),
        None,
        "How long new content of its scopes is on probation. Left out: as the change that brings it says.",
    )
    validate: tuple[str, ...] = setting(
        array(_WORD, 1),
        (),
        "A command that sees the candidate's files first; unless it exits with 0, the candidate is refused.",
    )
    validate_unit: str | None = setting(
        _UNIT,
        None,
        "In place of `validate`: `holdfast-validate@<this>.service` runs the command that root names there, as the "
        "account and with the rights that stand there; allowed by enabling `holdfast-validate@<this>.path`.",
    )
    validate_timeout_s: int = setting(
        number(1, 300),
        30,
        "How long it may take. Beyond that the candidate is refused. A unit has its own limit as well (20 s).",
    )
    limits: ServiceLimitsTable | None = setting(
        inline_table(ServiceLimitsTable),
        None,
        "What it can take of each of its scopes: entries (members of the top level of JSON sections, or files), bytes "
        "of content, and the share of its entries that may go at a time. More is refused with `blast_radius`; an "
        "operator who lets a plan pass lifts `removed_percent` alone.",
    )


@frozen(kw_only=True)
class IntervalsTable:
    """Seconds (rules, Numbers)."""

    heartbeat_interval_s: int = setting(number(5, 300), 30, "How often the node reports, give or take a fifth.")
    poll_wait_s: int = setting(number(1, 300), 55, "How long a request for the next head asks to be held.")
    backoff_cap_s: int = setting(
        number(30, 3_600), 300, "The longest pause before a source that failed is asked again."
    )
    head_fresh_s: int = setting(
        number(300, DAY),
        DAY,
        "How long after its `issued_at` a head counts as fresh at most, whatever it says itself. Not below the "
        "coordinator's `head_lifetime_s`, or the node is degraded between two heads.",
    )
    connect_s: int = setting(number(1, 60), 5, "Limit for a connection to be made.")
    silence_s: int = setting(number(5, 300), 30, "Limit for a transfer without progress.")
    local_request_s: int = setting(
        number(1, 300), 15, "Limit for a request on the Unix socket; long polls have their own."
    )


@frozen(kw_only=True)
class LimitsTable:
    """Bytes. `section_bytes` and `content_bytes` are the two limits of format.md 10 that may differ."""

    section_bytes: int = setting(
        number(64 * KIB, 64 * MIB),
        MIB,
        "The largest section. At least the coordinator's, or its documents are refused.",
    )
    content_bytes: int = setting(number(MIB, 4 * GIB), 256 * MIB, "The largest content of one document.")
    map_bytes: int = setting(
        number(256 * MIB, 64 * GIB),
        4 * GIB,
        "The largest that scopes may make the store: address space, not disk that is taken at once. Beside it lie "
        "64 MiB for trust bundles, recoveries and heads, and a sixteenth for collecting garbage.",
    )

    def documents(self) -> Limits:
        return Limits(section_bytes=self.section_bytes, content_bytes=self.content_bytes)


@frozen(kw_only=True)
class LogTable:
    """What the journal is told."""

    level: str = setting(words("debug", "info", "warning", "error"), "info", "What is logged, and all above it.")


@frozen(kw_only=True)
class AgentSettings:
    """Everything. Exactly one of `coordinator` and `manual` is set."""

    node: NodeTable
    coordinator: CoordinatorTable | None = None
    manual: tuple[MapEntry, ...] | None = None
    manual_peers: tuple[ManualPeer, ...] = ()
    trust: TrustTable = field(default_factory=TrustTable)
    local: LocalTable = field(default_factory=LocalTable)
    access: Mapping[str, AccessEntry] = field(default_factory=dict)
    services: tuple[ServiceTable, ...] = ()
    peers: PeersTable = field(default_factory=PeersTable)
    storage: StorageTable = field(default_factory=StorageTable)
    intervals: IntervalsTable = field(default_factory=IntervalsTable)
    limits: LimitsTable = field(default_factory=LimitsTable)
    log: LogTable = field(default_factory=LogTable)

    def token_files(self, environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
        """Where a token is looked for, in this order: the configured file alone, if one is; else the one that the
        environment names, the default one, and the credential (rules K14).
        """
        if self.coordinator is not None and self.coordinator.token_file is not None:
            return (self.coordinator.token_file,)
        named = [Path(environment[TOKEN_VARIABLE])] if environment.get(TOKEN_VARIABLE) else []
        given = credential(JOIN_TOKEN, environment)
        return (*named, DEFAULT_TOKEN, *([given] if given else []))


def load(path: Path) -> AgentSettings:
    """The settings of a file; ConfigurationError names the file."""
    try:
        return parse(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError([f"{path}: {error.strerror}"]) from error
    except ConfigurationError as error:
        raise ConfigurationError([f"{path}: {problem}" for problem in error.problems]) from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigurationError([f"{path}: {error}"]) from error


_SINGLE = {
    "node": NodeTable,
    "coordinator": CoordinatorTable,
    "trust": TrustTable,
    "local": LocalTable,
    "peers": PeersTable,
    "storage": StorageTable,
    "intervals": IntervalsTable,
    "limits": LimitsTable,
    "log": LogTable,
}
_OTHERS = ("manual", "access", "service")
# What makes a coordinator of a daemon stands in its own file (rules K8, K9).
_COORDINATORS_OWN = ("coordinator_id", "role", "database", "listen", "tls", "keys", "settings")


def parse(value: Mapping[str, object]) -> AgentSettings:
    """The settings of a parsed TOML document; ConfigurationError with all that is wrong."""
    problems = _foreign(value)
    known = [*_SINGLE, *_OTHERS]
    problems += [unknown(key, known, "") for key in value if key not in known and key not in _COORDINATORS_OWN]
    given: dict[str, object] = {
        name: read_table(cls, value[name], name, problems) for name, cls in _SINGLE.items() if name in value
    }
    if "manual" in value:
        given["manual"], given["manual_peers"] = _manual(value["manual"], problems)
    given["access"] = _access(value.get("access", {}), problems)
    given["services"] = tables(ServiceTable, value.get("service", []), "service", problems)
    problems += [] if "node" in value else ["[node] is missing: it says which node of which cluster this is"]
    if problems:
        raise ConfigurationError(problems)
    settings = AgentSettings(**given)  # type: ignore[arg-type]
    problems = _at_odds(settings)
    if problems:
        raise ConfigurationError(problems)
    return settings


def _manual(value: object, problems: list[str]) -> tuple[tuple[MapEntry, ...], tuple[ManualPeer, ...]]:
    """`[[manual.source]]` and `[[manual.peer]]` (rules K2, K3, K6)."""
    if not isinstance(value, dict) or value.keys() - {"source", "peer"}:
        problems.append("[manual] holds [[manual.source]] and [[manual.peer]] tables and nothing else")
        return (), ()
    sources = tables(MapEntry, value.get("source", []), "manual.source", problems)
    return sources, tables(ManualPeer, value.get("peer", []), "manual.peer", problems)


def _access(value: object, problems: list[str]) -> Mapping[str, AccessEntry]:
    entries = named_tables(AccessEntry, value, "access", problems)
    for name in entries:
        try:
            patterns.check_pattern(name, (*SCOPE_TYPES, HEAD))  # the head is read as scopes are
        except ValueError as error:
            problems.append(f'access."{name}" {error}')
    return entries


def _foreign(value: Mapping[str, object]) -> list[str]:
    return [
        f"{key} makes a coordinator and [node] makes an agent: a coordinator has a file and a daemon of its own"
        for key in value
        if key in _COORDINATORS_OWN
    ]


def _at_odds(settings: AgentSettings) -> list[str]:
    """What single keys cannot tell (rules J39, K2)."""
    problems = []
    if (settings.coordinator is None) == (settings.manual is None):
        both = "both are" if settings.manual is not None else "neither is"
        problems.append(f"a node has [coordinator] or [manual], and {both} there")
    if settings.manual is not None and settings.trust.bundle_file is None:
        problems.append("[manual] needs trust.bundle_file: without a coordinator the first trust bundle is a file")
    problems += [problem for entry in settings.manual or () for problem in _entry_at_odds(entry)]
    problems += _manual_peers_at_odds(settings)
    problems += _peers_at_odds(settings)
    if settings.peers.listen is not None and settings.node.direct_url is None:
        problems.append("peers.listen needs node.direct_url: that is where other nodes are told to reach this one")
    if settings.peers.relay and settings.peers.listen is None:
        problems.append("peers.relay needs peers.listen: that is where its neighbours ask it")
    if settings.limits.section_bytes > settings.limits.content_bytes:
        problems.append("limits.section_bytes must not exceed limits.content_bytes")
    if settings.trust.root_threshold > max(1, len(settings.trust.root_key_ids)):
        problems.append("trust.root_threshold must not exceed the number of trust.root_key_ids")
    local = settings.local
    if settings.access and local.projection_group is not None and local.projection_access is None:
        problems.append(
            "local.projection_group would give all files to a group beside [access]: say so "
            '(projection_access = "group"), name "scope", or leave the group out'
        )
    problems += [problem for service in settings.services for problem in _service_at_odds(service)]
    names = [service.name for service in settings.services]
    problems += [f"service {name} is there twice" for name in sorted({n for n in names if names.count(n) > 1})]
    return problems


def _entry_at_odds(entry: MapEntry) -> Iterator[str]:
    given = sum((entry.ca_file is not None, entry.system_roots, bool(entry.certificates)))
    if given != 1:
        how_many = "more than one is" if given else "none is"
        yield f"manual.source {entry.url} needs one of ca_file, system_roots and certificates, and {how_many} there"
    if len(entry.certificates) > MOST_CERTIFICATES:
        yield f"manual.source {entry.url} has {len(entry.certificates)} certificates, at most {MOST_CERTIFICATES}"


def _manual_peers_at_odds(settings: AgentSettings) -> Iterator[str]:
    named = settings.manual_peers
    for peer in named:
        what, fetches = f"manual.peer {peer.node_id}", peer.type != "allow-pull"
        if fetches and peer.url is None:
            yield f'{what} has type = "{peer.type}" and no url: this node is to fetch from it'
        if not fetches and peer.automatic_refresh:
            yield f'{what} has automatic_refresh and type = "allow-pull": this node fetches nothing from it'
        if peer.type != "pull" and settings.peers.listen is None:
            yield f'{what} has type = "{peer.type}", and nobody listens: set peers.listen, or type = "pull"'
    ids, ders = [peer.node_id for peer in named], [peer.certificate for peer in named]
    yield from (f"manual.peer {name} is there twice" for name in sorted({name for name in ids if ids.count(name) > 1}))
    if settings.node.node_id in ids:
        yield f"manual.peer {settings.node.node_id} is this node itself"
    if len(set(ders)) < len(ders):
        yield "manual.peer: two peers have the same certificate, which is one node's alone"


def _peers_at_odds(settings: AgentSettings) -> Iterator[str]:
    named = settings.peers.bootstrap
    if len(named) > MOST_BOOTSTRAP_PEERS:
        yield f"peers.bootstrap names {len(named)} peers, at most {MOST_BOOTSTRAP_PEERS}"
    ids = [peer.node_id for peer in named]
    yield from (f"peers.bootstrap names {name} twice" for name in sorted({name for name in ids if ids.count(name) > 1}))
    if settings.node.node_id in ids:
        yield f"peers.bootstrap names {settings.node.node_id}, which is this node itself"


def _service_at_odds(service: ServiceTable) -> list[str]:
    if service.notify in set(Verb) and service.unit is None:
        return [f'service {service.name}: notify = "{service.notify}" needs a unit']
    if service.notify == "command" and not service.command:
        return [f'service {service.name}: notify = "command" needs a command']
    if service.validate and service.validate_unit is not None:
        return [f"service {service.name}: it has validate or validate_unit, and both are there"]
    return []

"""What `holdfast join FILE` would write: decided here, from the file and the configuration that is there; nothing is
written.

A configuration without a node keeps every line that it has, and tables are put behind them; one that names a node is
not touched, and has to agree.
"""

import json
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.awaited import ABOUT_A_NODE
from agent.config.configuration import AgentSettings, parse
from snapshot.identifiers import is_id
from wire.invitation import Invitation

DEFAULT_STATE = Path("/var/lib/holdfast")
_FIRST = re.compile(r"^\[trust\][ \t]*(#.*)?$", re.MULTILINE)


class DisagreesError(Exception):
    """The file and this node do not fit each other; the text names what, and the remedy."""


@dataclass(frozen=True)
class JoinPlan:
    """`configuration`: its new text, or None where it stays."""

    settings: AgentSettings
    token_file: Path
    ca_file: Path
    configuration: str | None = None
    pins_roots: bool = True


def plan(path: Path, text: str, invitation: Invitation, node_id: str | None, state: Path | None) -> JoinPlan:
    """`text`: of the configuration at `path`, empty where there is none. `node_id`: None for the node's own, or its
    host's name. DisagreesError; ConfigurationError.
    """
    value = tomllib.loads(text)
    if any(name in value for name in ABOUT_A_NODE):
        return _of_a_node(path, parse(value), invitation, node_id)
    _check_trust(path, value, invitation)
    made = _with_tables(path, text, invitation, node_id or _host_name(), state)
    settings = parse(tomllib.loads(made))
    if settings.coordinator is None:
        raise AssertionError("the tables name a coordinator")
    return JoinPlan(settings, settings.token_files()[0], settings.coordinator.ca_file, made)


def _of_a_node(path: Path, settings: AgentSettings, invitation: Invitation, node_id: str | None) -> JoinPlan:
    node = settings.node
    if settings.coordinator is None:
        raise DisagreesError(f"{path} has a manual map and no [coordinator]: such a node joins nobody")
    if node.cluster_id != invitation.cluster_id:
        further = "give a further agent of this machine its own with --config /etc/holdfast/agent-NAME.toml"
        raise DisagreesError(
            f"{path} is for the cluster {node.cluster_id}, the file for {invitation.cluster_id}; {further}"
        )
    if node_id not in (None, node.node_id):
        raise DisagreesError(
            f"{path} is for the node {node.node_id}, the file for {node_id}; bring the file to that one"
        )
    pinned = set(settings.trust.root_key_ids)
    if pinned and pinned != set(invitation.root_key_ids):
        raise DisagreesError(f"{path} pins other root keys than the file names; find out which are right: trust show")
    return JoinPlan(settings, settings.token_files()[0], settings.coordinator.ca_file, pins_roots=bool(pinned))


def _host_name() -> str:
    name = socket.gethostname().partition(".")[0].lower()
    if not is_id(name):
        raise DisagreesError(f"the host name {name!r} is no node id (a-z 0-9 . _ -); give one with --node-id")
    return name


def _check_trust(path: Path, value: dict[str, object], invitation: Invitation) -> None:
    trust = value.get("trust", {})
    named = trust.get("root_key_ids", []) if isinstance(trust, dict) else []
    if named and set(named) != set(invitation.root_key_ids):
        raise DisagreesError(f"{path} pins other root keys than the file names; find out which are right: trust show")


def _with_tables(path: Path, text: str, invitation: Invitation, node_id: str, state: Path | None) -> str:
    name = path.stem.removeprefix("agent").removeprefix("-")  # of a further agent on this machine
    suffix = f"-{name}" if name else ""
    folder = state or (Path(f"{DEFAULT_STATE}{suffix}") if name else None)
    node = {"cluster_id": invitation.cluster_id, "node_id": node_id}
    node |= {} if folder is None else {"state_directory": str(folder)}
    coordinator = {
        "urls": list(invitation.urls),
        "join_urls": list(invitation.join_urls),
        "ca_file": str(path.parent / f"ca{suffix}.pem"),
        "token_file": str(path.parent / f"join{suffix}.token"),
    }
    tables = [
        f"# By `holdfast join`, of {invitation.cluster_id}.",
        _table("node", node),
        _table("coordinator", coordinator),
    ]
    pins = _lines({"root_key_ids": list(invitation.root_key_ids), "root_threshold": invitation.root_threshold})
    if "root_key_ids" in tomllib.loads(text).get("trust", {}):
        pins = ""
    found = _FIRST.search(text)
    if pins and found is not None:
        text = f"{text[: found.end()]}\n{pins.rstrip()}{text[found.end() :]}"
    elif pins:
        tables.append(f"[trust]\n{pins}")
    head = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{head}\n" * bool(head) + "\n".join(tables)


def _table(name: str, members: Mapping[str, object]) -> str:
    return f"[{name}]\n{_lines(members)}"


def _lines(members: Mapping[str, object]) -> str:
    """Texts, numbers and lists of texts in TOML are as in JSON."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in members.items())  # noqa: TID251 - TOML, no document

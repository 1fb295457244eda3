"""One node of the demonstration: its disk, its agent as a process, and what a user on the node may ask."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo import commands
from examples.demo.coordinator import CLUSTER, Coordinator
from examples.demo.processes import Processes
from holdfast.client import Client, HoldfastError, Permission

CONFIGURATION = """\
[node]
cluster_id = "{cluster}"
node_id = "{node_id}"
state_directory = "{folder}/state"

[coordinator]
urls = ["{url}"]
join_urls = ["{join_url}"]
ca_file = "{ca_file}"
token_file = "{folder}/join.token"

[local]
socket_path = "{folder}/run/agent.sock"
projection_directory = "{folder}/run"
reload_directory = "{folder}/run/reload"
reload_answers_directory = "{folder}/run/reload-answers"

[intervals]
heartbeat_interval_s = 5
backoff_cap_s = 30
"""
ANSWERS_S = 30.0  # also on a machine that has other work; where nobody listens that is said at once


@dataclass
class Node:
    node_id: str
    folder: Path
    processes: Processes

    def configure(self, coordinator: Coordinator, more: str = "") -> None:
        """Directories and agent.toml; `more` is appended."""
        (self.folder / "state").mkdir(parents=True, mode=0o700)
        (self.folder / "run").mkdir()
        text = CONFIGURATION.format(
            cluster=CLUSTER,
            node_id=self.node_id,
            folder=self.folder,
            url=coordinator.url,
            join_url=coordinator.join_url,
            ca_file=coordinator.ca_file,
        )
        self.configuration.write_text(text + more)

    def start(self) -> None:
        self.processes.start(self.node_id, [commands.program("holdfast-agent"), "--config", self.configuration])

    def kill(self) -> None:
        self.processes.kill(self.node_id)

    def lose_what_was_in_memory(self) -> None:
        """After a power cut /run is empty: it is a file system in memory."""
        shutil.rmtree(self.folder / "run")
        (self.folder / "run").mkdir()

    def join(self, token_file: Path) -> None:
        """What an operator types on the node; it returns once the node is a member."""
        self.run("join", "--config", self.configuration, "--token-file", token_file)

    def run(self, command: str, *arguments: object) -> str:
        return commands.run("holdfast", command, *arguments, environment=self.environment)

    def status(self) -> dict[str, Any]:
        """Empty while nobody answers."""
        try:
            return self._client.status()
        except HoldfastError:
            return {}

    def may(self, action: str, **about: Any) -> Permission:  # noqa: ANN401 - as the client takes it
        return self._client.may(action, **about)

    def version(self, scope: str) -> int:
        """0 while it holds none."""
        active = self.status().get("scopes", {}).get(scope, {}).get("active")
        return int(active["config_version"]) if active else 0

    def in_words(self) -> str:
        """For whoever wants to know why something does not come about."""
        status = self.status()
        found = [f"{self.node_id} is {status.get('state', 'not running')}"]
        for name, scope in status.get("scopes", {}).items():
            refused = scope["last_rejected"]
            why = f" (refused: {refused['reason']})" if refused else ""
            found.append(f"{name} {scope['active']['config_version'] if scope['active'] else '-'}{why}")
        return ", ".join(found)

    def signer(self, scope: str) -> str:
        """The key that signed what is active."""
        return str(self.status()["scopes"][scope]["active"]["signer_key_id"])

    def signers(self, scope: str) -> list[str]:
        """Every key that signed the document that brought what is active."""
        envelope = self._client.document(scope)["envelope"]
        return [envelope["signer_key_id"], *envelope.get("cosigner_key_ids", ())]

    def refused(self, scope: str) -> str:
        """Why the last document of a scope was refused."""
        refused = self.status().get("scopes", {}).get(scope, {}).get("last_rejected")
        return str(refused["reason"]) if refused else ""

    def counter(self, name: str) -> int:
        return int(self.status()["counters"].get(name, 0))

    def versions(self) -> dict[str, int]:
        """Of every scope that is active, by its name."""
        scopes = self.status().get("scopes", {})
        return {name: int(each["active"]["config_version"]) for name, each in scopes.items() if each["active"]}

    def scope_types(self) -> set[str]:
        """Of all that is active: a service has a scope of its own, `service_assignment/<id>`."""
        return {name.partition("/")[0] for name in self.versions()}

    def served(self, scope: str) -> dict[str, bytes]:
        """What the agent answers to whoever asks for a scope: its sections."""
        return {name: section.data for name, section in self._client.sections(scope)}

    def what_may_prints(self, action: str, *about: object) -> str:
        """`holdfast may`, as a person asks; it exits with 1 for a no."""
        try:
            return self.run("may", action, *about)
        except commands.CommandFailed as refused:
            return refused.said.removeprefix("exit 1: ")

    def files_shown(self) -> object:
        """Which generation the files show, and what keeps them from being newer."""
        return self.status().get("files")

    def entries(self, scope: str) -> dict[str, Any]:
        """What services on the node read: the scope's entries by id, from the files."""
        found: dict[str, Any] = {}
        for path in (self.files / scope.replace("/", "@")).glob("*.json"):
            found |= json.loads(path.read_bytes())
        return found

    @property
    def configuration(self) -> Path:
        return self.folder / "agent.toml"

    @property
    def socket(self) -> Path:
        return self.folder / "run" / "agent.sock"

    @property
    def identity(self) -> Path:
        """Its key and certificate, PEM."""
        [path] = (self.folder / "state").rglob("node.pem")
        return path

    @property
    def files(self) -> Path:
        return self.folder / "run" / "active"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOLDFAST_SOCKET": str(self.socket), "HOLDFAST_FILES": str(self.files)}

    @property
    def _client(self) -> Client:
        return Client(self.socket, self.files, timeout_s=ANSWERS_S)

"""The coordinator of the demonstration: made by `holdfastctl init`, run by `holdfast-coordinator`, on SQLite."""

import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from examples.demo import commands
from examples.demo.processes import Processes

CLUSTER = "fabric"
NAME = "coordinator"
HEAD_LIFETIME_S = 10  # the least that a coordinator takes
CHANGES = Path(__file__).with_name("changes")

# A head is good for half an hour as a rule. Here it is good for seconds, so that its end can be waited for.
MORE_CONFIGURATION = f"""
[settings]
head_lifetime_s = {HEAD_LIFETIME_S}
short_lifetimes = true
poll_after_s = 5
heartbeat_interval_s = 5
"""


@dataclass
class Coordinator:
    folder: Path
    processes: Processes
    fleet_port: int
    join_port: int

    @property
    def url(self) -> str:
        return f"https://localhost:{self.fleet_port}"

    @property
    def join_url(self) -> str:
        return f"https://localhost:{self.join_port}"

    @property
    def ca_file(self) -> Path:
        return self.folder / "state" / "tls" / "ca.pem"

    @property
    def root_keys(self) -> Path:
        return self.folder / "root-keys"

    @property
    def keys(self) -> Path:
        return self.folder / "state" / "keys"

    @property
    def database(self) -> Path:
        return self.folder / "state" / "coordinator.db"

    @property
    def socket(self) -> Path:
        return self.folder / "admin.sock"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOLDFAST_ADMIN_SOCKET": str(self.socket)}

    def init(self) -> str:
        self.folder.mkdir()
        made = self._ctl(
            "init", CLUSTER, "--url", self.url, "--state", self.folder / "state", "--root-keys-to", self.root_keys,
            "--configuration", self._configuration, "--listen", f"127.0.0.1:{self.fleet_port}",
            "--listen-join", f"127.0.0.1:{self.join_port}", "--listen-probes", "127.0.0.1:0",
            "--admin-socket", self.socket,
        )  # fmt: skip
        self._configuration.write_text(self._configuration.read_text() + MORE_CONFIGURATION)
        return made

    def start(self) -> None:
        self.processes.start(NAME, [commands.program("holdfast-coordinator"), "--config", self._configuration])

    def answers(self) -> bool:
        """Whether somebody listens where operators ask."""
        with socket.socket(socket.AF_UNIX) as asking:
            return asking.connect_ex(str(self.socket)) == 0

    def kill(self) -> None:
        self.processes.kill(NAME)

    def reload(self) -> None:
        self.processes.send(NAME, signal.SIGHUP)

    def apply(self, *places: Path) -> str:
        return self._ctl("apply", *(word for place in places for word in ("-f", place)), "--yes")

    def prune(self, *places: Path) -> str:
        """As if these were all that is declared."""
        files = (word for place in places for word in ("-f", place))
        return self._ctl("apply", *files, "--prune", "--drop-endpoints", "--yes")

    def change(self, name: str, **values: object) -> str:
        """One of the files in changes/, its $names filled in."""
        filled = self.folder / name
        filled.write_text(Template((CHANGES / name).read_text()).substitute(values))
        return self.apply(filled)

    def show(self, change: str) -> str:
        return self._ctl("changes", "show", change)

    def invite(self, node_id: str, token_file: Path) -> None:
        self._ctl("allow", "add", node_id)
        self._ctl("tokens", "create", "--node", node_id, "--out", token_file)

    def rotate(self, *arguments: object) -> str:
        return self._ctl("rotate", *arguments, "--root-key", self.root_keys, "--yes")

    def ask(self, *arguments: object) -> Any:  # noqa: ANN401 - JSON
        return commands.run_json("holdfastctl", *arguments, environment=self.environment)

    @property
    def _configuration(self) -> Path:
        return self.folder / "coordinator.toml"

    def _ctl(self, *arguments: object) -> str:
        return commands.run("holdfastctl", *arguments, environment=self.environment)

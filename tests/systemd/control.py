"""A coordinator's side of one cluster: its operator; and how any daemon's socket is asked."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.systemd.machines import Machine, MachineError

APPLIES = 5


@dataclass
class Control:
    """A coordinator's side of one cluster: its operator."""

    machine: Machine
    cluster: str
    state: str
    port: int
    socket: str
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ctl(self, *words: str) -> str:
        """As root, on the coordinator."""
        return self.machine.good("env", f"HOLDFAST_ADMIN_SOCKET={self.socket}", "holdfastctl", *words)

    def apply(self, text: str) -> None:
        """All that is declared of the fabric."""
        with self._lock:
            self.machine.write("/srv/declared.yaml", text)
            self._apply("/srv/declared.yaml")

    def apply_folder(self, files: Mapping[str, str]) -> None:
        """Files that lie together, beside what is declared already."""
        with self._lock:
            for name, text in files.items():
                self.machine.write(f"/srv/folder/{name}", text)
            self._apply("/srv/folder")

    def _apply(self, place: str) -> None:
        """One at a time. One that a node's join comes between is refused, and rightly so: it is made again."""
        for _ in range(APPLIES):
            try:
                self.ctl("apply", "-f", place, "--yes")
                return
            except MachineError as error:
                refused = error
                if "concurrent_update" not in str(error):
                    break
        raise refused

    @property
    def certificate(self) -> str:
        """The fingerprint of the one that it shows; empty while it does not serve."""
        return str(self.status.get("certificate", {}).get("sha256", ""))

    @property
    def status(self) -> dict[str, Any]:
        """As `holdfastctl status --json` prints it; empty while it does not serve."""
        return fetch(self.machine, self.socket, "/v1/status")

    @property
    def ca(self) -> str:
        return (self.machine.root / self.state.lstrip("/") / "tls" / "ca.pem").read_text()


def fetch(machine: Machine, socket: str, path: str, user: str = "") -> dict[str, Any]:
    """The JSON that a daemon answers on its socket; empty where there is no answer, or a refusal."""
    asked = ("curl", "--silent", "--fail", "--max-time", "30", "--unix-socket", socket, f"http://localhost{path}")
    ran = machine.run(*asked, user=user)
    if ran.status != 0:
        return {}
    found: dict[str, Any] = json.loads(ran.out)
    return found

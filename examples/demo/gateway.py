"""The supervised service of the ingress node: Debian's nginx where it is installed, else a Python service."""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from examples.demo.processes import Processes
from examples.gateway.gateway import nginx_configuration

EXAMPLE = Path(__file__).resolve().parents[1] / "gateway"
PYTHON_GATEWAY = EXAMPLE / "python_gateway.py"
SCOPES = ["route_policy", "service_assignment/*"]
NAME = "gateway"


@dataclass(frozen=True)
class Gateway:
    """`nginx` is empty where there is none. `shown`: the host that has to be answered after a change."""

    home: Path
    files: Path
    port: int
    nginx: str
    shown: str

    @property
    def what(self) -> str:
        return "nginx" if self.nginx else "the Python gateway"

    @property
    def listen(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def configuration(self) -> Path:
        """What it runs on."""
        return self.home / "gateway.conf"

    def service_table(self) -> str:
        """For agent.toml: who judges a change before it becomes active, is told of it, and says whether all is well."""
        words: dict[str, object] = {
            "scopes": SCOPES,
            "validate": self._command("check"),
            "command": self._command("apply"),
        }
        words["check"] = [*self._command("ask"), "--host", self.shown]
        lines = [f"{name} = {json.dumps(value)}" for name, value in words.items()]
        return "\n".join(
            ["\n[[service]]", f'name = "{NAME}"', 'notify = "command"', "check_interval_s = 1", *lines, ""]
        )

    def start(self, processes: Processes) -> None:
        """With no routes yet: it answers 404 to everything."""
        self.home.mkdir()
        configuration = self.configuration
        if self.nginx:
            configuration.write_text(nginx_configuration([], self.home, self.listen))
            options = ["-c", configuration, "-p", self.home, "-e", self.home / "error.log", "-g", "daemon off;"]
            processes.start(NAME, [self.nginx, *options])
        else:
            configuration.write_text("[]")
            processes.start(NAME, [sys.executable, PYTHON_GATEWAY, "--listen", self.listen, "--home", self.home])

    def _command(self, what: str) -> list[str]:
        program = ["--nginx", self.nginx] if self.nginx else ["--python-gateway", str(PYTHON_GATEWAY)]
        places = ["--home", str(self.home), "--files", str(self.files), "--listen", self.listen]
        return [sys.executable, "-I", str(EXAMPLE / "gateway.py"), what, *places, *program]


def find_nginx() -> str:
    """Debian puts it where an ordinary user's PATH does not reach."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin") or ""

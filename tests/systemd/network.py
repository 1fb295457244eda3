"""One Ethernet switch for the machines, in a network namespace of its own: this machine's network is not touched.

The namespace lives as long as the process that holds it; with that process and the machines everything is gone.
"""

import subprocess
from dataclasses import dataclass, field

BRIDGE = "br0"
PREFIX_BITS = 24


@dataclass
class Switch:
    """Machines hang on it by nspawn's own virtual cable, `vb-<machine>`."""

    _holder: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        held = ["unshare", "--net", "sh", "-c", "echo here; exec sleep infinity"]
        self._holder = subprocess.Popen(held, stdout=subprocess.PIPE, start_new_session=True)
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        self._ip("link", "add", BRIDGE, "type", "bridge")
        self._ip("link", "set", BRIDGE, "up")

    @property
    def inside(self) -> list[str]:
        """What a command is prefixed with to run in the switch's namespace."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--"]

    def unplug(self, machine: str) -> None:
        """Frames vanish; the machine's own link stays up, so it learns of nothing."""
        self._ip("link", "set", f"vb-{machine}", "nomaster")

    def plug(self, machine: str) -> None:
        self._ip("link", "set", f"vb-{machine}", "master", BRIDGE)

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()

    def _ip(self, *words: str) -> None:
        subprocess.run([*self.inside, "ip", *words], check=True, capture_output=True, text=True)

"""Debian machines under systemd-nspawn, systemd as PID 1: booted, entered, switched off, and their power cut.

No machined, no systemd and no D-Bus is asked of this machine. A machine writes to a tmpfs above its tree (overlayfs),
so its tree stays as it was made; what it wrote outlives its power, and is gone with `remove`.
"""

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.systemd.network import BRIDGE, PREFIX_BITS, Switch

BOOT_S, POWER_OFF_S, COMMAND_S = 180.0, 60.0, 240.0
UP = ("running", "degraded")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
HYBRID, UNIFIED = Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup")

# The cable's end is given its address as an installer would have configured it: early, before network.target.
NETWORK_UNIT = """\
[Unit]
DefaultDependencies=no
Before=network.target network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip address add {address}/{bits} dev host0
ExecStart=ip link set host0 up
"""


class MachineError(Exception):
    """A machine or a command in it did not do what it should; the text has what it said."""


class Stopped(Exception):
    """The test is being ended; whoever waits for something goes."""


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str


@dataclass
class Machine:
    """`folder` is its own; `hosts` are lines for /etc/hosts."""

    name: str
    tree: Path
    address: str
    switch: Switch
    folder: Path
    stopping: threading.Event
    _nspawn: subprocess.Popen[bytes] | None = None
    _leader: int = 0
    _groups: list[Path] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """Its files, as this machine sees them; also while it is off."""
        return self.folder / "root"

    @property
    def entrance(self) -> str:
        """A shell in it, for people."""
        return f"nsenter --target={self._leader} --all"

    @property
    def console(self) -> str:
        return (self.folder / "console").read_text(errors="replace")

    def make(self, hosts: str) -> None:
        """Its disk, with what an administrator would have set."""
        self.folder.mkdir(parents=True)
        mount("-t", "tmpfs", "-o", "size=1g", "tmpfs", str(self.folder))
        for name in ("root", "changes", "work"):
            (self.folder / name).mkdir()
        layers = f"lowerdir={self.tree},upperdir={self.folder / 'changes'},workdir={self.folder / 'work'}"
        mount("-t", "overlay", "overlay", "-o", layers, str(self.root))
        self.write("/etc/hostname", f"{self.name}\n")
        self.write("/etc/hosts", f"127.0.0.1 localhost\n{hosts}")
        self.write("/etc/machine-id", f"{uuid.uuid4().hex}\n")
        network = NETWORK_UNIT.format(address=self.address, bits=PREFIX_BITS)
        self.write("/etc/systemd/system/cable.service", network)
        (self.root / "etc/systemd/system/multi-user.target.wants/cable.service").symlink_to("../cable.service")
        (self.root / "var/log/journal").mkdir(exist_ok=True)

    def boot(self) -> None:
        """Until systemd says that it is up."""
        self._groups = _control_groups(self.name)
        enter = [f"echo $$ > {group}/cgroup.procs" for group in self._groups]
        options = ["--quiet", "--boot", "--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off"]
        place = [f"--directory={self.root}", f"--machine={self.name}", f"--network-bridge={BRIDGE}"]
        shell = ["sh", "-c", " && ".join([*enter, 'exec "$@"']), "sh"]
        terminal, theirs = pty.openpty()
        self._nspawn = subprocess.Popen(
            [*shell, *self.switch.inside, "systemd-nspawn", *options, *place],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        threading.Thread(target=_drain, args=(terminal, self.folder / "console"), daemon=True).start()
        self.until(self._is_up, BOOT_S, f"{self.name} to boot")

    def run(self, *command: str, user: str = "", stdin: str = "", timeout_s: float = COMMAND_S) -> Ran:
        """As root or as an account with all of its groups; never raises for what the command says."""
        switched = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        try:
            done = subprocess.run(
                ["nsenter", f"--target={self._leader}", "--all", "--", *switched, *command],
                input=stdin, capture_output=True, text=True, errors="replace", env=ENVIRONMENT, timeout=timeout_s,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as expired:
            raise MachineError(f"{self.name}: {' '.join(command)} did not end in {timeout_s:.0f} s") from expired
        return Ran(done.returncode, done.stdout, done.stderr)

    def good(self, *command: str, user: str = "", stdin: str = "", timeout_s: float = COMMAND_S) -> str:
        """What it printed; MachineError unless it succeeds."""
        ran = self.run(*command, user=user, stdin=stdin, timeout_s=timeout_s)
        if ran.status != 0:
            said = f"{ran.out[-3000:]}\n{ran.err[-3000:]}".strip()
            raise MachineError(f"{self.name}: {' '.join(command)[:200]}: exit {ran.status}\n{said}")
        return ran.out

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def until(self, holds: Callable[[], object], within_s: float, what: str, every_s: float = 0.1) -> None:
        end = time.monotonic() + within_s
        while not holds():
            if self._nspawn is None or self._nspawn.poll() is not None:
                raise MachineError(f"{self.name} is gone:\n{self.console[-3000:]}")
            if time.monotonic() > end:
                raise MachineError(f"{self.name}: waited {within_s:.0f} s in vain for {what}")
            if self.stopping.wait(every_s):
                raise Stopped

    def cut_power(self) -> None:
        """SIGKILL to PID 1 and thereby to everything in it. What it had written stays, as page caches do."""
        os.kill(self._leader, signal.SIGKILL)
        assert self._nspawn is not None
        self._nspawn.wait(POWER_OFF_S)
        self._gone(POWER_OFF_S)

    def end(self) -> None:
        """Everything in it, now, from whatever thread; whoever waits for a command in it is told."""
        for group in self._groups:
            _kill_all_in(group)

    def remove(self) -> None:
        """Switched off by force, and its disk."""
        if self._nspawn is not None:
            self._gone(POWER_OFF_S)
        unmount_below(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_up(self) -> bool:
        assert self._nspawn is not None
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children")
        with contextlib.suppress(OSError, LookupError, MachineError):
            self._leader = int(children.read_text().split()[0])
            return self.run("systemctl", "is-system-running", timeout_s=10).out.strip() in UP
        return False

    def _gone(self, within_s: float) -> None:
        """Its control groups too: nspawn itself, killed, would leave its machine running."""
        assert self._nspawn is not None
        for group in self._groups:
            _remove_group(group)
        self._nspawn.wait(within_s)
        self._nspawn, self._leader = None, 0


def _control_groups(name: str) -> list[Path]:
    """A group of its own in each hierarchy that systemd uses: two machines would else share one."""
    tops = [UNIFIED] if (UNIFIED / "cgroup.controllers").exists() else [HYBRID, UNIFIED / "unified"]
    groups = [top / f"holdfast-{name}" for top in tops]
    for group in groups:
        _remove_group(group)  # what a run left that was killed
        group.mkdir()
    return groups


def _remove_group(group: Path) -> None:
    """With all that is in it, which may take a moment to go."""
    for _ in range(100):
        _kill_all_in(group)
        try:
            for folder in [*_below(group), group]:
                folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return


def _kill_all_in(group: Path) -> None:
    for folder in [*_below(group), group]:
        with contextlib.suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def _below(group: Path) -> list[Path]:
    return sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)


def _drain(terminal: int, log: Path) -> None:
    """The console is read to its end, or the machine would wait for a reader."""
    with contextlib.suppress(OSError), log.open("ab") as file:
        while data := os.read(terminal, 65536):
            file.write(data)
            file.flush()
    os.close(terminal)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True, text=True)


def unmount_below(folder: Path) -> None:
    """Everything that is mounted at or below it, the innermost first."""
    for place in sorted(_mounts(folder), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


def _mounts(folder: Path) -> Iterator[str]:
    top = str(folder)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        place = line.split()[1]
        if place == top or place.startswith(f"{top}/"):
            yield place

"""A whole machine with a disk of its own, emulated by QEMU without hardware's help, and its serial line.

What it had not written to its disk when its power goes is lost, as in a real one.
"""

import contextlib
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROMPT = rb"root@guest[^#\n]*# "
BOOT_S, COMMAND_S = 900.0, 600.0
KERNEL = ("linux-image-cloud-amd64", "initramfs-tools", "udev", "kmod", "e2fsprogs")
DISK_MIB = 2000
AUTOLOGIN = "[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear ttyS0 dumb\n"
GETTY = "etc/systemd/system/serial-getty@ttyS0.service.d/login.conf"


class GuestError(Exception):
    """It did not say what it should; the text has what it said."""


class Guest:
    """Booted to a root shell. `folder` has disk.img, vmlinuz and initrd.img, as `image` makes them."""

    def __init__(self, folder: Path) -> None:
        drive = f"file={folder}/disk.img,if=virtio,format=raw,cache=writeback"
        machine = ["-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max", "-smp", "2", "-m", "1024"]
        kernel = ["-kernel", f"{folder}/vmlinuz", "-initrd", f"{folder}/initrd.img"]
        line = ["-append", "root=/dev/vda rw console=ttyS0 panic=-1 quiet"]
        quiet = ["-nic", "none", "-nographic", "-monitor", "none", "-no-reboot"]
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "qemu-system-x86_64", *machine, *kernel, *line, "-drive", drive, *quiet],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
        )  # fmt: skip
        self._seen = b""
        try:
            self.until(PROMPT, BOOT_S)
            self.run("bind 'set enable-bracketed-paste off' 2> /dev/null; stty -echo cols 500")
        except BaseException:
            self.cut_power()
            raise

    def until(self, pattern: bytes, within_s: float) -> bytes:
        """All that it printed up to and with the pattern."""
        assert self._process.stdout is not None
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            if found := re.search(pattern, self._seen):
                out, self._seen = self._seen[: found.end()], self._seen[found.end() :]
                return out
            if select.select([self._process.stdout], [], [], 1)[0]:
                data = os.read(self._process.stdout.fileno(), 65536)
                if not data:
                    break
                self._seen += data
        raise GuestError(f"{pattern!r} is not in {self._seen[-3000:].decode(errors='replace')}")

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def run(self, command: str, within_s: float = COMMAND_S) -> str:
        """What the command printed; GuestError unless it succeeds."""
        self.send(f"{command}; echo exit=$?")
        out = self.until(rb"exit=(\d+)\r?\n(.|\r|\n)*?" + PROMPT, within_s).decode(errors="replace")
        said, _, rest = out.rpartition("exit=")
        if not rest.startswith("0"):
            raise GuestError(f"{command}: exit {rest.split()[0]}\n{said[-3000:]}")
        return said.replace("\r\n", "\n")

    def cut_power(self) -> bytes:
        """The last that it said."""
        self._process.kill()
        assert self._process.stdout is not None
        rest = self._seen + self._process.stdout.read()
        self._process.wait()
        return rest


@contextlib.contextmanager
def image(tree: Path, folder: Path) -> Iterator[Path]:
    """A copy of the tree to prepare; at the end of the block it becomes disk.img, vmlinuz and initrd.img."""
    root = folder / "root"
    subprocess.run(["cp", "-a", str(tree), str(root)], check=True)
    (root / GETTY).parent.mkdir(parents=True)
    (root / GETTY).write_text(AUTOLOGIN)
    (root / "etc/hostname").write_text("guest\n")
    yield root
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy(next((root / "boot").glob(f"{name}-*")), folder / name)
    disk = folder / "disk.img"
    command = ["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(disk), f"{DISK_MIB}M"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)

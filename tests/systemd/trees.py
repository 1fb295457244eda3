"""Debian trees to boot, made once and kept: by suite, package list and mirrors, below ~/.cache/holdfast/trees.

The mirrors are those that this machine's apt is configured with, with the suite put in their place.
"""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

# What a machine of the test has besides what the packages depend on.
SYSTEM = (
    *("systemd", "systemd-sysv", "dbus", "iproute2", "procps", "libfaketime"),
    *("nginx", "haproxy", "unbound", "dns-root-data", "prometheus", "curl"),  # the programs of examples/consumers
)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class TreeError(Exception):
    """The tree cannot be made; the text says what is missing."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / "trees"


def tree(suite: str, packages: Iterable[str], folder: Path | None = None) -> Path:
    """The tree of a suite with these packages and all that they depend on; made where it is not there yet."""
    folder = folder or cache()
    wanted, sources = sorted({*SYSTEM, *packages}), mirrors(suite)
    place = folder / f"{suite}-{_key(wanted, sources)}"
    if not place.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _make(place, suite, wanted, sources)
        _forget_others(place, suite)
    return place


def mirrors(suite: str) -> list[str]:
    """sources.list lines for the suite, from what apt says of this machine's own."""
    here = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [line.split() for line in dict.fromkeys(asked.stdout.splitlines())]
    releases = {here: suite, f"{here}-updates": f"{suite}-updates", f"{here}-security": f"{suite}-security"}
    lines = [
        f"deb [signed-by={KEYRING}] {uri} {releases[release]} {component}"
        for uri, release, component in found
        if release in releases and component == "main"
    ]
    if not lines:
        raise TreeError(f"apt on this machine has no source for Debian's {here or 'release'}: see sources.list(5)")
    return lines


def _key(packages: list[str], sources: list[str]) -> str:
    return hashlib.sha256("\n".join([*packages, "", *sources]).encode()).hexdigest()[:12]


def _make(place: Path, suite: str, packages: list[str], sources: list[str]) -> None:
    """Aside, and moved into place when it is whole."""
    new = place.with_name(f".{place.name}.{os.getpid()}")
    how = ("--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io")  # nothing to lose before it is whole
    command = ["mmdebstrap", "--quiet", *how, f"--include={','.join(packages)}"]
    try:
        made = subprocess.run(
            [*command, suite, str(new)], input="\n".join(sources) + "\n", capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            raise TreeError(f"no tree for {suite}: {made.stderr[-2000:].strip()}")
        new.rename(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _forget_others(place: Path, suite: str) -> None:
    """An older package list of the same suite is of no use any more."""
    for other in place.parent.glob(f"{suite}-*"):
        if other != place:
            shutil.rmtree(other, ignore_errors=True)

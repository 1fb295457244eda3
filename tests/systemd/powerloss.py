"""Coordinator and agent in an emulated machine whose power is really lost: python -m tests.systemd.powerloss. Root.

Again and again something new is declared; at a moment of chance, while the next change is on its way, the machine is
gone, with all that was not on its disk. After the next boot the agent must serve what it last served, or newer.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.systemd import arrival
from tests.systemd.debs import AGENT, COORDINATOR, CTL, Packages
from tests.systemd.guest import KERNEL, Guest, GuestError, image
from tests.systemd.lab import CLUSTER, DECLARED, FABRIC, NEWEST
from tests.systemd.trees import TreeError, cache, tree

NODE = "guest"
FIRST_PORT = 8001
CHANGES = 4
WITHIN_S = 900.0
# An emulated processor is some fifty times slower: what is meant for a real one says nothing about it.
PATIENT = "[Service]\nTimeoutStartSec=15min\nTimeoutStopSec=5min\nWatchdogSec=5min\n"


def main() -> int:
    asked = _arguments()
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-powerloss-", dir="/var/tmp") as name:
            folder = Path(name)
            _make(Packages.found(asked.packages), folder)
            _say("image", began)
            _lose_power(folder, asked.times, random.Random(asked.seed))
    except (TreeError, FileNotFoundError, GuestError, AssertionError) as error:
        print(f"FAILED: {error}", flush=True)
        return 1
    except KeyboardInterrupt:
        sys.exit("systemd-test-qemu: interrupted")
    _say("all of it", began)
    return 0


def _lose_power(folder: Path, times: int, dice: random.Random) -> None:
    served = 0
    for number in range(times + 1):
        began = time.monotonic()
        guest = Guest(folder)
        try:
            _say(f"boot {number}", began)
            _check_after_boot(guest, served) if number else _begin(guest)
            if number < times:
                served = _change_until_cut(guest, max(served + 1, FIRST_PORT), dice)
        finally:
            guest.cut_power()


def _begin(guest: Guest) -> None:
    """The node joins, by a token, and is given its first configuration."""
    began = time.monotonic()
    for unit in (COORDINATOR, AGENT):
        guest.run(f"systemctl start {unit} || {{ journalctl --no-pager --lines=20 --unit={unit}; false; }}")
    guest.run("holdfastctl apply -f /srv/fabric.yaml --yes")
    guest.run(f"holdfastctl allow add {NODE} && holdfastctl tokens create --node {NODE} --out /srv/join.token")
    guest.run("holdfast join --wait 600 --token-file /srv/join.token")
    _say("joined", began)


def _change_until_cut(guest: Guest, first: int, dice: random.Random) -> int:
    """The last port that was served."""
    began = time.monotonic()
    guest.send(f"python3 /srv/changes.py {first}")
    guest.until(rb"served %d\r?\n" % (first + CHANGES - 1), WITHIN_S)
    time.sleep(dice.uniform(0, 1.5))
    rest = guest.cut_power()
    served = max([first + CHANGES - 1, *map(int, re.findall(rb"served (\d+)\r?\n", rest))])
    _say(f"power lost after {served} was served", began)
    return served


def _check_after_boot(guest: Guest, served: int) -> None:
    began = time.monotonic()
    found = re.search(r"served (\d+)", guest.run("python3 /srv/changes.py --once"))
    if found is None or int(found[1]) < served:
        raise GuestError(f"{served} was served before the power was lost, and now {found and found[1]}")
    guest.run("holdfast store check")
    guest.run("holdfast status --wait 600")
    _say(f"it serves {found[1]}, and its store is whole", began)


def _make(packages: Packages, folder: Path) -> None:
    """The machine's disk: both packages, a cluster that has begun, and an agent that knows its coordinator."""
    names = (CTL, COORDINATOR, AGENT)
    base = tree(NEWEST, {*packages.depends(names), *KERNEL}, cache() / "qemu")
    with image(base, folder) as root:
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost coordinator {NODE}\n")
        for name in names:
            (root / "srv" / packages.file(name).name).write_bytes(packages.file(name).read_bytes())
        _inside(root, "dpkg", "--install", *(f"/srv/{packages.file(name).name}" for name in names))
        (root / "usr/sbin/policy-rc.d").unlink()
        # As a running system has it from tmpfiles.d: `init` gives what it makes to the owner of this folder.
        state = "/var/lib/holdfast-coordinator"
        _inside(root, "install", "-d", "-m", "0700", "-o", COORDINATOR, "-g", COORDINATOR, state)
        begin = ("holdfastctl", "init", CLUSTER, "--url", "https://coordinator:7443")
        _inside(root, *begin, "--root-keys-to", "/srv/roots")
        _write_files(root)


def _write_files(root: Path) -> None:
    for unit in (AGENT, COORDINATOR):
        drop_in = root / f"etc/systemd/system/{unit}.service.d/patient.conf"
        drop_in.parent.mkdir()
        drop_in.write_text(PATIENT)
    text = arrival.AGENT_TOML.format(cluster=CLUSTER, node=NODE, port=7443, join_port=7444, more="")
    (root / "etc/holdfast/agent.toml").write_text(text)
    ca = (root / "var/lib/holdfast-coordinator/tls/ca.pem").read_text()
    (root / f"etc/holdfast/{CLUSTER}-ca.pem").write_text(ca)
    (root / "srv/fabric.yaml").write_text(FABRIC.format(cluster=CLUSTER, port=7443))
    (root / "srv/declared.yaml").write_text(DECLARED.replace("{node}", NODE).replace("{{", "{").replace("}}", "}"))
    (root / "srv/changes.py").write_text(Path(__file__).with_name("changes.py").read_text())


def _inside(root: Path, *command: str) -> None:
    done = subprocess.run(["chroot", str(root), *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GuestError(f"{' '.join(command)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")


def _say(what: str, began: float) -> None:
    print(f"{what:64} {time.monotonic() - began:5.1f} s", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.systemd.powerloss", description=__doc__)
    parser.add_argument("--packages", type=Path, default=Path("build/deb"), help="where the .deb files are")
    parser.add_argument("--times", type=int, default=2, help="how often the power is lost")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

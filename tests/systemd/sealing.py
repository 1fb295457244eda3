"""What a coordinator gets from others lies on its disk sealed to its machine, by the account and in the sandbox of its
unit (rules H4); and where systemd cannot do that for an account that is not root, in a file of mode 0600.

The secrets are lost, and an owner of the seed brings them back: so they come by the service's own hand.
"""

import base64
import json
import shutil
from pathlib import Path

from tests.systemd.arrival import OWNER, install, journal_of, until_serving
from tests.systemd.debs import COORDINATOR, CTL
from tests.systemd.lab import WITHIN_S, Lab, Node
from tests.systemd.machines import Machine
from tests.systemd.step import Each, Once, check

UNIT, ACCOUNT, STATE = "holdfast-coordinator", "holdfast-coordinator", "/var/lib/holdfast-coordinator"
SEALED, PLAIN = ("seed.cred", "config-*.pem.cred"), ("seed", "config-*.pem")
HOST = ("etc/machine-id", "var/lib/systemd/credential.secret")
DOES_NOT_OPEN, NOT_SEALED = "a sealed secret does not open here", "a secret is not sealed"

# As the daemon keeps what came to it. What its package depends on beside this is not in Debian 12.
KEEP = """\
import os
from pathlib import Path
from coordinator.keys import seed
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.signing_key import SigningKey
own = OwnSecrets(Path(os.environ["STATE_DIRECTORY"]), os.environ)
own.keep_seed(seed.Seed.generate())
own.keep_key(SigningKey.generate())
again = OwnSecrets(own.directory, {})
assert again.seed() is not None and len(again.config_keys()) == 1
"""
KEEPER = """\
[Service]
Type=oneshot
Environment=PYTHONPATH=/opt/coordinator NOTIFY_SOCKET=/run/systemd/notify
ExecStart=python3 /opt/keep.py
User=holdfast
UMask=0077
StateDirectory=kept
StateDirectoryMode=0700
"""


def secrets_that_come_back_are_sealed_to_the_machine(lab: Lab) -> None:
    """And are nowhere else in what the coordinator has; its nodes go on, and get what comes next."""
    machine, keys = lab.coordinator, lab.coordinator.root / STATE.lstrip("/") / "keys"
    seed = json.loads((keys / "seed").read_text())
    machine.good("systemctl", "stop", UNIT)
    _take_away(keys)
    machine.good("systemctl", "start", UNIT)
    recover(lab)
    names = sorted(path.name for path in keys.iterdir())
    check(_found(keys, SEALED) == [1, 1] and _found(keys, PLAIN) == [0, 0], f"the keys are {names}")
    modes = {oct(path.stat().st_mode & 0o777) for path in keys.iterdir()}
    check(modes == {"0o600"}, f"of modes {modes}")
    lying = [path for path in keys.parent.rglob("*") if path.is_file()]
    secret = [form for name in ("seed", "salt") for form in _forms(bytes.fromhex(seed[name]))]
    found = [str(path) for path in lying if any(form in path.read_bytes() for form in secret)]
    check(found == [], f"in clear in {found}")
    mesh_key = [path.name for path in keys.glob("*.cred") if b"PRIVATE" in path.read_bytes()]
    check(mesh_key == [], f"in clear in {mesh_key}")
    check(NOT_SEALED not in journal_of(machine, UNIT), "it says that a secret is not sealed")


def sealed_secrets_open_again_after_a_restart(lab: Lab) -> None:
    machine = lab.coordinator
    machine.good("systemctl", "restart", UNIT)
    until_serving(lab.control)
    standing = json.loads(lab.control.ctl("coordinators", "status", "--json"))["coordinators"]
    check([each["state"] for each in standing] == ["ready"], f"it is {standing}")
    check(DOES_NOT_OPEN not in journal_of(machine, UNIT), "one does not open")
    lab.control.ctl("audit", "verify")


def nodes_go_on_under_the_new_key(lab: Lab, node: Node) -> None:
    node.agent.declare_next()
    node.agent.until_current()
    node.agent.until_in("active")


def sealed_secrets_do_not_open_on_another_machine(lab: Lab) -> None:
    """All of its state, and its configuration, in a machine that is made ready for it; but with the key of the machine,
    which lies on the same disk, they do: without a TPM a copy of the whole disk is as good as the machine.
    """
    machine, other = lab.coordinator, lab.spare
    other.boot()
    install(other, lab.packages, CTL, COORDINATOR)
    machine.good("systemctl", "stop", UNIT)
    for folder in (STATE, "/etc/holdfast"):
        shutil.copytree(machine.root / folder[1:], other.root / folder[1:], dirs_exist_ok=True)
    other.good("chown", "--recursive", f"{ACCOUNT}:{ACCOUNT}", STATE)
    machine.good("systemctl", "start", UNIT)
    until_serving(lab.control)
    check(_readiness(other, "start") == 503, "it is ready")
    said = journal_of(other, UNIT)
    check(said.count(DOES_NOT_OPEN) == len(SEALED), said)
    other.good("systemctl", "stop", "systemd-creds.socket")
    for name in HOST:
        (other.root / name).unlink(missing_ok=True)
        shutil.copy2(machine.root / name, other.root / name)
    other.good("systemctl", "start", "systemd-creds.socket")
    check(_readiness(other, "restart") == 200, journal_of(other, UNIT))
    other.remove()


def what_no_account_may_seal_is_a_file_of_its_own(lab: Lab, node: Node) -> None:
    """Before systemd 256, and so on Debian 12: in a file that only the account reads, and the log says so."""
    machine = node.machine
    machine.good("rm", "-rf", "/opt/coordinator", "/opt/unpacked")
    (machine.root / "srv/coordinator.deb").write_bytes(lab.packages.file(COORDINATOR).read_bytes())
    machine.good("dpkg-deb", "--extract", "/srv/coordinator.deb", "/opt/unpacked")
    (place,) = machine.good("find", "/opt/unpacked", "-type", "d", "-path", "*/coordinator/keys").split()
    machine.good("cp", "-r", str(Path(place).parent.parent), "/opt/coordinator")
    machine.write("/opt/keep.py", KEEP)
    machine.write("/etc/systemd/system/keep.service", KEEPER)
    machine.good("systemctl", "daemon-reload")
    machine.good("systemctl", "start", "keep.service")
    kept, said = machine.root / "var/lib/kept", journal_of(machine, "keep.service")
    version = int(machine.good("systemd-creds", "--version").split()[1])
    can_seal = version >= 256
    check(_found(kept, SEALED if can_seal else PLAIN) == [1, 1], f"{[path.name for path in kept.iterdir()]}: {said}")
    check(_found(kept, PLAIN if can_seal else SEALED) == [0, 0], f"{[path.name for path in kept.iterdir()]}: {said}")
    check({path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}, "others may read it")
    check(said.count(NOT_SEALED) == (0 if can_seal else len(PLAIN)), said)
    machine.good("rm", "-rf", "/opt/coordinator", "/opt/unpacked", "/opt/keep.py", "/etc/systemd/system/keep.service")
    machine.good("systemctl", "daemon-reload")


STEPS = (
    Once(secrets_that_come_back_are_sealed_to_the_machine),
    Once(sealed_secrets_open_again_after_a_restart),
    Each(nodes_go_on_under_the_new_key),
    Once(sealed_secrets_do_not_open_on_another_machine),
    Each(what_no_account_may_seal_is_a_file_of_its_own),
)


def recover(lab: Lab) -> None:
    """By an owner's share and root keys, as docs/operating.md says it."""
    roots, request = f"/srv/roots-{lab.control.cluster}", "/srv/recover.json"
    until_serving(lab.control)
    brought = ("--share", f"{roots}/owner.share", "--key", OWNER)
    lab.control.ctl("coordinators", "recover", *brought, "--request", request, "--yes")
    lab.control.ctl("trust", "sign", request, "--root-key", roots, "--yes")
    lab.control.ctl("coordinators", "commit", request)


def _take_away(keys: Path) -> None:
    for pattern in PLAIN:
        for path in keys.glob(pattern):
            path.unlink()


def _found(folder: Path, patterns: tuple[str, ...]) -> list[int]:
    return [len(list(folder.glob(pattern))) for pattern in patterns]


def _forms(secret: bytes) -> tuple[bytes, ...]:
    return secret, secret.hex().encode(), base64.b64encode(secret)[:-4]


def _readiness(machine: Machine, verb: str) -> int:
    """After it is started, or is started anew; what it answers once it has looked."""
    machine.good("systemctl", verb, UNIT)
    asked = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}")
    url = "http://127.0.0.1:9465/probe"
    started = lambda: machine.run(*asked, f"{url}/startup").out == "200"  # noqa: E731
    machine.until(started, WITHIN_S, "the coordinator to look about", every_s=0.3)
    return int(machine.run(*asked, f"{url}/readiness").out)

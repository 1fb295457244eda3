"""A secret of this machine alone: sealed by `systemd-creds`, with the host's key, and the TPM where there is one (H4).

    keys/seed.cred    what `keys/seed` would hold; a copy of the state opens nothing on another machine

The host's key is a file, too (/var/lib/systemd/credential.secret): without a TPM a copy of the whole disk opens what
lies on it. What that keeps is a copy of the state alone, as a backup, a volume or a snapshot of it would be.

The service seals what it gets from another coordinator or an owner (own_secrets.py), and not an operator's files.
What was sealed is opened again before it counts. Where that does not work, as for the account of a service before
systemd 256, whose tool is root's alone, the file is a plain one of mode 0600, and the log says so. There the service
manager can be given a sealed file instead (LoadCredentialEncrypted=).

Secrets go through pipes: never through arguments, which everybody may read.

Rejected: the kernel's keyring, which a restart of the machine empties; and TPM libraries of our own beside systemd's.
"""

import os
import subprocess
from functools import lru_cache
from pathlib import Path

from coordinator.keys.acting import as_owner_of
from coordinator.keys.signing_key import private_bytes
from wire.logs import log

SUFFIX = ".cred"
TOOL = "systemd-creds"
_DEADLINE_S = 30.0  # a TPM takes its time

_said: dict[Path, str] = {}  # why a file does not open, as it stands in the log: each attempt finds the same


class SealError(Exception):
    """The tool is not there, or refuses; the text says why, and holds no secret."""


def sealed_form(path: Path) -> Path:
    """Where the sealed form of a file lies."""
    return path.with_name(path.name + SUFFIX)


def names_in(directory: Path) -> list[str]:
    """What lies there sealed, by the names of what is sealed."""
    return sorted(path.name.removesuffix(SUFFIX) for path in directory.glob(f"*{SUFFIX}"))


def seal(name: str, data: bytes) -> bytes:
    """For the account that this is. SealError where it does not work, or does not open again."""
    made = _run("encrypt", name, data, os.geteuid())
    if _run("decrypt", name, made, os.geteuid()) != data:
        raise SealError(f"{TOOL}: what it has sealed opens as something else")
    return made


def find(path: Path) -> bytes | None:
    """What the sealed form of a file holds; None where there is none, or it opens on another machine alone."""
    place = sealed_form(path)
    with as_owner_of(place.parent):
        if not place.is_file():
            return None
        found = place.stat()
        made = private_bytes(place)
    try:
        opened = _open(place.name.removesuffix(SUFFIX), made, found.st_uid)
    except SealError as error:
        if _said.get(place) != str(error):
            _said[place] = str(error)
            log.error("a sealed secret does not open here", file=str(place), reason=str(error))  # noqa: TRY400 - no trace needed
        return None
    _said.pop(place, None)
    return opened


@lru_cache(maxsize=64)
def _open(name: str, made: bytes, owner: int) -> bytes:
    """Remembered, so a TPM is asked once for each file; and not that it failed, which may pass."""
    return _run("decrypt", name, made, owner)


def _run(verb: str, name: str, data: bytes, owner: int) -> bytes:
    """`owner`: whose secret it is. That of another account than root is bound to it, and opened for it."""
    whose = [] if owner == 0 else ["--user"] if owner == os.geteuid() else [f"--uid={owner}"]
    command = [TOOL, *whose, f"--name={name}", verb, "-", "-"]
    try:
        done = subprocess.run(  # noqa: S603 - our own words, and no shell
            command, input=data, capture_output=True, timeout=_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SealError(f"{TOOL}: {type(error).__name__}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SealError(f"{TOOL} {verb}: {said[-1] if said else f'exit status {done.returncode}'}")
    return done.stdout

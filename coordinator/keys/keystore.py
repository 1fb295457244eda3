"""Where private keys lie, and which of them sign (rules S40; threats D-61).

Each key is a file of its own, 0600, named by its purpose and its id, so that a root key can go elsewhere alone.
Config keys are found in the coordinator's own directory and in the credentials that the service manager has given it.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coordinator.keys import sealing, signing_key
from coordinator.keys.acting import as_owner_of
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from snapshot.bundle import CONFIG, ROOT
from snapshot.signature import ED25519, RSA_PSS_SHA256

PASSPHRASE_BYTES = 1024
_RSA_BITS = 3072
_SHORT = 12  # hex digits of the id in a file's name
_NAME = re.compile(rf"({ROOT}|{CONFIG})-[0-9a-f]{{{_SHORT}}}\.pem", re.ASCII)


def new_key(algorithm: str = ED25519) -> SigningKey:
    if algorithm == RSA_PSS_SHA256:
        return SigningKey.of(rsa.generate_private_key(65537, _RSA_BITS))
    if algorithm != ED25519:
        raise UnusableKeyError(f"{algorithm}: use {ED25519} or {RSA_PSS_SHA256}")
    return SigningKey.of(Ed25519PrivateKey.generate())


def file_name(purpose: str, key: SigningKey) -> str:
    return f"{purpose}-{key.key_id.removeprefix('sha256:')[:_SHORT]}.pem"


def keep(directory: Path, purpose: str, key: SigningKey, passphrase: bytes | None = None) -> Path:
    """The key in a new file of its own in a directory that is ours alone; it is on the disk when this returns."""
    path = directory / file_name(purpose, key)
    with as_owner_of(directory):  # what root writes for a service is the service's, which could not read it otherwise
        own_directory(directory)
        signing_key.write_file(path, key, passphrase)
        sync_directory(directory)
    return path


def own_directory(directory: Path) -> None:
    """Make it (0700), or see that it is one account's to write in: ours, or, for root, the service's that it is for."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise UnusableKeyError(f"{directory}: {error.strerror}; choose a directory that this user may write") from None
    if not directory.is_dir() or directory.is_symlink():
        raise UnusableKeyError(f"{directory}: not a directory; choose another path")
    foreign = os.geteuid() != 0 and found.st_uid not in (os.geteuid(), 0)
    if foreign or found.st_mode & 0o022:
        raise UnusableKeyError(f"{directory}: others may write there; chown it to this user and chmod 700")


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_key_file(name: str, purpose: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[1] == purpose


def files(directory: Path, purpose: str) -> list[Path]:
    """The key files of one purpose, by name; none where there is no such directory."""
    try:
        found = sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnusableKeyError(f"{directory}: {error.strerror}; give it to this user") from None
    return [path for path in found if is_key_file(path.name, purpose)]


def config_keys(
    directory: Path | None, environment: Mapping[str, str], passphrase: bytes | None = None
) -> tuple[SigningKey, ...]:
    """Every config key at hand: in the directory, and among the service's credentials; each once."""
    places = [directory] if directory is not None else []
    if environment.get("CREDENTIALS_DIRECTORY"):
        places.append(Path(environment["CREDENTIALS_DIRECTORY"]))
    found = [load(path, passphrase) for place in places for path in files(place, CONFIG)]
    found += [] if directory is None else _sealed_keys(directory)
    return tuple({key.key_id: key for key in found}.values())


def _sealed_keys(directory: Path) -> list[SigningKey]:
    """Those that open on this machine (sealing.py)."""
    places = [directory / name for name in sealing.names_in(directory) if is_key_file(name, CONFIG)]
    found = ((place, sealing.find(place)) for place in places)
    return [signing_key.from_pem(data, name=str(place)) for place, data in found if data is not None]


def load(path: Path, passphrase: bytes | None = None) -> SigningKey:
    """A key file; the passphrase is used only where the file is encrypted."""
    try:
        return signing_key.from_file(path)
    except UnusableKeyError:
        if passphrase is None:
            raise
        return signing_key.from_file(path, passphrase)


def find(places: Iterable[Path], passphrases: Sequence[bytes]) -> list[SigningKey]:
    """The keys of files, and of the root key files in directories; each passphrase is tried where one is needed."""
    paths = [path for place in places for path in (files(place, ROOT) if place.is_dir() else [place])]
    return [_open(path, passphrases) for path in paths]


def is_encrypted(path: Path) -> bool:
    """Whether a passphrase is needed; False for what is no key file at all."""
    try:
        with path.open("rb") as file:
            return is_encrypted_pem(file.read(signing_key.MOST_BYTES))
    except OSError:
        return False


def is_encrypted_pem(data: bytes) -> bool:
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in data


def read_passphrase(path: Path) -> bytes:
    """The first line of a file that is open to nobody else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UnusableKeyError(f"{path}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:
            raise UnusableKeyError(f"{path}: open to others; chmod 600")
        line = file.read(PASSPHRASE_BYTES).split(b"\n", 1)[0].rstrip(b"\r")
    if not line:
        raise UnusableKeyError(f"{path}: its first line is empty; write the passphrase there")
    return line


def _open(path: Path, passphrases: Sequence[bytes]) -> SigningKey:
    for passphrase in (*passphrases, None):
        try:
            return load(path, passphrase)
        except UnusableKeyError as error:
            failure = error
    raise failure

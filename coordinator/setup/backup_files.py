"""What of a coordinator's files a backup holds, by the name of the member, and where each belongs on a machine."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from coordinator.base.refusal import Code, Refused
from coordinator.keys import identity, keystore, sealing, server_certificate
from coordinator.keys import seed as seeds
from coordinator.setup.configuration import CREDENTIAL, Configuration
from snapshot.bundle import CONFIG

CONFIGURATION = "coordinator.toml"
CERTIFICATE, KEY, CA, CA_KEY = "tls/certificate.pem", "tls/key.pem", "tls/ca.pem", "tls/ca-key.pem"
KEYS, TOKEN = "keys", "keys/token.pem"
SEED, CONFIG_KEYS = f"{KEYS}/{seeds.FILE}", f"{KEYS}/config-*.pem"
OWN = {f"{KEYS}/{name}": name for name in (seeds.FILE, identity.FILE)}  # by the member, of the keys' directory


def is_secret(member: str) -> bool:
    return member.startswith(f"{KEYS}/") or member in (KEY, CA_KEY)


def present(at: Configuration, configuration: Path) -> tuple[dict[str, Path], list[str]]:
    """Those that are on this machine, and in words those that are not: they come from the service manager."""
    found, elsewhere = {CONFIGURATION: configuration}, []
    for member, name in ((CERTIFICATE, at.certificate), (KEY, at.key), (TOKEN, at.token_key)):
        if name.startswith(CREDENTIAL):
            elsewhere.append(f"{name} of the service manager")
        else:
            found[member] = Path(name)
    elsewhere += [f"{KEYS}/{name}, sealed to this machine" for name in sealing.names_in(at.keys_directory)]
    found |= {f"{KEYS}/{path.name}": path for path in keystore.files(at.keys_directory, CONFIG)}
    found |= {member: path for member, name in OWN.items() if (path := at.keys_directory / name).is_file()}
    found |= {member: path for member, path in _authority(at) if path.is_file()}
    return found, elsewhere


def name_absent(found: Mapping[str, Path], left_out: Sequence[str], *, has_history: bool) -> list[str]:
    """In words: what a coordinator has and no file of this machine holds, sealed or not: it comes from the service
    manager, or from another coordinator at each start (`keep_secrets = false`).
    """
    wanted = {CONFIG_KEYS: "config-", **({SEED: seeds.FILE} if has_history else {})}
    there = [*found, *left_out]
    return [
        f"{name}, in no file of this machine"
        for name, begin in wanted.items()
        if not any(member.startswith(f"{KEYS}/{begin}") for member in there)
    ]


def lacking(left_out: Sequence[str]) -> list[str]:
    """Of what a backup leaves out: without which of it what is restored signs nothing."""
    return [name.partition(",")[0] for name in left_out if name.startswith((SEED, f"{KEYS}/config-"))]


def places(members: Mapping[str, object], at: Configuration) -> dict[str, Path]:
    """Where each goes, database and configuration aside; Refused where one has no place on this machine."""
    known = {CERTIFICATE: at.certificate, KEY: at.key, TOKEN: at.token_key}
    beside = dict(_authority(at))
    found: dict[str, Path] = {}
    for member in members:
        name = PurePosixPath(member)
        if member in known:
            if not known[member].startswith(CREDENTIAL):  # then it is given from elsewhere
                found[member] = Path(known[member])
        elif member in beside:
            found[member] = beside[member]
        elif member in OWN:
            found[member] = at.keys_directory / OWN[member]
        elif str(name.parent) == KEYS and keystore.is_key_file(name.name, CONFIG):
            found[member] = at.keys_directory / name.name
        else:
            raise Refused(Code.BACKUP_DAMAGED, f"{member!r} has no place here", remedy="use another backup")
    return found


def _authority(at: Configuration) -> Iterator[tuple[str, Path]]:
    if not at.certificate.startswith(CREDENTIAL):
        folder = Path(at.certificate).parent
        yield CA, folder / server_certificate.AUTHORITY
        yield CA_KEY, folder / server_certificate.AUTHORITY_KEY

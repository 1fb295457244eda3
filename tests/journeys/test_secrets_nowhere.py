"""No secret of the coordinators lies anywhere but where it belongs: one test searches for the bytes (rules H4)."""

import base64
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coordinator.keys import identity, keystore, sealed_file
from coordinator.keys import seed as seeds
from coordinator.keys.seed import Seed
from tests.holdfast.operator_lab import Lab

OWN = ("state/keys", "roots", "alice.key")  # where secrets belong


def forms(secret: bytes) -> Iterator[bytes]:
    """As it may stand in a file: raw, in hexadecimal, in base64 wherever that begins."""
    yield secret
    yield secret.hex().encode()
    for before in range(3):
        whole = base64.b64encode(bytes(before) + secret)
        yield whole[4 if before else 0 : -4]


def raw_key(pem: bytes) -> bytes:
    private = serialization.load_pem_private_key(pem, None)
    if isinstance(private, ec.EllipticCurvePrivateKey):
        return private.private_numbers().private_value.to_bytes(32, "big")
    return private.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )


def secrets_of(seed: Seed) -> dict[str, bytes]:
    """And what follows from it, which lies nowhere."""
    derived = {"history key": seed.history_key.to_pem(), "CA key": seed.authority_key(1)}
    return {"seed": seed.seed, "salt": seed.salt, **{name: raw_key(pem) for name, pem in derived.items()}}


def private_part(pem: bytes) -> bytes:
    """Of a file that may hold a certificate as well."""
    begin = pem.index(b"-----BEGIN PRIVATE KEY")
    return pem[begin : pem.index(b"-----END PRIVATE KEY-----", begin) + len(b"-----END PRIVATE KEY-----\n")]


def opened(file: Path, state: Path) -> bytes:
    """An export, by the one that it is for."""
    own = identity.load(state / "keys", {})
    assert own is not None
    with file.open("rb") as sealed:
        return b"".join(sealed_file.open_(sealed, own))


def found_in(data: bytes, secrets: dict[str, bytes]) -> set[str]:
    """Also where a line ends within it, as in PEM, or as JSON writes that."""
    whole = data.replace(b"\\n", b"").replace(b"\n", b"")
    return {name for name, secret in secrets.items() if any(form in data or form in whole for form in forms(secret))}


def leaks(folder: Path, secrets: dict[str, bytes]) -> dict[str, set[str]]:
    """Files that hold one, by their names below the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    hits = {str(path.relative_to(folder)): found_in(path.read_bytes(), secrets) for path in files}
    return {name: hit for name, hit in hits.items() if hit}


def processes(secrets: dict[str, bytes]) -> set[str]:
    """Of all that run, in arguments and environment."""
    found: set[str] = set()
    for place in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found |= found_in((place / name).read_bytes(), secrets)
            except OSError:  # it has ended
                continue
    return found


def test_the_bytes_are_nowhere_but_where_they_belong(tmp_path: Path) -> None:
    """rules H4, K24: not in the log, the database, a backup without keys, an owner's share, an export for another
    machine, what is sent to root keys, arguments of a process, or a core dump; before and after everything was lost and
    an owner has brought it back
    """
    lab, keys = Lab(tmp_path), tmp_path / "state/keys"
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))  # whoever is started here may dump
    lab.good("coordinators", "owner-key", "--out", "alice.key")
    lab.init("--seed-share-owner", "alice.pub")
    seed = seeds.load(keys, {})
    secrets = secrets_of(seed)
    secrets["owner's key"] = raw_key((tmp_path / "alice.key").read_bytes())
    for name in ("identity", "token"):
        secrets[f"{name} key"] = raw_key(private_part((keys / f"{name}.pem").read_bytes()))
    (config,) = keystore.files(keys, "config")
    secrets["config key"] = raw_key(config.read_bytes())
    try:
        lab.start()
        lab.good("allow", "add", "node-b")
        said = [lab.good("coordinators", "shares", "--to", "shares", "--json").out]
        lab.stop()
        for path in (keys / "seed", config):
            path.unlink()
        still = {"alice.key": {"owner's key"}, "state/keys/identity.pem": {"identity key"}}
        assert leaks(tmp_path, secrets) == {**still, "state/keys/token.pem": {"token key"}}, "nothing else had it"
        lab.start()
        wanted = ("coordinators", "recover", "--share", "shares/alice.share", "--key", "alice.key", "--yes")
        assert lab.ctl(*wanted, "--share", "alice.pub").status != 0
        said.append(lab.good(*wanted, "--request", "recover.json").out)
        (mesh,) = keystore.files(keys, "config")
        secrets["mesh key"] = raw_key(mesh.read_bytes())
        said.append(lab.good("trust", "sign", "recover.json", "--root-key", lab.roots, "--yes").out)
        said.append(lab.good("coordinators", "commit", "recover.json").out)
        said += [lab.good(*asked).out for asked in (("audit", "--json"), ("coordinators", "status", "--json"))]
        kept = ("backup", "--to", tmp_path / "backups", "--configuration", lab.configuration, "--without-keys")
        said.append(lab.good(*kept).out)
        lab.good("coordinators", "identity", "coordinator-2", "--to", "other.crt", "--state", "other")
        url = ("--url", "https://coordinator-2.example:7443", "--configuration", lab.configuration)
        said.append(lab.good("export", "--to", "cluster.hfx", "--for", "other.crt", *url, "--yes").out)
        assert processes(secrets) == set()
        assert "Max core file size        0 " in Path(f"/proc/{lab.process.pid}/limits").read_text()
        os.kill(lab.process.pid, signal.SIGABRT)
        lab.process.wait(60)
        lab.process = None
        assert not list(tmp_path.rglob("core*"))
    finally:
        lab.stop()
        resource.setrlimit(resource.RLIMIT_CORE, before)
    assert found_in("\n".join(said).encode(), secrets) == set()
    hits = leaks(tmp_path, secrets)
    assert {name for name in hits if not name.startswith(OWN)} == set()
    assert hits["state/keys/seed"] == {"seed", "salt"}, "what is searched for is found where it is"
    assert {"seed", "salt", "mesh key"} <= found_in(opened(tmp_path / "cluster.hfx", tmp_path / "other"), secrets)
    assert hits[str(mesh.relative_to(tmp_path))] == {"mesh key"}

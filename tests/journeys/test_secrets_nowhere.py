"""No secret of the coordinators lies anywhere but where it belongs: one test searches for the bytes (rules H4)."""

import base64
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from coordinator.keys import keystore
from coordinator.keys import seed as seeds
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
    return private.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )


def found_in(data: bytes, secrets: dict[str, bytes]) -> set[str]:
    return {name for name, secret in secrets.items() if any(form in data for form in forms(secret))}


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
    """rules H4: not in the log, the database, a backup without keys, what is sent to root keys, arguments of a process,
    or a core dump; before and after everything was lost and an owner has brought it back
    """
    lab, keys = Lab(tmp_path), tmp_path / "state/keys"
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))  # whoever is started here may dump
    lab.good("coordinators", "owner-key", "--out", "alice.key")
    lab.init("--seed-share-owner", "alice.pub")
    seed = seeds.load(keys, {})
    secrets = {"seed": seed.seed, "salt": seed.salt}
    (config,) = keystore.files(keys, "config")
    secrets["config key"] = raw_key(config.read_bytes())
    try:
        lab.start()
        lab.good("allow", "add", "node-b")
        said = [lab.good("coordinators", "shares", "--to", "shares", "--json").out]
        lab.stop()
        for path in (keys / "seed", config):
            path.unlink()
        assert leaks(tmp_path, secrets) == {}, "nothing else had it"
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
    assert hits[str(mesh.relative_to(tmp_path))] == {"mesh key"}

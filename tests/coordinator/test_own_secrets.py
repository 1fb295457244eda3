"""What a coordinator has of the cluster's secrets, and where it keeps it (rules H4)."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore, sealing
from coordinator.keys import seed as seeds
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey
from tests.citations import ROOT

SERVICE = {"NOTIFY_SOCKET": "/run/systemd/notify"}
SEED, KEY = Seed.generate(), SigningKey.generate()
seals = pytest.mark.skipif(
    shutil.which("systemd-creds") is None or os.geteuid() != 0, reason="systemd-creds seals for root alone here"
)


def kept(folder: Path, environment: dict[str, str] | None = None, *, is_kept: bool = True) -> OwnSecrets:
    """After seed and key came."""
    made = OwnSecrets(folder / "keys", environment or {}, is_kept=is_kept)
    made.keep_seed(SEED)
    made.keep_key(KEY)
    return made


def lying(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "keys").glob("*")}


def has(found: OwnSecrets) -> bool:
    return found.seed() == SEED and [key.key_id for key in found.config_keys()] == [KEY.key_id]


def is_in_clear(folder: Path) -> bool:
    return any(SEED.seed.hex().encode() in data or b"PRIVATE" in data for data in lying(folder).values())


def test_it_is_kept_in_files_of_its_own(tmp_path: Path) -> None:
    assert has(kept(tmp_path))
    assert set(lying(tmp_path)) == {seeds.FILE, keystore.file_name("config", KEY)}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}
    assert has(OwnSecrets(tmp_path / "keys", {}))


def test_in_memory_alone_it_is_gone_with_the_process(tmp_path: Path) -> None:
    """rules H4: switched off; and nothing is written"""
    assert has(kept(tmp_path, SERVICE, is_kept=False))
    assert not (tmp_path / "keys").exists()
    again = OwnSecrets(tmp_path / "keys", SERVICE, is_kept=False)
    assert (again.seed(), again.config_keys()) == (None, ())


@seals
def test_a_service_seals_it_to_its_machine(tmp_path: Path) -> None:
    """rules H4: by the host's key, or the TPM where there is one; read again as if it were in clear"""
    assert has(kept(tmp_path, SERVICE))
    names = {seeds.FILE + sealing.SUFFIX, keystore.file_name("config", KEY) + sealing.SUFFIX}
    assert (set(lying(tmp_path)), is_in_clear(tmp_path)) == (names, False)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}
    assert has(OwnSecrets(tmp_path / "keys", {}))
    assert seeds.load(tmp_path / "keys", {}) == SEED
    kept(tmp_path, SERVICE)
    assert set(lying(tmp_path)) == names


@seals
def test_what_was_sealed_elsewhere_is_not_there_and_comes_again(tmp_path: Path) -> None:
    """A disk in another machine; a file that was changed, or passed off as another"""
    kept(tmp_path, SERVICE)
    place = sealing.sealed_form(tmp_path / "keys" / seeds.FILE)
    sealed, other = place.read_bytes(), sealing.sealed_form(tmp_path / "keys" / keystore.file_name("config", KEY))
    for data in (sealed[:-9], other.read_bytes(), b""):
        place.write_bytes(data)
        assert OwnSecrets(tmp_path / "keys", {}).seed() is None
    OwnSecrets(tmp_path / "keys", SERVICE).keep_seed(SEED)
    assert has(OwnSecrets(tmp_path / "keys", {}))


@pytest.mark.parametrize("tool", ["", "#!/bin/sh\nexit 1\n", "#!/bin/sh\nexec cat /etc/hostname\n"], ids=range(3))
def test_where_nothing_is_sealed_it_is_a_file_and_the_log_says_so(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No tool, one that refuses this account, and one whose work does not open again"""
    (tmp_path / "bin").mkdir()
    if tool:
        (tmp_path / "bin" / sealing.TOOL).write_text(tool)
        (tmp_path / "bin" / sealing.TOOL).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    assert has(kept(tmp_path, SERVICE))
    assert set(lying(tmp_path)) == {seeds.FILE, keystore.file_name("config", KEY)}
    said = capsys.readouterr().err
    assert "a secret is not sealed" in said
    assert SEED.seed.hex() not in said


def test_what_did_not_open_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tool that is away for a moment, as at the start of a machine; what has opened is not asked for again"""
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / sealing.TOOL
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\ntest ! -e {tmp_path}/away && exec cat\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    kept(tmp_path, SERVICE)
    sealing._open.cache_clear()
    (tmp_path / "away").touch()
    found = OwnSecrets(tmp_path / "keys", {})
    assert (found.seed(), found.config_keys()) == (None, ())
    assert capsys.readouterr().err.count("a sealed secret does not open here") == 2
    assert found.seed() is None  # tried again, and not said again
    assert capsys.readouterr().err == ""
    (tmp_path / "away").unlink()
    assert has(found)
    asked = (tmp_path / "said").read_text()
    assert has(found) and (tmp_path / "said").read_text() == asked


def test_no_secret_stands_in_the_arguments_of_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules H4: whoever lists processes sees a name alone"""
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / sealing.TOOL
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\nenv >> {tmp_path}/said\ncat\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert has(kept(tmp_path, SERVICE))
    said = (tmp_path / "said").read_text()
    assert f"--name={seeds.FILE} encrypt - -" in said
    assert SEED.seed.hex() not in said and "PRIVATE" not in said


def test_another_seed_is_not_written_over(tmp_path: Path) -> None:
    for is_kept in (True, False):
        found = kept(tmp_path, is_kept=is_kept)
        with pytest.raises(Refused) as caught:
            found.keep_seed(Seed.generate())
        assert caught.value.code is Code.UNTRUSTED_HISTORY
        assert has(found)


def test_no_text_of_it_shows_a_secret(tmp_path: Path) -> None:
    said = repr(kept(tmp_path, is_kept=False))
    assert "seed" not in said.removeprefix("OwnSecrets") and "PRIVATE" not in said


def test_no_core_is_dumped_of_a_coordinator() -> None:
    """rules H4: nor may a process of the same account look into it"""
    script = (
        "import ctypes, resource; from coordinator.base import core_dumps; core_dumps.forbid();"
        "print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "(0, 0) 0"

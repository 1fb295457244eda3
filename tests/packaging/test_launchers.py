"""The installed programs: what they import is theirs and Debian's, whatever the caller's environment says."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.citations import ROOT
from tests.packaging.installed import DEB, LIBRARIES, install
from wire.version import VERSION

BIN = ROOT / "packaging/bin"
PROGRAMS = {
    "holdfast": "holdfast-agent",
    "holdfast-agent": "holdfast-agent",
    "holdfastctl": "holdfastctl",
    "holdfast-coordinator": "holdfast-coordinator",
}
HIDDEN = "raise SystemExit('a module of somebody else was imported')\n"


@pytest.mark.parametrize(("program", "package"), PROGRAMS.items())
def test_a_launcher_starts_its_program_isolated(program, package):
    *comment, line = (BIN / program).read_text().splitlines()
    assert comment[0] == "#!/bin/sh"
    assert line == f'exec /usr/bin/python3 -I -S /{LIBRARIES[package]} {program} "$@"'
    assert (BIN / program).stat().st_mode & 0o111
    assert re.search(rf"^packaging/bin/{program} usr/s?bin$", (DEB / f"{package}.install").read_text(), re.MULTILINE)


@pytest.mark.parametrize(("program", "package"), PROGRAMS.items())
def test_a_program_says_its_version(program, package, tmp_path):
    folder = install(package, tmp_path)
    entry = folder / "__main__.py"
    libraries = str(Path(click.__file__).parent.parent)
    entry.write_text(entry.read_text().replace("/usr/lib/python3/dist-packages", libraries))
    command = [sys.executable, "-I", "-S", str(folder), program, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{program} {VERSION}\n"), done.stderr


@pytest.mark.parametrize(("program", "package"), PROGRAMS.items())
def test_nothing_of_the_callers_is_imported(program, package, tmp_path):
    """Neither by PYTHON* variables, nor from the folder where it stands, nor from a home or by a .pth file"""
    folder = install(package, tmp_path / "root")
    entry = folder / "__main__.py"
    libraries = Path(click.__file__).parent.parent
    entry.write_text(entry.read_text().replace("/usr/lib/python3/dist-packages", str(libraries)))
    evil, home = tmp_path / "evil", tmp_path / "home"
    site = home / f".local/lib/python3.{sys.version_info.minor}/site-packages"
    site.mkdir(parents=True)
    evil.mkdir()
    for name in ("click", "trio", "h11", "agent", "coordinator", "snapshot", "sitecustomize", "usercustomize"):
        (evil / f"{name}.py").write_text(HIDDEN)
        (site / f"{name}.py").write_text(HIDDEN)
    (site / "first.pth").write_text(f"{evil}\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(folder), program, "--help"],
        env={"PYTHONPATH": str(evil), "PYTHONSTARTUP": str(evil / "click.py"), "HOME": str(home), "LC_ALL": "C.UTF-8"},
        cwd=evil,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.match(rf"usage: {program} ", done.stdout, re.IGNORECASE)

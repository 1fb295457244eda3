"""What the packages install, laid out as debian/rules does, from the lists of packaging/deb, without a build; and what
has been compiled of it, since compiling it is most of what a program's start from there would take.
"""

import shutil
from pathlib import Path

from tests.citations import ROOT

DEB = ROOT / "packaging/deb"
# Of debian/rules, execute_after_dh_install: a package's commands are its own.
REMOVED = {
    "holdfast-agent": "usr/share/holdfast/holdfast/ctl",
    "holdfastctl": "usr/share/holdfastctl/holdfast/node",
}
LIBRARIES = {
    "holdfast-agent": Path("usr/share/holdfast"),
    "holdfast-coordinator": Path("usr/share/holdfast-coordinator"),
    "holdfastctl": Path("usr/share/holdfastctl"),
    "python3-holdfast": Path("usr/lib/python3/dist-packages"),
}


def install(package: str, root: Path) -> Path:
    """The package's files below `root`; the folder of its Python modules."""
    for line in (DEB / f"{package}.install").read_text().splitlines():
        source, target = line.split()
        into = root / target
        into.mkdir(parents=True, exist_ok=True)
        found = ROOT / source
        if found.is_dir():
            shutil.copytree(found, into / found.name, ignore=shutil.ignore_patterns("*.pyc.*"))  # being written
        else:
            shutil.copy2(found, into)
    if package in REMOVED:
        shutil.rmtree(root / REMOVED[package])
    return root / LIBRARIES[package]

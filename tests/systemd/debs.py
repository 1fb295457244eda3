"""The built packages: what they depend on, and the same packages issued again under another version."""

import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

AGENT, CLIENT, COORDINATOR, CTL = "holdfast-agent", "python3-holdfast", "holdfast-coordinator", "holdfastctl"


@dataclass(frozen=True)
class Packages:
    """A folder with one .deb of each."""

    folder: Path

    @classmethod
    def found(cls, folder: Path) -> "Packages":
        packages = cls(folder)
        for name in (AGENT, CLIENT, COORDINATOR, CTL):
            packages.file(name)
        return packages

    def file(self, name: str) -> Path:
        files = sorted(self.folder.glob(f"{name}_*.deb"))
        if len(files) != 1:
            raise FileNotFoundError(f"{self.folder} has {len(files)} files {name}_*.deb: make deb")
        return files[0]

    @property
    def version(self) -> str:
        return _field(self.file(AGENT), "Version")

    def depends(self, names: Iterable[str]) -> set[str]:
        """Debian's packages that these need; of alternatives the first."""
        listed = ",".join(_field(self.file(name), "Depends") for name in names)
        wanted = {re.split(r"[\s(:|]", each.strip())[0] for each in listed.split(",") if each.strip()}
        return wanted - {AGENT, CLIENT, COORDINATOR, CTL}

    def issued_again(
        self, names: Iterable[str], version: str, into: Path, change: Callable[[Path], None] = lambda _: None
    ) -> "Packages":
        """The same contents and scripts under a later version; `change` edits the unpacked agent's tree."""
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            unpacked = into / name
            _run("dpkg-deb", "--raw-extract", str(self.file(name)), str(unpacked))
            control = unpacked / "DEBIAN" / "control"
            text = control.read_text().replace(f"(= {self.version})", f"(= {version})")
            control.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", text))
            if name == AGENT:
                change(unpacked)
                (unpacked / "DEBIAN" / "md5sums").unlink()
            deb = into / f"{name}_{version}_all.deb"
            _run("dpkg-deb", "-Zgzip", "-z1", "--build", "--root-owner-group", str(unpacked), str(deb))  # for one test
            _run("rm", "-r", str(unpacked))
        return Packages(into)


def _field(deb: Path, name: str) -> str:
    return _run("dpkg-deb", "--field", str(deb), name).strip()


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

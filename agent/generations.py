"""Folders that are replaced as a whole: complete ones side by side, and one symlink that says which is in use.

    <root>/<name>                    the symlink: what readers open
    <root>/.<name>.generations/N     complete folders; those that are no longer in use stay for readers for a while

A folder is made under a name of its own and never changed once the link points to it. A crash at any step leaves the
link on a whole folder; what was begun is swept away at the next start. A reader that opened the folder, or a file in
it, keeps what it has, also after it was collected.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

KEPT = 2  # folders before the present one that always stay
MOST_KEPT = 64


class NotOursError(Exception):
    """Something else stands where the link belongs; the text names the remedy."""


@dataclass(frozen=True)
class Permissions:
    """Of files and of folders. `gid` None: the process's own group."""

    file_mode: int = 0o640
    folder_mode: int = 0o750
    gid: int | None = None

    def give(self, path: Path, mode: int) -> None:
        if self.gid is not None:
            os.chown(path, -1, self.gid, follow_symlinks=False)
        path.chmod(mode)


@dataclass
class Generations:
    """One writer. `grace_s`: how long a folder stays after it was replaced, at least."""

    root: Path
    name: str
    permissions: Permissions
    grace_s: float = 60.0
    _retired: dict[str, float] = field(default_factory=dict)

    @property
    def link(self) -> Path:
        return self.root / self.name

    @property
    def folder(self) -> Path:
        return self.root / f".{self.name}.generations"

    def current(self) -> Path | None:
        """The folder in use."""
        try:
            return self.folder / self.link.readlink().name
        except FileNotFoundError:
            return None
        except OSError:
            raise NotOursError(f"{self.link} is no symlink of ours: move it away, it is made anew") from None

    def stands(self, label: str, file: str) -> bool:
        """The link is there and leads to this folder, which holds this file."""
        try:
            return self.link.readlink() == Path(self.folder.name, label) and (self.link / file).is_file()
        except OSError:
            return False

    def prepare(self) -> None:
        """At start, and when they were taken away: the folders exist, and what a crash left half made is gone."""
        if not self.root.exists():  # under the unit systemd has made it
            self.root.mkdir(parents=True)
            self.root.chmod(0o755)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.permissions.give(self.folder, self.permissions.folder_mode)
        for leftover in self.root.glob(f".{self.name}.link-*"):
            leftover.unlink()
        for leftover in self.folder.glob(".new-*"):
            shutil.rmtree(leftover)

    @contextlib.contextmanager
    def fresh(self, label: str) -> Iterator[Path]:
        """A new folder to fill; it has its final place when the block ends, and nobody reads it until `use`."""
        making = self.folder / f".new-{label}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        try:
            yield making
            self.permissions.give(making, self.permissions.folder_mode)
            making.rename(self.folder / label)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise

    def use(self, label: str) -> None:
        """The one step that readers see."""
        self.current()  # NotOursError while nothing has been touched
        temporary = self.root / f".{self.name}.link-{label}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(f"{self.folder.name}/{label}")
        temporary.rename(self.link)

    def labels(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if not path.name.startswith(".")}

    def collect(self, now: float, *, all_of_them: bool = False) -> int:
        """Removes folders that were replaced; how many. `now` may come from any clock that does not go back."""
        present = self.current()
        old = self.labels() - ({present.name} if present else set())
        self._retired = {label: self._retired.get(label, now) for label in old}
        by_age = sorted(old, key=lambda label: (self._retired[label], label), reverse=True)
        gone = [label for index, label in enumerate(by_age) if all_of_them or self._is_over(index, label, now)]
        for label in gone:
            shutil.rmtree(self.folder / label)
            self._retired.pop(label, None)
        return len(gone)

    def _is_over(self, index: int, label: str, now: float) -> bool:
        return index >= MOST_KEPT or (index >= KEPT and now >= self._retired[label] + self.grace_s)

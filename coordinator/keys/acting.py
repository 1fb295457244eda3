"""Root works in another account's directory as that account, with none of its own powers (rules J34, P7).

Whoever owns a directory may swap what lies in it at any moment, for a link or for another directory. So root does not
look first and act then: it lays its powers down, and the kernel refuses what that account could not have done itself.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = 0
_MOST_STEPS = 1024  # of a path with all its links


@contextmanager
def as_owner_of(directory: Path) -> Iterator[None]:
    """As the first account but root that can change what lies on the way to it. Whoever is not root stays who he is."""
    owner = _owner(directory) if os.geteuid() == ROOT else None
    if owner is None:
        yield
        return
    group, groups = os.getegid(), os.getgroups()
    try:
        os.setgroups([])
        os.setegid(owner[1])
        os.seteuid(owner[0])
        yield
    finally:
        os.seteuid(ROOT)
        os.setegid(group)
        os.setgroups(groups)


def is_roots_alone(directory: Path) -> bool:
    """Whether root works there as itself: nobody else owns a step of the way."""
    return _owner(directory) is None


def _owner(directory: Path) -> tuple[int, int] | None:
    """Uid and gid. Every step before the one that decides is root's, so nobody else can swap it meanwhile."""
    place, ahead = Path("/"), deque(directory.absolute().parts[1:])
    for _ in range(_MOST_STEPS):
        if not ahead:
            return None
        place = _step(place, ahead.popleft())
        try:
            found = place.lstat()
        except (
            FileNotFoundError,
            NotADirectoryError,
        ):  # what is not there yet is made by us, where only root can make anything
            return None
        if found.st_uid != ROOT:
            return found.st_uid, found.st_gid
        if stat.S_ISLNK(found.st_mode):
            target = place.readlink()
            ahead.extendleft(reversed(target.parts))
            place = place.parent
    raise OSError(f"{directory}: too many links lead there")


def _step(place: Path, name: str) -> Path:
    """A name of an absolute link begins at the root again: `place / "/"` is `/`."""
    return place.parent if name == ".." else place / name

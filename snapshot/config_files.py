"""The index of a `config` document (format.md 11): which files it is, and which sections are the bytes of each. Pure.

    parse_index    the section `files`, in form
    check_index    against the sections that there are: each is a part of exactly one file

A path is safe to write below a folder as it stands: its parts cannot lead out of it, are nobody's folder and file at
once, and are the same to every file system that tells capitals apart.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from snapshot.identifiers import is_integer, is_section_name
from snapshot.manifest import SectionEntry, bad_content, closed_object

FILES = "files"  # the section that is the index
MODES = ("0600", "0640", "0644", "0700", "0750", "0755")
MOST_FILES = 10_000
MOST_SECTIONS = 256  # of one file
MOST_PATH_BYTES, MOST_PATH_PARTS = 255, 8

_PART = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


@dataclass(frozen=True)
class FileEntry:
    """One file: the sections whose bytes it is, in order, their number of bytes, and a mode such as `0644`."""

    sections: tuple[str, ...]
    size: int
    mode: str

    def members(self) -> dict[str, object]:
        """As the index has it."""
        return {"sections": list(self.sections), "size": self.size, "mode": self.mode}


def parse_index(value: object) -> dict[str, FileEntry]:
    """By path; `bad_content` for what is out of form."""
    if not isinstance(value, dict) or len(value) > MOST_FILES:
        raise bad_content(f"an object of at most {MOST_FILES} files", "something else", FILES)
    for path in value:
        if not is_path(path):
            raise bad_content("a relative path of plain parts", path, FILES)
    for folder in _folders(value):
        if folder in value:
            raise bad_content("paths none of which is another one's folder", folder, FILES)
    return {path: _entry(path, members) for path, members in value.items()}


def check_index(files: Mapping[str, FileEntry], sections: Mapping[str, SectionEntry]) -> None:
    """Each section but the index is named exactly once; sizes are the sum of their parts."""
    if FILES not in sections or sections[FILES].is_raw:
        raise bad_content("a JSON section files", "none", FILES)
    named: set[str] = set()
    for path, file in files.items():
        for name in file.sections:
            if name not in sections or name == FILES or name in named:
                raise bad_content("a section that no other part is", name, f"{FILES}/{path}")
            named.add(name)
        if len(file.sections) > 1 and not all(sections[name].is_raw for name in file.sections):
            raise bad_content("raw sections, or one of JSON alone", "several", f"{FILES}/{path}")
        size = sum(sections[name].size for name in file.sections)
        if size != file.size:
            raise bad_content(f"a size of {size}", file.size, f"{FILES}/{path}")
    if idle := sections.keys() - named - {FILES}:
        raise bad_content("sections that a file names", min(idle), FILES)


def is_path(path: str) -> bool:
    """Relative, of at most 8 plain parts, none of them `.` or `..`."""
    parts = path.split("/")
    if len(path) > MOST_PATH_BYTES or len(parts) > MOST_PATH_PARTS:
        return False
    return all(_PART.fullmatch(part) and part not in (".", "..") for part in parts)


def _folders(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        parts = path.split("/")
        yield from ("/".join(parts[:count]) for count in range(1, len(parts)))


def _entry(path: str, value: object) -> FileEntry:
    members = closed_object(value, _FORM, f"{FILES}/{path}")
    names, size = members["sections"], members["size"]
    assert isinstance(names, list) and isinstance(size, int)  # noqa: S101 - the form says so
    return FileEntry(tuple(names), size, str(members["mode"]))


def _are_names(value: object) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= MOST_SECTIONS and all(map(is_section_name, value))


_FORM = {
    "sections": _are_names,
    "size": lambda value: is_integer(value, 0),
    "mode": lambda value: value in MODES,
}

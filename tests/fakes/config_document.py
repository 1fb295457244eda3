"""The sections of a `config` document, from the files that it is to bring (format.md 11). Pure.

    content = config_sections({"nginx.conf": FileContent(data), "flags.json": FileContent(data, is_json=True)})

A raw file is cut into parts of at most a section, each named by the file's path and its own number. So an increment
brings the parts that changed, and the index sorts before all of them, which lets a reader tell whole files at once.
Rejected: names by the hash of the bytes, since two files of the same bytes would name one section, which none may.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from snapshot import canonical
from snapshot.config_files import FILES, FileEntry
from snapshot.limits import DEFAULT

_NAME_DIGITS = 32


@dataclass(frozen=True)
class FileContent:
    """One file. `is_json`: the bytes are canonical JSON, so that increments may patch it."""

    data: bytes
    mode: str = "0644"
    is_json: bool = False


@dataclass(frozen=True)
class ConfigSections:
    """What `ScopeContent` and `signer.snapshot` take: bytes by section, and which of them are no JSON."""

    sections: Mapping[str, bytes]
    raw: frozenset[str]


def config_sections(files: Mapping[str, FileContent], part_bytes: int = DEFAULT.section_bytes) -> ConfigSections:
    """By path; whether paths, sizes and numbers are within the format is the reader's to say, who reviews all."""
    index: dict[str, object] = {}
    sections: dict[str, bytes] = {}
    raw: set[str] = set()
    for path, file in sorted(files.items()):
        parts = dict(_parts(path, file, part_bytes))
        sections |= parts
        raw |= set() if file.is_json else parts.keys()
        index[path] = FileEntry(tuple(parts), len(file.data), file.mode).members()
    return ConfigSections({FILES: canonical.dumps(index), **sections}, frozenset(raw))


def _parts(path: str, file: FileContent, part_bytes: int) -> Iterator[tuple[str, bytes]]:
    stem = hashlib.sha256(path.encode()).hexdigest()[:_NAME_DIGITS]
    if file.is_json:
        yield f"json.{stem}", file.data
        return
    for number, start in enumerate(range(0, max(len(file.data), 1), part_bytes)):
        yield f"raw.{stem}.{number:04}", file.data[start : start + part_bytes]

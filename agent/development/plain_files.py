"""A folder of plain files, read as scopes and sections. What is not of this layout is passed over.

services/<id>/settings.json           any JSON; endpoints.json and workload.json beside it where they matter
routes.json                           {"<id>": {...}}
config/<id>/<path>                    any bytes: a file of a Config, 0755 where its owner may execute it, else 0644
<scope_type>[@<ids>]/<section>.json   any other scope, laid out as the agent projects it

stamp_of(folder)     differs once a file has changed
read(folder)         the sections by scope, in canonical JSON
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from snapshot import canonical
from snapshot.config_files import FILES, MOST_SECTIONS, FileEntry, parse_index
from snapshot.identifiers import CONFIG, is_id, is_section_name, parse_scope, scope_name
from snapshot.limits import DEFAULT
from snapshot.reasons import Rejected

SERVICES, ROUTES_FILE = "services", "routes.json"
SERVICE_FILES = {"settings.json": "settings", "endpoints.json": "endpoints", "workload.json": "workload"}
SUFFIX = ".json"

Sections = dict[str, bytes]
Stamp = tuple[tuple[str, int, int, int, int], ...]


class PlainFileError(ValueError):
    """A file that cannot be served; the text names it, and the remedy."""


def stamp_of(folder: Path) -> Stamp:
    """Names, sizes, times and modes of all files that `read` looks at."""
    found = []
    for path in _paths(folder):
        try:
            status = path.stat()
        except OSError:  # taken away meanwhile: the next look says so
            continue
        found.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode))
    return tuple(found)


def read(folder: Path) -> dict[str, Sections]:
    """By scope. PlainFileError."""
    found = _configs(folder)
    for path in _paths(folder):
        place, name = str(path.parent.relative_to(folder)), path.name
        if place == "." and name == ROUTES_FILE:
            found.setdefault("route_policy", {})["routes"] = _section(_object(path), path)
        elif place.startswith(f"{SERVICES}/"):
            _add_service(found, place.removeprefix(f"{SERVICES}/"), name, path)
        elif _is_of_config(place):
            continue
        elif (scope := _scope_of(place)) is not None and is_section_name(name.removesuffix(SUFFIX)):
            found.setdefault(scope, {})[name.removesuffix(SUFFIX)] = _section(_value(path), path)
    return found


def _configs(folder: Path) -> dict[str, Sections]:
    """Each folder below `config` is one, an empty one too."""
    top = folder / CONFIG
    held = sorted(path for path in top.iterdir() if path.is_dir() and path.name[0] != ".") if top.is_dir() else []
    for path in held:
        _check_id(path.name, path)
    return {scope_name(CONFIG, (path.name,)): _config(path) for path in held}


def _config(folder: Path) -> Sections:
    """Cut into sections as it would be signed."""
    index: dict[str, object] = {}
    sections: Sections = {}
    for number, path in enumerate(_paths(folder, "")):
        parts = {f"raw.{number:05}.{part:04}": data for part, data in enumerate(_parts(path))}
        mode = "0755" if _mode_of(path) & stat.S_IXUSR else "0644"
        entry = FileEntry(tuple(parts), sum(map(len, parts.values())), mode)
        sections |= parts
        index[str(path.relative_to(folder))] = entry.members()
    try:
        parse_index(index)
    except Rejected as refused:
        raise PlainFileError(f"{folder}: {refused.detail}: rename it; hidden files are passed over") from None
    return {FILES: canonical.dumps(index), **sections}


def _parts(path: Path) -> Iterator[bytes]:
    data = _bytes(path)
    if len(data) > MOST_SECTIONS * DEFAULT.section_bytes:
        raise PlainFileError(f"{path}: has more than {MOST_SECTIONS * DEFAULT.section_bytes} bytes")
    for start in range(0, max(len(data), 1), DEFAULT.section_bytes):
        yield data[start : start + DEFAULT.section_bytes]


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise PlainFileError(f"{path}: {error.strerror}") from None


def raw_of(scope: str, sections: Mapping[str, bytes]) -> Iterable[str]:
    """The sections that are no JSON."""
    return sections.keys() - {FILES} if parse_scope(scope).type == CONFIG else ()


def _is_of_config(place: str) -> bool:
    return place.partition("/")[0] == CONFIG


def _check_id(name: str, path: Path) -> None:
    if not is_id(name):
        raise PlainFileError(f"{path}: {name} is no id: lower-case letters, digits and ._- make one")


def _add_service(found: dict[str, Sections], service_id: str, name: str, path: Path) -> None:
    if name not in SERVICE_FILES:
        return
    _check_id(service_id, path)
    sections = found.setdefault(scope_name("service_assignment", (service_id,)), {})
    held = canonical.loads(sections["services"]) if sections else {service_id: {}}
    entry = held[service_id] if isinstance(held, dict) else {}
    sections["services"] = _section({service_id: {**entry, SERVICE_FILES[name]: _value(path)}}, path)


def _paths(folder: Path, suffix: str = SUFFIX) -> Iterator[Path]:
    """Sorted, so that the same files are the same content; hidden ones are an editor's. Of a Config any suffix does."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        wanted = "" if _is_of_config(str(Path(place).relative_to(folder))) else suffix
        yield from (Path(place, name) for name in sorted(names) if name.endswith(wanted) and name[0] != ".")


def _scope_of(place: str) -> str | None:
    scope_type, at, ids = place.partition("@")
    try:
        return parse_scope(f"{scope_type}/{ids}" if at else scope_type).name
    except ValueError:
        return None


def _object(path: Path) -> object:
    value = _value(path)
    if not isinstance(value, dict):
        raise PlainFileError(f"{path}: must be an object by id")
    return value


def _value(path: Path) -> object:
    data = _bytes(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PlainFileError(f"{path}: is no JSON: {error}") from None


def _bytes(path: Path) -> bytes:
    """Of a regular file: who opens a pipe that nobody writes to waits for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PlainFileError(f"{path}: is no regular file: move it away, hidden files are passed over")
            return file.read()
    except OSError as error:
        raise PlainFileError(f"{path}: {error.strerror}") from None


def _section(value: object, path: Path) -> bytes:
    """As it would be signed, in what can be signed."""
    try:
        data = canonical.dumps(value)
    except ValueError as error:
        raise PlainFileError(f"{path}: cannot be signed ({error}): write large numbers as strings") from None
    if len(data) > DEFAULT.section_bytes:
        raise PlainFileError(f"{path}: has more than {DEFAULT.section_bytes} bytes")
    return data

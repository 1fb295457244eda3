"""Secret references that nothing which comes with Holdfast resolves, in what an apply changes. Pure.

A sentence for each, and no refusal: a program may resolve references itself, by a vault that neither the coordinator
nor `holdfast exec` knows, and the node hands them on as they are (format.md 9). Whoever has mistyped `credentials:` is
told before the program is restarted, and not by it.
"""

import json
from collections.abc import Iterable, Iterator

from coordinator.base.refusal import bound_text
from coordinator.declared.contents import PART_BYTES, ReadPart
from coordinator.declared.kinds import Config, ConfigFile, EgressResource, Resource, Service
from snapshot.secrets import REFERENCE

RESOLVERS = ("credential", "file")  # of `holdfast exec` (holdfast/launch/secret_references.py)
MOST_NAMED = 20
_MARK = f'"{REFERENCE}"'.encode()


def sentences(changed: Iterable[Resource], read: ReadPart) -> list[str]:
    """`read`: what files hold. The first of them, and how many there are."""
    found = [
        f"{resource.KIND} {resource.id}, {place}: holdfast exec resolves no {bound_text(name, 64)!r}, it knows"
        f" {' and '.join(f'{known}:' for known in RESOLVERS)}; unless the program itself does, correct the reference"
        for resource in changed
        for place, name in _unknown(resource, read)
    ]
    more = [f"{len(found) - MOST_NAMED} more references like these"] if len(found) > MOST_NAMED else []
    return [*found[:MOST_NAMED], *more]


def _unknown(resource: Resource, read: ReadPart) -> Iterator[tuple[str, str]]:
    """Place and resolver."""
    if isinstance(resource, (Service, EgressResource)):
        yield from _references(resource.settings, "settings")
    elif isinstance(resource, Config):
        for path, file in resource.files.items():
            yield from _references(_json_of(path, file, read), f"files.{path}")


def _json_of(path: str, file: ConfigFile, read: ReadPart) -> object:
    """Of a file that says that it is JSON, and may hold a reference; None of every other."""
    content = file.stored_content
    if not (content.origin == "json" or path.endswith(".json")) or content.size > PART_BYTES:
        return None
    data = read(content.parts[0])
    try:
        return json.loads(data) if _MARK in data else None
    except (ValueError, RecursionError):
        return None


def _references(value: object, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        reference = value.get(REFERENCE)
        if isinstance(reference, str) and len(value) == 1:
            name = reference.partition(":")[0]
            if name not in RESOLVERS:
                yield place, name
            return
        for name, inner in value.items():
            yield from _references(inner, f"{place}.{name}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _references(inner, f"{place}[{index}]")

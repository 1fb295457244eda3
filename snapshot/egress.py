"""What a service goes out by, as nodes that run it are told: section `resources` of `service_assignment/<id>`. Pure.

    usable_entries(section, revoked)    the entries that may be used
    resource_grants(section)            what the gate has to know of each

An entry is an object with perhaps a `connector_id`, the entry that it is reached by. Heads and bundles revoke these by
name in their `service_ids`, beside services: what is reached by a revoked connector is revoked with it. What is
malformed is nothing's entry, and no fault of the document.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from snapshot import canonical
from snapshot.identifiers import is_id
from snapshot.secrets import REFERENCE

RESOURCES = "resources"


@dataclass(frozen=True)
class ResourceGrant:
    """One resource. `secrets` are `<resolver>:<path>`: those that it names go with it."""

    id: str
    connector: str = ""
    secrets: frozenset[str] = frozenset()

    def is_revoked(self, revoked: Container[str]) -> bool:
        return self.id in revoked or self.connector in revoked


def usable_entries(section: bytes, revoked: Container[str]) -> dict[str, Mapping[str, object]]:
    """By id, without those that are revoked, or reached by what is."""
    return {id_: entry for id_, entry in _entries(section) if not _grant(id_, entry).is_revoked(revoked)}


def resource_grants(section: bytes) -> frozenset[ResourceGrant]:
    return frozenset(_grant(id_, entry) for id_, entry in _entries(section))


def references(value: object) -> Iterator[str]:
    """The secret references at any depth."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            reference = inner.get(REFERENCE)
            if len(inner) == 1 and isinstance(reference, str):
                yield reference
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)


def _entries(section: bytes) -> Iterator[tuple[str, Mapping[str, object]]]:
    try:
        value = canonical.loads(section)
    except canonical.NotCanonical:
        return
    for id_, entry in value.items() if isinstance(value, Mapping) else ():
        if is_id(id_) and isinstance(entry, Mapping):
            yield id_, entry


def _grant(id_: str, entry: Mapping[str, object]) -> ResourceGrant:
    connector = entry.get("connector_id")
    return ResourceGrant(id_, connector if isinstance(connector, str) else "", frozenset(references(entry)))

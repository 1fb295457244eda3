"""What a storage node is to keep: its shard, as the signed `storage_directory` says (section `shards`). Pure.

Several endpoints may be one node's: then it keeps what any of them is for. What is malformed is for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from snapshot.envelope import Envelope
from snapshot.identifiers import HEAD


@dataclass(frozen=True)
class StorageShard:
    """Of one endpoint. Empty: all families, all organizations."""

    families: frozenset[str] = frozenset()
    organizations: frozenset[str] = frozenset()

    def takes(self, said: Envelope) -> bool:
        """Whether it is one of its documents: not a byte may be another organization's. A head names no organization
        and holds nobody's data: each one is, and which ones come is the coordinator's to say.
        """
        if said.kind == HEAD:
            return True
        if self.families and said.scope_type not in self.families:
            return False
        return not self.organizations or set(said.organization_ids) <= self.organizations


def parse_shards(section: object) -> tuple[StorageShard, ...]:
    """By the endpoints that the node runs."""
    entries = section.values() if isinstance(section, Mapping) else ()
    return tuple(shard for entry in entries if (shard := _parse(entry)) is not None)


def _parse(entry: object) -> StorageShard | None:
    if not isinstance(entry, Mapping):
        return None
    families, organizations = entry.get("families", ()), entry.get("organizations", ())
    if not _are_texts(families) or not _are_texts(organizations):
        return None
    return StorageShard(frozenset(families), frozenset(organizations))


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)

"""From whom a storage node copies, and who may copy from it, as the signed `storage_directory` says. Pure.

    parse_sources(section)    `replication_sources`: by endpoint, where it answers and what its node shows
    parse_readers(section)    `replication_readers`: by node, the certificates by which it may list what lies here

What is malformed is copied from nowhere, and lets nobody in.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SOURCES, READERS = "replication_sources", "replication_readers"
MOST_SOURCES = 16


@dataclass(frozen=True)
class ReplicationSource:
    """`certificates`: DER, of which its node shows one, whatever name and dates that bears."""

    endpoint_id: str
    url: str
    certificates: tuple[bytes, ...]


def parse_sources(section: object) -> tuple[ReplicationSource, ...]:
    found = (_parse_source(name, entry) for name, entry in _entries(section))
    return tuple(source for source in found if source is not None)[:MOST_SOURCES]


def parse_readers(section: object) -> tuple[tuple[str, bytes], ...]:
    """Node and certificate."""
    return tuple((name, der) for name, entry in _entries(section) for der in _certificates(entry))


def _entries(section: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    entries = section.items() if isinstance(section, Mapping) else ()
    return ((name, entry) for name, entry in entries if isinstance(entry, Mapping))


def _parse_source(endpoint_id: str, entry: Mapping[str, object]) -> ReplicationSource | None:
    url, certificates = entry.get("url"), _certificates(entry)
    return ReplicationSource(endpoint_id, url, certificates) if isinstance(url, str) and certificates else None


def _certificates(entry: Mapping[str, object]) -> tuple[bytes, ...]:
    listed = entry.get("certificates")
    texts = listed if isinstance(listed, list | tuple) and all(isinstance(text, str) for text in listed) else ()
    try:
        return tuple(base64.b64decode(text, validate=True) for text in texts)
    except (binascii.Error, ValueError):
        return ()

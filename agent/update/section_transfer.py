"""A document from a peer by its sections: those that this node lacks, and no others (rules K5, K37).

The peer gives what was signed and the hash of each section (`/v1/manifests`); sections that lie here are taken from
here, the others asked for by their hash. What comes of it is the whole container, and is judged as any other: a section
that is not what was signed is `content_mismatch`, and blames the peer.

Where more is lacking than is worth asking for piece by piece, the whole document is asked for instead.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from agent.sources.source import DocumentPlace, Source
from agent.state.node import RunningNode
from snapshot import container
from snapshot.container import ChunkParts, Opening
from snapshot.limits import Limits
from snapshot.manifest import SectionEntry, parse_state
from store.base.errors import StoreError
from wire.endpoint import path

MOST_LACKING = 256
SHARE_HELD = 0.25  # of the content that has to lie here already


@dataclass(frozen=True)
class LackingSections:
    """What is signed, what each section is, and which of them lie here."""

    opening: Opening
    manifest: bytes
    entries: Mapping[str, SectionEntry]
    held: frozenset[str]

    @property
    def is_worth_it(self) -> bool:
        lacking = [entry for entry in self.entries.values() if entry.sha256 not in self.held]
        whole = sum(entry.size for entry in self.entries.values())
        return len(lacking) <= MOST_LACKING and sum(entry.size for entry in lacking) <= (1 - SHARE_HELD) * whole


async def find_lacking(node: RunningNode, source: Source, snapshot_id: str, scope: str) -> LackingSections | None:
    """None where nothing of the scope is held, and the whole is needed anyhow. ClientError; Rejected."""
    active = node.holdings.kept.active.get(scope)
    if active is None:
        return None
    limits = node.holdings.holder.limits
    place = DocumentPlace(path("v1", "manifests", snapshot_id))
    answer = await source.fetch(place, limit=_most_bytes(limits))
    opening, manifest, entries = await node.threads.verify(_read, answer.body, limits)
    return LackingSections(opening, manifest, entries, frozenset(entry.sha256 for entry in active.sections.values()))


async def assemble(node: RunningNode, source: Source, found: LackingSections) -> AsyncGenerator[bytes, None]:
    """The container, as it is asked for. ClientError, of the section that could not be had."""
    pieces = container.encode_opening(
        found.opening.envelope, found.opening.signatures, found.manifest, len(found.entries)
    )
    yield b"".join(pieces)
    for entry in found.entries.values():
        data = await _section_here(node, entry.sha256) if entry.sha256 in found.held else None
        if data is None:
            place = DocumentPlace(path("v1", "sections", entry.sha256))
            data = (await source.fetch(place, limit=max(1, entry.size))).body
            node.counters.add("sections_fetched")
        yield container.encode_section_head(len(data)) + data


async def _section_here(node: RunningNode, sha256: str) -> bytes | None:
    """None where it is damaged, or gone meanwhile: then it is asked for."""
    try:
        return await node.threads.read(node.store.get, f"sha256:{sha256}")
    except StoreError:
        return None


def _read(data: bytes, limits: Limits) -> tuple[Opening, bytes, Mapping[str, SectionEntry]]:
    parts = ChunkParts([data], limits)
    opening, manifest = parts.opening(), parts.manifest()
    return opening, manifest, parse_state(manifest, limits)


def _most_bytes(limits: Limits) -> int:
    signatures = limits.signatures * (limits.signature_bytes + 128)
    return limits.envelope_bytes + signatures + limits.manifest_bytes + 1024

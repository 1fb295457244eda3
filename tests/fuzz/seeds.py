"""Where each target starts from: the conformance vectors' documents and their parts, and the known answers."""

from collections.abc import Iterator
from pathlib import Path

from snapshot import canonical, manifest
from snapshot.container import ChunkParts, Opening
from snapshot.reasons import Rejected
from tests.fuzz.targets import PLACES, lab
from tests.known_answers.json_patch import EXAMPLES
from tests.known_answers.secret_shapes import HARMLESS, SECRETS

DOCUMENTS = Path(__file__).parent.parent / "vectors" / "documents"
MOST_BYTES = 32 * 1024  # larger ones cost more than they find


def containers() -> Iterator[bytes]:
    yield from (document.to_bytes() for document in lab().documents)
    for path in sorted(DOCUMENTS.glob("*.hfs")):
        if path.stat().st_size <= MOST_BYTES:
            yield path.read_bytes()


def envelopes() -> Iterator[bytes]:
    for data in containers():
        opening = _opening(data)
        if opening is not None:
            yield opening.envelope


def sections() -> Iterator[bytes]:
    """With the byte that names the place before each."""
    patches = [canonical.dumps(patch) for _, patch, _ in EXAMPLES.values()]
    texts = [canonical.dumps({"a": [text]}) for text in (*SECRETS.values(), *HARMLESS.values())]
    for data in containers():
        texts += _contents(data)
    for place in range(len(PLACES)):
        yield from (bytes([place]) + data for data in (patches if place == 1 else texts))


SEEDS = {"container": containers, "envelope": envelopes, "sections": sections}


def write(target: str, folder: Path) -> int:
    """A file for each seed; how many there are."""
    seeds = set(SEEDS[target]())
    for number, seed in enumerate(sorted(seeds)):
        (folder / f"seed-{number:04}").write_bytes(seed)
    return len(seeds)


def _opening(data: bytes) -> Opening | None:
    try:
        return ChunkParts([data]).opening()
    except Rejected:
        return None


def _contents(data: bytes) -> list[bytes]:
    """The manifest and the sections of a document, as far as they can be read."""
    found: list[bytes] = []
    try:
        parts = ChunkParts([data])
        parts.opening()
        found.append(parts.manifest())
        found += parts.sections([entry.size for entry in manifest.parse_state(found[0]).values()])
    except Rejected:
        pass
    return found

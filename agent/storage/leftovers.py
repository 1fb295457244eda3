"""Which files no other store lists any more, and which of these may go: those that nothing in its time needs. Pure, but
for the reading of heads.
"""

from collections.abc import Iterable, Iterator, Mapping

from agent.storage.judging import document_path
from snapshot.container import ChunkParts
from snapshot.manifest import parse_head
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from store.published_files import PublishedFiles

_HEADS, _DOCUMENTS, _TRUST = "heads/", "documents/", "trust/"


def find_missed(
    kept: PublishedFiles, listings: Iterable[Mapping[str, str]], missed: Mapping[str, float], now: float
) -> dict[str, float]:
    """What none of the others lists, and since when. On a reading thread: there are as many as a fleet has."""
    listed = frozenset[str]().union(*listings)
    return {path: missed.get(path, now) for path in kept.now() if path not in listed}


def find_leftovers(kept: PublishedFiles, paths: Iterable[str], now: float) -> list[str]:
    """Heads first: no head stands without what it announces. On a reading thread."""
    files = kept.now()
    ended = [path for path in paths if path in files and files[path].ends_at <= now and not path.startswith(_TRUST)]
    if any(path.startswith(_DOCUMENTS) for path in ended):
        needed = set(_listed_documents(kept, now))
        ended = [path for path in ended if path not in needed]
    return sorted(ended, key=lambda path: not path.startswith(_HEADS))


def _listed_documents(kept: PublishedFiles, now: float) -> Iterator[str]:
    """The documents that heads in their time list, also as coming. A head that cannot be read needs nothing."""
    for path, file in kept.now().items():
        if not path.startswith(_HEADS) or file.ends_at <= now:
            continue
        try:
            parts = ChunkParts(kept.pieces(path))
            parts.opening()
            head = parse_head(parts.manifest())
        except (Rejected, StoreError):
            continue
        for entry in (*head.scopes.values(), *head.candidates.values()):
            yield document_path(entry.snapshot_id)

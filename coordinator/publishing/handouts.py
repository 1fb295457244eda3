"""Small documents that were published or handed out last, in memory: a fleet that hears of one change asks for few.

Each was four readings and a thread's turn, for 2 KB that never change under their id.

Who may have one is judged for each request, by what the node's newest head lists or announces. That is narrower than
what the database allows (documents.py), so what is not found here is asked there: an older version, a node whose head
this process has not seen, one that was removed and whose head it has forgotten with it (board.py).

Losing this costs work, never correctness: it is bounded, and empty after a start.
"""

from collections import OrderedDict
from collections.abc import Iterable

from coordinator.database.documents import Document, container_of
from coordinator.publishing.board import News
from wire.messages import INLINE_DOCUMENTS

DOCUMENT_BYTES = 64 << 10  # of larger ones a reading is the smaller part
BESIDE_BYTES = 4_096  # of a larger one an increment may be much less, and a node that has the base asks for that
MOST_BYTES = 32 << 20
ASIDE_BYTES = 1_024  # about so much has each beside its own


class Handouts:
    """Of at most `most` bytes, those asked for last. Of the event loop alone."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[str, tuple[Document | bytes, int]] = OrderedDict()

    def keep(self, documents: Iterable[Document]) -> None:
        """Those that are small. Of one whose sections are named alone there are no bytes to keep."""
        for document in documents:
            if document.snapshot_id not in self._kept and all(isinstance(part, bytes) for part in document.sections):
                self._keep(document)

    def find(self, snapshot_id: str, news: News | None) -> bytes | None:
        """For the node whose newest head `news` is, where that names it. Made into its container once it is asked for:
        many of those that are published are not.
        """
        if news is None or snapshot_id not in news.names or snapshot_id not in self._kept:
            return None
        found, size = self._kept.pop(snapshot_id)
        sent = found if isinstance(found, bytes) else container_of(found)
        self._kept[snapshot_id] = sent, size
        return sent

    def beside(self, news: News, held: int, most: int) -> tuple[bytes, ...]:
        """What the head names anew, for a node that holds the one before it: of generation `held`. As many as are at
        hand, are small, and of `most` bytes together; what is left the node asks for.
        """
        found: list[bytes] = []
        for snapshot_id in news.new if news.follows == held else ():
            sent = self.find(snapshot_id, news)
            if sent is not None and len(sent) <= min(most, BESIDE_BYTES) and len(found) < INLINE_DOCUMENTS:
                found.append(sent)
                most -= len(sent)
        return tuple(found)

    def _keep(self, document: Document) -> None:
        size = ASIDE_BYTES + len(document.envelope) + len(document.manifest) + sum(map(len, document.section_bytes))
        if size > DOCUMENT_BYTES:
            return
        self._kept[document.snapshot_id] = document, size
        self._size += size
        while self._size > self._most:
            _, (_, gone) = self._kept.popitem(last=False)
            self._size -= gone

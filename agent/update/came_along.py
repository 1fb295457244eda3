"""Small documents that came with the newest head, until they are wanted or the next answer comes (wire/messages.py).

They are known by the id that each says of itself, before anybody has vouched for it: that decides only which one is
looked at in place of a request. What is looked at is then received and verified as if it had been fetched. What no head
of ours lists is never looked at, and is gone with the next answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.sources.source import Source
from agent.state.origins import Giver
from snapshot import canonical
from snapshot.container import Opening, Reader
from snapshot.identifiers import is_id
from snapshot.reasons import Rejected


@dataclass(frozen=True)
class AlongDocument:
    container: bytes
    giver: Giver


@dataclass
class CameAlong:
    """In memory alone; as many as an answer may have."""

    _documents: dict[str, AlongDocument] = field(default_factory=dict)

    def replace(self, containers: Sequence[bytes], source: Source) -> None:
        """By what a newer answer has brought; of two that say the same id the first one counts."""
        self._documents = {}
        for container in containers:
            if (snapshot_id := _claimed_id(container)) is not None:
                self._documents.setdefault(snapshot_id, AlongDocument(container, source.giver))

    def take(self, snapshot_id: str) -> AlongDocument | None:
        """Once: what is not taken then is asked for."""
        return self._documents.pop(snapshot_id, None)


def _claimed_id(container: bytes) -> str | None:
    reader = Reader()
    reader.receive_data(container)
    try:
        opening = reader.next_event()
        said = canonical.reread(opening.envelope) if isinstance(opening, Opening) else None
    except (Rejected, canonical.NotCanonical):
        return None
    claimed = said.get("snapshot_id") if isinstance(said, dict) else None
    return claimed if isinstance(claimed, str) and is_id(claimed) else None

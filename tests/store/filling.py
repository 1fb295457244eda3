"""Every pending slot taken, as a stolen key that signs scopes would, in one transaction."""

import pytest

from snapshot.container import ManifestRead, Opening, SectionRead
from snapshot.limits import DEFAULT
from store.base import pending
from store.base.pending import MOST_SLOTS, MOST_WAITING, Pending
from store.base.records import PendingRecord


def receive(slot: Pending, document) -> Pending:
    """The whole document, sealed."""
    slot.receive(Opening(document.envelope_bytes, document.signatures))
    slot.receive(ManifestRead(document.manifest_bytes))
    for section in document.sections:
        slot.receive(SectionRead(section))
    slot.seal(float(document.envelope.issued_at))
    return slot


def fill_slots(store, document, slots: int = MOST_SLOTS) -> None:
    """Each with the document, under a scope of its own; half of them wait for its `valid_from`. Each counts all that
    there are before it: here the last one does.
    """
    with store._environment.write() as transaction, pytest.MonkeyPatch.context() as uncounted:
        uncounted.setattr(pending, "_refuse_too_many_slots", lambda *_: None)
        uncounted.setattr(Pending, "_refuse_too_many", lambda *_: None)
        for number in reversed(range(slots)):
            if number == 0:
                uncounted.undo()
            record = PendingRecord(f"service_assignment/s{number}")
            slot = Pending(store._environment, lambda change, _: change(transaction), None, record, DEFAULT)
            receive(slot, document)
            if number < MOST_WAITING:
                slot.wait(document.envelope.valid_from)
    assert len(store.pending()) == slots

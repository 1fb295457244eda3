"""rules A13; protocol.md 3"""

import pytest

from store.base import journal
from store.base.errors import StoreError
from tests.store.cluster import NOW


def test_numbers_survive_restarts(node):
    first = node.store.journal.record("degraded", NOW, detail="head expired")
    node.reopen()
    second = node.store.journal.record("recovered", NOW + 1, "head")
    assert second == first + 1
    events = node.store.journal.events(first - 1)
    assert [(one.sequence, one.event, one.at, one.scope, one.detail) for one in events] == [
        (first, "degraded", NOW, "", "head expired"),
        (second, "recovered", NOW + 1, "head", ""),
    ]


def test_only_what_is_not_acknowledged_is_sent(node):
    """protocol.md 3"""
    numbers = [node.store.journal.record("degraded", NOW) for _ in range(5)]
    node.store.journal.acknowledge(numbers[2])
    assert [one.sequence for one in node.store.journal.events()] == numbers[3:]
    node.store.journal.acknowledge(numbers[0])  # it never goes back
    node.reopen()
    assert [one.sequence for one in node.store.journal.events()] == numbers[3:]
    node.store.journal.acknowledge(10**9)  # nor beyond what was written
    assert node.store.journal.events() == []
    assert node.store.journal.record("degraded", NOW) == numbers[-1] + 1
    assert len(node.store.journal.events()) == 1
    assert len(node.store.journal.events(0, most=3)) == 3


def test_it_is_bounded_and_counts_what_was_lost(node, monkeypatch):
    """rules A13"""
    monkeypatch.setattr(journal, "MOST_EVENTS", 10)
    numbers = [node.store.journal.record("degraded", NOW + number) for number in range(15)]
    held = node.store.journal.events(0)
    assert [one.sequence for one in held] == numbers[-10:]
    assert node.store.journal.lost_events() == 6  # five, and the bundle's


def test_text_is_bounded_and_escaped(node):
    """threats D-59"""
    node.store.journal.record("degraded", NOW, detail="bad\n\x00text" + "x" * 1000)
    detail = node.store.journal.events()[-1].detail
    assert len(detail) <= 256
    assert detail.isprintable()
    with pytest.raises(StoreError):
        node.store.journal.record("x" * 65, NOW)


def test_a_lost_event_leaves_no_gap(node):
    """rules A14: damage in the journal is told in it"""
    numbers = [node.store.journal.record("degraded", NOW) for _ in range(3)]
    with node.store._environment.write() as transaction:
        transaction.put("journal", journal.key_of(numbers[1]), b"rubbish")
    node.reopen()
    assert [one.event for one in node.store.journal.events(numbers[0] - 1)] == [
        "degraded",
        "record_lost",
        "degraded",
        "record_lost",
    ]

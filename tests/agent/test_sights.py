"""A service that was seen: the values."""

from dataclasses import asdict

from agent.state.sights import KEPT_S, PREFIX, WRITTEN_EVERY_S, SeenRunning, from_rows, next_sight

NOW = 1_900_000_000.0


def test_it_is_seen_again_and_since_when_stays():
    first = next_sight(None, NOW)
    assert first == SeenRunning(NOW, NOW)
    assert next_sight(first, NOW + 60, "node_runtime") == SeenRunning(NOW, NOW + 60, "node_runtime")
    assert next_sight(first, NOW + KEPT_S + 1).since == NOW + KEPT_S + 1, "after a long gap it begins anew"


def test_not_every_minute_is_written():
    written = SeenRunning(NOW, NOW)
    assert SeenRunning(NOW, NOW).is_worth_writing(None)
    assert not SeenRunning(NOW, NOW + WRITTEN_EVERY_S - 1).is_worth_writing(written)
    assert SeenRunning(NOW, NOW + WRITTEN_EVERY_S).is_worth_writing(written)
    assert SeenRunning(NOW, NOW, "node_runtime").is_worth_writing(written)


def test_the_stores_rows():
    sight = SeenRunning(NOW - 5, NOW, "node_runtime")
    rows = {PREFIX + "web": asdict(sight), "other/row": {"since": 1}, PREFIX + "odd": 7}
    assert from_rows(rows) == {"web": sight}

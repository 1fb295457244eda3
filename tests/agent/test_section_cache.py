"""Small sections kept in memory, bounded."""

from agent.local.section_cache import SMALL_BYTES, SmallSections


def test_the_oldest_go_first():
    small = SmallSections(most_bytes=100)
    for name in "abc":
        small.keep(name, name.encode() * 40)
    assert small.get("a") is None
    assert small.get("b") == b"b" * 40
    assert small.get("c") == b"c" * 40


def test_the_same_is_counted_once():
    small = SmallSections(most_bytes=100)
    for _ in range(5):
        small.keep("a", b"x" * 40)
    small.keep("b", b"y" * 40)
    assert small.get("a") == b"x" * 40


def test_large_ones_are_left_on_the_disk():
    small = SmallSections()
    small.keep("a", b"x" * (SMALL_BYTES + 1))
    assert small.get("a") is None

"""The machine's clocks are read, and nothing is made of them here."""

from agent.base.clock import SystemClock, is_synchronised


def test_the_boot_clock_rises_and_the_boot_has_a_name():
    clock = SystemClock()
    first, second = clock.read(), clock.read()
    assert second.boot.elapsed >= first.boot.elapsed > 0
    assert first.boot.boot_id == second.boot.boot_id
    assert len(first.boot.boot_id) == 36
    assert first.wall > 1_700_000_000


def test_whether_it_is_synchronised_is_known_or_not():
    """threats D-23"""
    assert is_synchronised() in (True, False, None)

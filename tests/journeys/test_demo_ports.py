"""Ports for programs that are told theirs: what several find at the same moment is never the same."""

from examples.demo.processes import LOWEST_PORT, free_ports

PLACES = 8


def test_whoever_has_another_place_finds_other_ports() -> None:
    found = [free_ports(20, place=place, places=PLACES) for place in range(PLACES)]
    assert len({port for ports in found for port in ports}) == 20 * PLACES
    for place, ports in enumerate(found):
        assert {(port - LOWEST_PORT) % PLACES for port in ports} == {place}


def test_whoever_is_alone_finds_any() -> None:
    assert len(set(free_ports(20))) == 20

"""Ports for programs that are told theirs: what several find at the same moment is never the same."""

from examples.demo.processes import LOWEST_PORT, free_ports
from tests.world import ports as of_worker

PLACES, MANY, MOST = 8, 100, 1000


def test_whoever_has_another_place_finds_other_ports() -> None:
    found = [free_ports(20, place=place, places=PLACES) for place in range(PLACES)]
    assert len({port for ports in found for port in ports}) == 20 * PLACES
    for place, ports in enumerate(found):
        assert {(port - LOWEST_PORT) % PLACES for port in ports} == {place}


def test_whoever_is_alone_finds_any() -> None:
    assert len(set(free_ports(20))) == 20


def test_a_worker_does_not_find_one_again_where_nobody_listens_yet(monkeypatch):
    """Of few: three machines of one test have fifteen, and each looks for its own."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(MANY))
    found = [port for _ in range(50) for port in of_worker.free_ports(1)]
    assert len(set(found)) == 50


def test_where_all_of_a_worker_were_found_lately_it_has_what_the_kernel_gives(monkeypatch):
    """On a machine of many processors there are fewer for each worker than it remembers."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(MOST))
    assert all(len(set(of_worker.free_ports(5))) == 5 for _ in range(20))

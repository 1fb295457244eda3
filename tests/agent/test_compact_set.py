"""Names in little memory answer as the names would."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from agent.state.compact_set import FEW, Hashed, compact, together

NAMES = st.lists(st.text(max_size=8), max_size=60)


@given(st.lists(NAMES, max_size=4), NAMES)
def test_a_name_is_there_if_it_was_given(parts, others):
    found = together([compact(part) for part in parts])
    given_names = {name for part in parts for name in part}
    assert all(name in found for name in given_names)
    assert [name for name in others if name in found] == [name for name in others if name in given_names]


def test_few_are_kept_as_they_are():
    few = [f"n{number}" for number in range(FEW)]
    assert together([compact(few), compact(["more"])]) == {*few, "more"}


def test_many_take_little():
    names = (f"route-{number:08}" for number in range(20_000))
    tracemalloc.start()
    try:
        kept = Hashed(names)
        assert tracemalloc.get_traced_memory()[0] < 10 * len(kept)
    finally:
        tracemalloc.stop()

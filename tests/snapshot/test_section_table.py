"""A state as its manifest has it says and becomes what one of objects does, whatever is asked of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import manifest
from snapshot.content import is_part
from snapshot.limits import Limits
from snapshot.manifest import SectionChange, SectionEntry
from snapshot.reasons import Rejected
from snapshot.section_table import (
    MOST_KNOWN,
    SectionTable,
    differing,
    family_of,
    first_raw,
    read_state,
    sizes_of,
    state_after,
    state_bytes,
)
from tests.examples import examples

NAMES = st.from_regex(r"\A[a-z0-9]([a-z0-9._-]{0,3}[a-z0-9])?\Z").filter(lambda name: ".." not in name)
ENTRIES = st.builds(
    SectionEntry, st.sampled_from(["0" * 64, "9a" * 32, "f" * 64]), st.integers(0, 10**15 - 1), st.booleans()
)
STATES = st.dictionaries(NAMES, ENTRIES, max_size=40)
CHANGES = st.dictionaries(NAMES, st.none() | ENTRIES, max_size=12)


def change_to(result: SectionEntry | None) -> SectionChange:
    return SectionChange("remove" if result is None else "set", result, result)


@given(STATES)
@examples(200)
def test_a_table_is_the_mapping_that_its_manifest_says(state: dict[str, SectionEntry]) -> None:
    data = manifest.state_bytes(state)
    table = read_state(data)
    assert isinstance(table, SectionTable) == bool(state)
    assert dict(table.items()) == manifest.parse_state(data) == state
    assert list(table) == sorted(state)
    assert list(table.values()) == [state[name] for name in sorted(state)]
    assert len(table) == len(state)
    assert state_bytes(table) == data


@given(STATES, NAMES)
@examples(200)
def test_each_section_is_found_and_no_other(state: dict[str, SectionEntry], other: str) -> None:
    table = read_state(manifest.state_bytes(state))
    made_up = [f'{name}":{{"sha256' for name in state]  # what a row begins with, as a name
    for name in (*made_up, *(name for pair in zip(state, made_up, strict=True) for name in pair), other, "", "~"):
        assert (name in table) == (name in state)
        assert table.get(name) == state.get(name)
    for name in made_up:
        assert name not in read_state(manifest.state_bytes(state))
    assert 7 not in table


@given(STATES, st.sampled_from(["a", "b", "a-b", "0"]), STATES)
@examples(200)
def test_the_parts_of_a_map_are_those_of_its_name(
    state: dict[str, SectionEntry], name: str, below: dict[str, SectionEntry]
) -> None:
    """format.md 10: `name` and `name.<part>`, whatever lies between the two"""
    state |= {f"{name}.{part}": entry for part, entry in below.items()} | {f"{name}-other": SectionEntry("0" * 64, 1)}
    wanted = {part: state[part] for part in sorted(state) if is_part(part, name)}
    table = read_state(manifest.state_bytes(state))
    for one in (state, table):
        found = family_of(one, name)
        assert dict(found.items()) == wanted
        assert sizes_of(found) == [entry.size for entry in found.values()]
        assert first_raw(found) == next((part for part in found if wanted[part].is_raw), None)
    assert isinstance(table, SectionTable)
    for place, part in enumerate(sorted(state)):
        assert table.place_of(part) == place
    assert table.place_of("~") == len(state)


@given(STATES, CHANGES)
@examples(300)
def test_an_increment_makes_the_same_of_a_table(
    state: dict[str, SectionEntry], changed: dict[str, SectionEntry | None]
) -> None:
    """The bytes are what the hash of the state is over (format.md 5)."""
    changes = {name: change_to(result) for name, result in changed.items()}
    after, table = manifest.state_after(state, changes), read_state(manifest.state_bytes(state))
    assert state_bytes(state_after(table, changes)) == manifest.state_bytes(after)
    assert dict(state_after(table, changes).items()) == after
    assert len(table) == len(state)
    assert len(state_after(table, changes)) == len(after), "counted on from that of the table"


@given(STATES, CHANGES)
@examples(300)
def test_what_differs_is_the_same_of_tables_and_of_objects(
    state: dict[str, SectionEntry], changed: dict[str, SectionEntry | None]
) -> None:
    after = manifest.state_after(state, {name: change_to(result) for name, result in changed.items()})
    wanted = frozenset(name for name in {*state, *after} if state.get(name) != after.get(name))
    one, other = read_state(manifest.state_bytes(state)), read_state(manifest.state_bytes(after))
    assert differing(one, other) == differing(other, one) == differing(state, after) == wanted
    assert differing(one, after) == wanted
    made = state_after(one, {name: change_to(result) for name, result in changed.items()})
    assert differing(one, made) == differing(made, one) == differing(other, made) | wanted == wanted


def test_of_many_changes_the_names_are_not_kept() -> None:
    """A table lives as long as its scope is active, and its names would be as many as its rows."""
    state = {f"s{number:03}": SectionEntry("0" * 64, 1) for number in range(2 * MOST_KNOWN)}
    table = read_state(manifest.state_bytes(state))
    for count in (MOST_KNOWN, MOST_KNOWN + 1):
        changes = {name: change_to(SectionEntry("f" * 64, 2)) for name in list(state)[:count]}
        after = state_after(table, changes)
        assert isinstance(after, SectionTable)
        assert (after.base is not None) == (count == MOST_KNOWN)
        assert differing(table, after) == changes.keys()


@given(STATES, STATES)
@examples(200)
def test_two_states_that_have_nothing_to_do_with_each_other(
    one: dict[str, SectionEntry], other: dict[str, SectionEntry]
) -> None:
    tables = [read_state(manifest.state_bytes(state)) for state in (one, other)]
    assert differing(*tables) == differing(one, other)


GOOD = manifest.state_bytes({"a": SectionEntry("0" * 64, 1), "b.c": SectionEntry("f" * 64, 20, is_raw=True)})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"a":', b'"b.d":'),  # order
        (b'"a":', b'"b.c":'),  # twice
        (b'"a":', b'"a..b":'),
        (b'"a":', b'"A":'),
        (b'"a":', b'"a-":'),
        (b'"a":', b'"' + b"a" * 129 + b'":'),
        (b'"raw"', b'"row"'),
        (b'"form":"raw",', b'"form":"raw","form":"raw",'),
        (b"0" * 64, b"0" * 63),
        (b"f" * 64, b"F" * 64),
        (b'"size":1}', b'"size":01}'),
        (b'"size":1}', b'"size":-1}'),
        (b'"size":1}', b'"size":1.0}'),
        (b'"size":1}', b'"size":9007199254740992}'),
        (b'"size":1}', b'"size":1,"x":2}'),
        (b'"size":1}', b'"size": 1}'),
        (b"},", b"}, "),
        (b"},", b"},,"),
        (b"},", b"}"),
        (b"20}}", b"20}"),
        (b"20}}", b"20}}}"),
        (b"20}}", b"20},}"),
        (b"{", b"[{"),
        (b'"a"', b'"\\u0061"'),
        (b'"a"', '"\N{LATIN SMALL LETTER A WITH DIAERESIS}"'.encode()),
    ],
)
def test_what_is_out_of_form_is_refused_as_it_is_value_by_value(old: bytes, new: bytes) -> None:
    data = GOOD.replace(old, new, 1)
    assert data != GOOD
    assert not manifest.is_plain_state(data)
    with pytest.raises(Rejected):
        read_state(data)


def test_a_size_of_sixteen_digits_is_read_value_by_value() -> None:
    entries = {"a": SectionEntry("0" * 64, 2**53 - 1)}
    assert read_state(manifest.state_bytes(entries)) == entries


def test_limits_hold_for_a_table() -> None:
    with pytest.raises(Rejected, match="too_large"):
        read_state(GOOD, Limits(sections=1))
    for limits in (Limits(json_depth=1), Limits(json_values=4), Limits(string_bytes=16)):
        with pytest.raises(Rejected, match="bad_content"):
            read_state(GOOD, limits)


def test_limits_that_let_in_more_sections_than_values_are_asked_of_what_is_there() -> None:
    """As a store's are, which reads what was judged before: each scope was kept as an object for each section there."""
    data = GOOD
    assert isinstance(read_state(data, Limits(sections=1 << 20)), SectionTable)
    assert not manifest.is_plain_state(data, Limits(json_values=4))
    assert not manifest.is_plain_state(data, Limits(sections=0))

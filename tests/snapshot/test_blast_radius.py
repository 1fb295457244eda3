"""How far a change reaches: counted, held against the guard and against a service's limits."""

import hashlib
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import canonical
from snapshot.blast_radius import ConsumerLimits, GuardRule, HeldSections, Size, check_limits, compare, guard, name_some
from snapshot.config_files import FILES, parse_index
from snapshot.manifest import SectionEntry
from tests.examples import examples
from tests.fakes.config_document import FileContent, config_sections

ROUTES = "route_policy"


class Reads:
    """What reads sections, and remembers which."""

    def __init__(self, sections):
        self.sections, self.names = sections, []

    def __call__(self, name):
        self.names.append(name)
        return self.sections[name]


def held(values, raw=frozenset()):
    sections = {name: value if isinstance(value, bytes) else canonical.dumps(value) for name, value in values.items()}
    entries = {
        name: SectionEntry(hashlib.sha256(data).hexdigest(), len(data), name in raw) for name, data in sections.items()
    }
    return HeldSections(entries, Reads(sections))


def routes(count, ttl_s=60):
    return {f"r{number}": {"ttl_s": ttl_s} for number in range(count)}


def rules(radius):
    return [excess.rule for excess in guard(radius)]


def of(before, after, scope_type=ROUTES):
    return compare(scope_type, held(before), held(after))


def files(contents):
    """Of paths to their bytes."""
    return folder({path: FileContent(data) for path, data in contents.items()})


def folder(contents):
    made = config_sections(contents)
    return held(made.sections, made.raw)


def test_entries_are_counted_over_all_sections():
    before = {"routes.00": {"a": 1, "b": 2}, "routes.01": {"c": 3}, "entry_policies": {"p": {}}}
    after = {"routes.00": {"a": 1, "b": 9}, "routes.01": {"c": 3}, "session_policies": {"s": {}, "t": {}}}
    radius = of(before, after)
    assert (radius.changed, radius.removed) == (1, 1)
    assert (radius.before.entries, radius.after.entries) == (4, 5)
    assert radius.before.bytes == sum(len(canonical.dumps(value)) for value in before.values())
    assert radius.emptied == ("entry_policies",)


@pytest.mark.parametrize(("changed", "found"), [(3, []), (4, [GuardRule.CHANGED])])
def test_more_than_three_of_ten_changed(changed, found):
    assert rules(of({"routes": routes(10)}, {"routes": {**routes(10), **routes(changed, 61)}})) == found


@pytest.mark.parametrize(("kept", "found"), [(7, []), (6, [GuardRule.REMOVED])])
def test_more_than_three_of_ten_removed(kept, found):
    assert rules(of({"routes": routes(10)}, {"routes": routes(kept)})) == found


def test_of_fewer_than_ten_a_share_says_nothing():
    assert rules(of({"routes": routes(9)}, {"routes": routes(1, 61)})) == []


def test_what_is_added_is_no_change():
    assert rules(of({"routes": routes(10)}, {"routes": routes(1_000)})) == []


@pytest.mark.parametrize("empty", [{}, {"routes": {}}, {"routes": []}, {"routes": None}, {"routes": ""}])
def test_a_section_that_becomes_empty_or_goes(empty):
    (excess,) = guard(of({"routes": {"a": 1}}, empty))
    assert (excess.rule, excess.found) == (GuardRule.EMPTIED, "routes would be empty")


def test_a_part_that_goes_is_no_section_that_becomes_empty():
    assert of({"routes.00": {"a": 1}, "routes.01": {"b": 1}}, {"routes.01": {"b": 1}}).emptied == ()
    assert of({"routes.00": {"a": 1}, "routes.01": {}}, {"routes.01": {}}).emptied == ("routes",)


def test_what_was_empty_may_stay_so():
    assert rules(of({"routes": {}, "other": {"a": 1}}, {"routes": [], "other": {"a": 1}})) == []


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [(32_768, 65_536, []), (32_767, 65_536, [GuardRule.GROWN]), (1_000, 65_535, []), (0, 1 << 20, [])],
)
def test_content_that_more_than_doubles(before, after, found):
    assert rules(compare("config", files({"a": b"x" * before}), files({"a": b"y" * after}))) == found


def test_a_first_publication_is_no_change():
    assert rules(compare(ROUTES, None, held({"routes": routes(1_000)}))) == []
    assert check_limits(compare(ROUTES, None, held({"routes": routes(3)})), ConsumerLimits(entries=2))


# ---- files


def test_files_of_a_config():
    before = files({"a": b"1", "b": b"2", "c": b"3", "d": b""})
    radius = compare("config", before, files({"a": b"1", "b": b"", "d": b"4", "e": b"5"}))
    assert (radius.changed, radius.removed, radius.emptied) == (2, 1, ("b",))
    assert (radius.before, radius.after) == (Size(4, 3), Size(4, 3))


HUNDRED = {f"sites/{number:02}.conf": b"x" * number for number in range(1, 101)}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (dict.fromkeys(list(HUNDRED)[:30], b"other"), []),
        (dict.fromkeys(list(HUNDRED)[:31], b"other"), ["31 of 100 entries changed (31 %)"]),
        (dict.fromkeys(list(HUNDRED)[:30]), []),
        (dict.fromkeys(list(HUNDRED)[:31]), ["31 of 100 entries removed (31 %)"]),
        ({"sites/07.conf": b""}, ["sites/07.conf would be empty"]),
        ({"sites/07.conf": b"y" * 1_000}, []),
    ],
)
def test_many_small_files(change, found):
    """Each counts as one, however small it is."""
    after = {path: data for path, data in {**HUNDRED, **change}.items() if data is not None}
    assert [excess.found for excess in guard(compare("config", files(HUNDRED), files(after)))] == found


def test_a_file_that_more_than_doubles_among_others():
    """The whole hardly grows; whoever reads that file has room for one (Cloudflare, November 2025)."""
    before = {**HUNDRED, "blob": b"x" * 1_000_000, "features": b"f" * 60_000, "rules": b"r" * 40_000}
    after = {**before, "features": b"f" * 120_001, "rules": b"r" * 120_001}
    (excess,) = guard(compare("config", files(before), files(after)))
    assert (excess.rule, excess.found) == (GuardRule.GROWN, "rules: 120,001 bytes, after 40,000")
    for size, found in ((120_000, []), (120_001, ["features: 120,001 bytes, after 60,000"])):
        radius = compare("config", files(before), files({**before, "features": b"f" * size}))
        assert [excess.found for excess in guard(radius)] == found


def test_a_mode_is_a_change_of_a_file():
    one, other = (folder({"a": FileContent(b"1", mode)}) for mode in ("0600", "0644"))
    assert compare("config", one, other).changed == 1


def test_of_files_the_indexes_alone_are_read():
    before, after = files({"a": b"1", "b": b"2"}), files({"a": b"1", "b": b"3"})
    radius = compare("config", before, after)
    assert radius.changed == 1
    assert guard(radius) == ()
    assert check_limits(radius, ConsumerLimits(2, 2, 0)) == ()
    assert (before.read.names, after.read.names) == ([FILES], [FILES])


# ---- what is read


def test_a_section_that_stays_is_not_read():
    before, after = held({"a": routes(1), "b": routes(50)}), held({"a": {**routes(1), "x": 1}, "b": routes(50)})
    assert guard(compare(ROUTES, before, after)) == ()
    assert (before.read.names, after.read.names) == (["a"], ["a"])


def test_where_the_differing_sections_are_too_much_by_themselves_the_others_are_counted():
    before, after = held({"a": routes(20), "b": routes(50)}), held({"a": {}, "b": routes(50)})
    assert rules(compare(ROUTES, before, after)) == [GuardRule.EMPTIED]  # 20 of 70
    assert (before.read.names, after.read.names) == (["a"], ["a", "b"])


# ---- a service's limits


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (ConsumerLimits(), []),
        (ConsumerLimits(entries=6), []),
        (ConsumerLimits(entries=5), ["at most 5"]),
        (ConsumerLimits(bytes=10), ["at most 10"]),
        (ConsumerLimits(removed_percent=40), []),
        (ConsumerLimits(removed_percent=39), ["at most 39 % at a time"]),
        (ConsumerLimits(1, 1, 0), ["at most 1", "at most 1", "at most 0 % at a time"]),
    ],
)
def test_limits(limits, expected):
    radius = of({"routes": routes(10)}, {"routes": routes(6)})
    assert [excess.expected for excess in check_limits(radius, limits)] == expected


def test_an_allowed_plan_lifts_what_may_go_and_nothing_else():
    radius = of({"routes": routes(10)}, {"routes": routes(6)})
    limits = ConsumerLimits(1, 1, 0)
    assert [excess.rule for excess in check_limits(radius, limits, is_allowed=True)] == ["bytes", "entries"]
    assert check_limits(radius, replace(limits, entries=6, bytes=1_000), is_allowed=True) == ()


def test_words():
    radius = of({"routes": routes(12)}, {"routes": routes(5)})
    (excess,) = guard(radius)
    assert excess.words == "7 of 12 entries removed (58 %); at most 30 % at a time, from 10 on"
    assert name_some("abcdefg") == "a, b, c, d, e and 2 more"


# ---- properties

VALUES = st.integers(0, 3) | st.text("xy", max_size=2) | st.lists(st.integers(0, 2), max_size=2)
STATES = st.dictionaries(
    st.sampled_from(["routes.00", "routes.01", "routes.02", "peers", "x"]),
    st.dictionaries(st.sampled_from([f"m{number}" for number in range(12)]), VALUES, max_size=12),
    max_size=5,
)


def counted(before, after):
    """The slow way: every entry of every section."""
    old = {(name, member): value for name, section in before.items() for member, value in section.items()}
    new = {(name, member): value for name, section in after.items() for member, value in section.items()}
    return (
        sum(new.get(key, value) != value for key, value in old.items()),
        sum(key not in new for key in old),
        Size(len(old), sum(len(canonical.dumps(section)) for section in before.values())),
        Size(len(new), sum(len(canonical.dumps(section)) for section in after.values())),
    )


@examples(300)
@given(STATES, STATES)
def test_what_is_counted_is_what_there_is(before, after):
    radius = of(before, after)
    assert (radius.changed, radius.removed, radius.before, radius.after) == counted(before, after)


@examples(300)
@given(STATES, STATES, st.randoms(use_true_random=False), st.integers(0, 20), st.integers(0, 100))
def test_a_verdict_follows_from_the_states_alone(before, after, chance, entries, percent):
    """Not from the order of sections, their parts or members, and not from how often it is asked."""
    limits = ConsumerLimits(entries, 40, percent)
    first = of(before, after)
    wanted = (guard(first), check_limits(first, limits))
    again = of(shuffled(before, chance), shuffled(after, chance))
    assert (guard(again), check_limits(again, limits)) == wanted
    assert (guard(first), check_limits(first, limits)) == wanted


@examples(200)
@given(STATES, STATES, st.permutations(range(12)))
def test_a_verdict_does_not_follow_from_names(before, after, order):
    """Members that are called otherwise are as many, and as far apart."""

    def renamed(state):
        return {
            name: {f"n{order[int(member[1:])]:02}": value for member, value in section.items()}
            for name, section in state.items()
        }

    def rules_and_numbers(one, other):
        return [(excess.rule, excess.found) for excess in guard(of(one, other))]

    assert rules_and_numbers(renamed(before), renamed(after)) == rules_and_numbers(before, after)


@examples(200)
@given(STATES)
def test_nothing_changed_is_never_too_much(state):
    radius = of(state, state)
    assert guard(radius) == ()
    assert check_limits(radius, ConsumerLimits(removed_percent=0)) == ()


def shuffled(state, chance: random.Random):
    """As it could have been written by another hand."""
    names = list(state)
    chance.shuffle(names)
    return {name: state[name] for name in names}


CONTENTS = st.dictionaries(
    st.sampled_from([f"d/f{n}" for n in range(12)]), st.sampled_from([b"", b"1", b"22"]), max_size=12
)


@examples(200)
@given(CONTENTS, CONTENTS)
def test_files_are_counted_as_the_index_has_them(before, after):
    one, other = files(before), files(after)
    radius = compare("config", one, other)
    old, new = (parse_index(canonical.loads(state.read.sections[FILES])) for state in (one, other))
    assert (radius.before.entries, radius.after.entries) == (len(old), len(new))
    assert radius.changed == sum(before[path] != after[path] for path in before.keys() & after.keys())
    assert radius.removed == len(before.keys() - after.keys())
    assert radius.after.bytes == sum(map(len, after.values()))

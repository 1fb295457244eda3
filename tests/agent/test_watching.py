"""What watchers are told: enough, also when it is not known what they have seen."""

from dataclasses import dataclass
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from agent.base.generation import Generation
from agent.files.maps import ROUTES_SCOPE
from agent.local.watching import (
    EVERY_ROUTE,
    REMEMBERED,
    REMEMBERED_BYTES,
    Changelog,
    _differences,
    _differing,
)
from snapshot import canonical
from snapshot.manifest import SectionEntry


@dataclass(frozen=True)
class FakeDocument:
    sections: dict[str, int]


@dataclass(frozen=True)
class FakeScope:
    document: FakeDocument


@dataclass(frozen=True)
class FakeView:
    generation: int
    scopes: dict[str, FakeScope]


def view(generation: int, **scopes: dict[str, int]) -> FakeView:
    return FakeView(generation, {name: FakeScope(FakeDocument(sections)) for name, sections in scopes.items()})


def test_sections_that_came_changed_and_went():
    changelog = Changelog()
    changelog.observe(changelog.look_at(view(1, routes={"a": 1, "b": 1})))
    changelog.observe(changelog.look_at(view(2, routes={"a": 2, "c": 1}, qos={"p": 1})))
    changelog.observe(changelog.look_at(view(4, qos={"p": 1})))
    assert changelog.since(1) == {"routes": {"a", "b", "c"}, "qos": {"p"}}
    assert changelog.since(2) == {"routes": {"a", "c"}}
    assert changelog.since(3) == {"routes": {"a", "c"}}
    assert changelog.since(4) == {}


def test_an_empty_scope_that_comes_or_goes_is_named():
    changelog = Changelog()
    changelog.observe(changelog.look_at(view(1)))
    changelog.observe(changelog.look_at(view(2, empty={})))
    changelog.observe(changelog.look_at(view(3)))
    assert changelog.since(1) == {"empty": frozenset()}
    assert changelog.since(2) == {"empty": frozenset()}


def test_what_is_not_known_any_more_is_everything():
    changelog = Changelog()
    for generation in range(5, 5 + REMEMBERED + 10):
        changelog.observe(changelog.look_at(view(generation, routes={"a": generation, "b": 0})))
    everything = {"routes": {"a", "b"}}
    assert changelog.since(1) == changelog.since(6) == everything
    assert changelog.since(10**9) == everything  # of another store
    assert changelog.since(generation - 1) == {"routes": {"a"}}


def test_names_are_kept_in_bounded_memory_and_the_last_change_is_always_known():
    """A scope of 20,000 sections that all change with each version would hold 2 MiB more after each."""
    changelog = Changelog()
    names = [f"{number}".rjust(REMEMBERED_BYTES // 40, "n") for number in range(10)]
    for generation in range(1, 9):
        changelog.observe(changelog.look_at(view(generation, routes=dict.fromkeys(names, generation))))
    assert sum(step.size for step in changelog.steps) <= REMEMBERED_BYTES
    assert changelog.since(1) == {"routes": set(names)}  # not known any more
    changelog.observe(changelog.look_at(view(9, other=dict.fromkeys([*names, "n" * REMEMBERED_BYTES], 1))))
    assert len(changelog.steps) == 1
    assert changelog.since(8).keys() == {"routes", "other"}  # also what has gone


states = st.dictionaries(st.sampled_from(["x", "y"]), st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)))


@given(st.lists(states, min_size=2, max_size=12), st.data())
def test_never_less_than_has_changed(history, data):
    changelog = Changelog()
    for generation, state in enumerate(history):
        changelog.observe(changelog.look_at(view(generation, **state)))
    after = data.draw(st.integers(0, len(history) - 1))
    needed = _differences(history[after], history[-1])
    told = changelog.since(after)
    assert all(name in told and sections <= told[name] for name, sections in needed.items())


async def test_a_generation_only_rises():
    """rules P4: late, doubled and reordered notifications replace nothing."""
    generation = Generation(5)
    for value in (3, 7, 6, 7):
        generation.tell(value)
    assert generation.value == 7
    assert await generation.wait_above(6) == 7


class Routes:
    """Of a document of routes, in parts, as far as the comparison looks at it."""

    def __init__(self, parts: dict[str, dict[str, int]]) -> None:
        self._parts = {f"routes.{name}": canonical.dumps(routes) for name, routes in parts.items()}
        self.sections = {name: SectionEntry(sha256(data).hexdigest(), len(data)) for name, data in self._parts.items()}

    def read(self, name: str) -> bytes:
        return self._parts[name]


def compare(old: Routes, new: Routes) -> frozenset[str]:
    changed = _differences({ROUTES_SCOPE: old.sections}, {ROUTES_SCOPE: new.sections})
    return _differing(old, new, changed.get(ROUTES_SCOPE, frozenset()))


routes = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 2))
parted = st.dictionaries(st.sampled_from(["00", "01", "02"]), routes, max_size=3)


def in_one(parts: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: value for part in sorted(parts) for name, value in parts[part].items()}


def is_a_map(parts: dict[str, dict[str, int]]) -> bool:
    """Each route in one part, as it is signed."""
    return sum(map(len, parts.values())) == len(in_one(parts))


@given(parted.filter(is_a_map), parted.filter(is_a_map))
def test_routes_that_changed_are_those_of_the_whole(before, after):
    """Compared part by part, whichever part a route has gone to"""
    was, now = in_one(before), in_one(after)
    changed = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
    assert compare(Routes(before), Routes(after)) == changed


def test_more_routes_than_are_named_are_all():
    before = {f"{part:02x}": {f"r{part}-{number}": 0 for number in range(300)} for part in range(40)}
    after = {part: dict.fromkeys(names, 1) for part, names in before.items()}
    old, new = Routes(before), Routes(after)
    read = []
    new.read = lambda name: read.append(name) or Routes.read(new, name)
    assert compare(old, new) == EVERY_ROUTE
    assert len(read) < 5

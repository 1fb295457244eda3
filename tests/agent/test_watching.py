"""What watchers are told: enough, also when it is not known what they have seen."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from agent.base.generation import Generation
from agent.local.watching import REMEMBERED, Changelog, _differences


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
    changelog.observe(view(1, routes={"a": 1, "b": 1}))
    changelog.observe(view(2, routes={"a": 2, "c": 1}, qos={"p": 1}))
    changelog.observe(view(4, qos={"p": 1}))
    assert changelog.since(1) == {"routes": {"a", "b", "c"}, "qos": {"p"}}
    assert changelog.since(2) == {"routes": {"a", "c"}}
    assert changelog.since(3) == {"routes": {"a", "c"}}
    assert changelog.since(4) == {}


def test_an_empty_scope_that_comes_or_goes_is_named():
    changelog = Changelog()
    changelog.observe(view(1))
    changelog.observe(view(2, empty={}))
    changelog.observe(view(3))
    assert changelog.since(1) == {"empty": frozenset()}
    assert changelog.since(2) == {"empty": frozenset()}


def test_what_is_not_known_any_more_is_everything():
    changelog = Changelog()
    for generation in range(5, 5 + REMEMBERED + 10):
        changelog.observe(view(generation, routes={"a": generation, "b": 0}))
    everything = {"routes": {"a", "b"}}
    assert changelog.since(1) == changelog.since(6) == everything
    assert changelog.since(10**9) == everything  # of another store
    assert changelog.since(generation - 1) == {"routes": {"a"}}


states = st.dictionaries(st.sampled_from(["x", "y"]), st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)))


@given(st.lists(states, min_size=2, max_size=12), st.data())
def test_never_less_than_has_changed(history, data):
    changelog = Changelog()
    for generation, state in enumerate(history):
        changelog.observe(view(generation, **state))
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

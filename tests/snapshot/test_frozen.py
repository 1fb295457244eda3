"""snapshot/frozen.py: what `@frozen` makes is what `dataclass(frozen=True)` makes, without functions of its own."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from snapshot.frozen import frozen, mutable


@frozen
class Shared:
    """Members of every kind."""

    name: str
    size: int = 3
    labels: dict[str, str] = field(default_factory=dict)
    beside: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Written:
    """The same as the standard library has it."""

    name: str
    size: int = 3
    labels: dict[str, str] = field(default_factory=dict)
    beside: object = field(default=None, compare=False, repr=False)


@frozen
class Below(Shared):
    more: int = 7


@frozen(kw_only=True)
class ByName:
    one: int
    two: int = 2


@frozen
class Begun:
    one: int
    twice: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.one)


CALLS: list[tuple[tuple[object, ...], dict[str, object]]] = [
    (("a",), {}),
    (("a", 4), {}),
    (("a",), {"size": 5, "labels": {"x": "y"}}),
    ((), {"name": "a", "beside": object()}),
    ((), {}),
    (("a",), {"name": "b"}),
    (("a",), {"unknown": 1}),
    (("a", 1, {}, None, 5), {}),
]


@pytest.mark.parametrize(("given", "named"), CALLS)
def test_it_takes_what_the_standard_one_takes(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    def made(cls: Callable[..., object]) -> object:
        try:
            return repr(cls(*given, **named)).partition("(")[2], vars(cls(*given, **named)).keys()
        except TypeError:
            return TypeError

    assert made(Shared) == made(Written)


def test_equal_ones_are_equal_and_of_one_hash() -> None:
    one, other = ByName(one=1), ByName(one=1, two=2)
    assert one == other
    assert hash(one) == hash(other)
    assert one != ByName(one=1, two=3)
    assert Shared("a", beside=1) == Shared("a", beside=2)
    written: object = Written("a")
    assert Shared("a") != written
    assert Shared("a") != Below("a")


def test_nothing_of_it_is_set_anew() -> None:
    one = Shared("a")
    with pytest.raises(FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del one.name
    assert one == Shared("a")


def test_it_is_a_dataclass() -> None:
    assert replace(Shared("a"), size=9) == Shared("a", 9)
    assert asdict(Below("a")) == {"name": "a", "size": 3, "labels": {}, "beside": None, "more": 7}
    assert [member.name for member in fields(Below)] == ["name", "size", "labels", "beside", "more"]
    match Below("a", 4):
        case Below(name, size):
            assert (name, size) == ("a", 4)


def test_members_by_name_alone() -> None:
    with pytest.raises(TypeError, match="ByName: of one, two one is missing"):
        ByName(1)  # type: ignore[call-arg]


def test_what_it_works_out_itself_is_no_argument() -> None:
    assert Begun(2).twice == 4
    with pytest.raises(TypeError):
        Begun(2, twice=5)  # type: ignore[call-arg]


def test_each_has_members_of_its_own() -> None:
    one, other = Shared("a"), Shared("a")
    one.labels["x"] = "y"
    assert other.labels == {}


@mutable
class Counted:
    name: str
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class WrittenCounted:
    name: str
    counts: dict[str, int] = field(default_factory=dict)


def test_a_mutable_one_is_as_the_standard_librarys() -> None:
    ours, theirs = Counted("a"), WrittenCounted("a")
    for each in (ours, theirs):
        each.name = "b"
        each.counts["x"] = 1
    assert asdict(ours) == asdict(theirs) == {"name": "b", "counts": {"x": 1}}
    assert repr(ours) == repr(theirs).removeprefix("Written")
    assert ours == Counted("b", {"x": 1}) != Counted("b")
    assert Counted("a").counts is not Counted("a").counts
    for each in (ours, theirs):
        with pytest.raises(TypeError, match="unhashable"):
            hash(each)
    with pytest.raises(TypeError):
        Counted()  # type: ignore[call-arg]

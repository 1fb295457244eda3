"""Dataclasses that share their methods, for all that is loaded before the agent's first answer.

    @frozen                     as `dataclass(frozen=True)`
    @frozen(kw_only=True)       likewise, with members by name alone
    @mutable                    as `dataclass`

`dataclass` writes six functions for each class and compiles them. For the 200 classes that an agent loads before it
answers, that was more than half of what it needs beyond its libraries. Here no source is written: the methods go by the
members' names. What is made is a dataclass in every other way: `fields`, `replace`, `asdict`, patterns.

What it costs: comparing two takes longer, and each has a table of names of its own. So what there are thousands of
(`SectionEntry`) stays `@dataclass`, with slots. Whoever inherits from one of these is `@frozen` as well.

Rejected: attrs, which writes and compiles as much; loading modules once something is asked of them, since the first
answer is about nearly all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def frozen(cls: type[T] | None = None, /, *, kw_only: bool = False) -> type[T] | Callable[[type[T]], type[T]]:
    def decorate(cls: type[T]) -> type[T]:
        return _with_methods(cls, _FROZEN, kw_only=kw_only)

    return decorate if cls is None else decorate(cls)


@dataclass_transform(field_specifiers=(field, Field))
def mutable(cls: type[T], /) -> type[T]:
    return _with_methods(cls, _MUTABLE)


def replace_members(one: T, **members: object) -> T:
    """As `replace`, of one of these that keeps nothing beside its members and makes nothing of them: in a fifth of the
    time.
    """
    if not members.keys() <= vars(one).keys():
        raise TypeError(f"{type(one).__qualname__} has not all of {', '.join(sorted(members))}")
    made = object.__new__(type(one))
    vars(made).update(vars(one), **members)
    return made


def _with_methods(cls: type[T], own: Mapping[str, object], *, kw_only: bool = False) -> type[T]:
    """What the class says itself stays."""
    said = vars(cls).keys()
    made = dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    for name, method in {**_methods(made), **own}.items():
        if name not in said:
            setattr(made, name, method)
    return made


def _methods(cls: type[Any]) -> dict[str, Callable[..., Any]]:
    members = fields(cls)
    shown = tuple(member.name for member in members if member.repr)
    compared = tuple(member.name for member in members if member.compare)
    hashed = tuple(member.name for member in members if (member.compare if member.hash is None else member.hash))

    def __repr__(self: object) -> str:  # noqa: N807 - becomes the class's own, as those below
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({inside})"

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(tuple([getattr(self, name) for name in hashed]))

    return {
        "__init__": _initializer(cls, members),
        "__repr__": __repr__,
        "__eq__": __eq__,
        "__hash__": __hash__,
    }


def _initializer(cls: type[Any], members: tuple["Field[Any]", ...]) -> Callable[..., None]:
    """TypeError for a member that is missing, unknown or given twice."""
    by_place = tuple(member.name for member in members if member.init and not member.kw_only)
    own = frozenset(member.name for member in members if not member.init)
    defaults = {member.name: member.default for member in members if member.default is not MISSING}
    made = [(member.name, member.default_factory) for member in members if member.default_factory is not MISSING]
    wanted = frozenset(member.name for member in members) - (own - defaults.keys() - dict(made).keys())
    most = len(wanted)
    begin = getattr(cls, "__post_init__", None)

    def __init__(self: object, /, *given: object, **named: object) -> None:  # noqa: N807
        told = len(given) + len(named)
        if given:
            named.update(zip(by_place, given, strict=False))
        once = len(named) == told and (not own or own.isdisjoint(named))
        if told != most:
            named = {**defaults, **named}
            for name, make in made:
                if name not in named:
                    named[name] = make()
        if not once or named.keys() != wanted:
            raise TypeError(
                f"{cls.__qualname__}: of {', '.join(sorted(wanted))} one is missing, unknown or given twice"
            )
        self.__dict__.update(named)
        if begin is not None:
            begin(self)

    return __init__


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_FROZEN = {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
_MUTABLE = {"__hash__": None}  # two that are equal now may not be so later

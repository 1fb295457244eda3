"""What applying a set of resources would change: the declared against the kept. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from coordinator.declared.kinds import Resource
from coordinator.declared.model import Key
from snapshot import canonical


@dataclass(frozen=True)
class ResourceChange:
    """One resource before and after; None where it is not."""

    before: Resource | None
    after: Resource | None

    @property
    def key(self) -> Key:
        resource = self.after or self.before
        if resource is None:
            raise AssertionError("a change has at least one side")
        return resource.key

    @property
    def verb(self) -> str:
        if self.before is None:
            return "create"
        return "delete" if self.after is None else "change"

    @property
    def title(self) -> str:
        """For people: `~ Node n1`."""
        sign = {"create": "+", "delete": "-", "change": "~"}[self.verb]
        return f"{sign} {' '.join(self.key)}"

    def lines(self) -> Iterator[str]:
        """For people: the title, and one line for each member that differs."""
        yield self.title
        if self.verb == "change":
            yield from changed_members(*self.specs)

    @cached_property
    def specs(self) -> tuple[object, object]:
        """The specification before and after, as JSON; None where there is none. Plan, answer, row and audit say it:
        it is written out once.
        """
        old = None if self.before is None else self.before.spec()
        return old, None if self.after is None else self.after.spec()


def changes(
    kept: Mapping[Key, Resource], declared: Mapping[Key, Resource], *, prune: bool
) -> tuple[ResourceChange, ...]:
    """In the order of kind and id. Without `prune` what is not declared stays."""
    found = [
        ResourceChange(kept.get(key), resource)
        for key, resource in sorted(declared.items())
        if kept.get(key) != resource
    ]
    if prune:
        found += [ResourceChange(resource, None) for key, resource in sorted(kept.items()) if key not in declared]
    return tuple(sorted(found, key=lambda each: each.key))


def differences(old: object, new: object, path: str = "spec") -> Iterator[tuple[str, object, object]]:
    """Each member that differs: its path, the old value, the new one (None where there is none)."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() | new.keys(), key=str):
            yield from differences(old.get(name), new.get(name), f"{path}.{name}")
    elif not _is_same(old, new):
        yield path, old, new


def _is_same(old: object, new: object) -> bool:
    """As values of JSON: 1 and true are two, 1 and 1.0 are one."""
    if isinstance(old, str) and isinstance(new, str):
        return old == new
    return canonical.dumps(old) == canonical.dumps(new)


def changed_members(before: object, after: object) -> Iterator[str]:
    """A line for each member of a specification that differs."""
    for path, old, new in differences(before, after):
        yield f"    {path}: {_as_yaml(old)} -> {_as_yaml(new)}"


def _as_yaml(value: object) -> str:
    """As YAML writes it, too; what is not there is `unset`."""
    return "unset" if value is None else canonical.dumps(value).decode()

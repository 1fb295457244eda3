"""What changed between two states of a scope, said in the fewest bytes: set, remove, or patch (format.md 5). Pure.

changes(before, read, after)   each section that differs, and the bytes that an increment brings for it
difference(old, new)           RFC 6902 operations that turn one JSON value into another
"""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from coordinator.declared.compiler import StoredSection, entry_of
from snapshot import canonical
from snapshot.limits import DEFAULT
from snapshot.manifest import SectionChange, SectionEntry

Operation = dict[str, object]


@dataclass(frozen=True)
class Delta:
    """`brought`: the bytes of each section that is set, and of each patch."""

    changes: Mapping[str, SectionChange]
    brought: Mapping[str, bytes | StoredSection]


def changes(
    before: Mapping[str, SectionEntry],
    read: Callable[[str], bytes],
    after: Mapping[str, bytes | StoredSection],
    raw: Set[str] = frozenset(),
    always: Set[str] = frozenset(),
) -> Delta:
    """`read(name)` gives the bytes of a section as it was. Those of `raw` are no JSON: nothing patches them. Those of
    `always` are brought as they are also where nothing changes: a renewal is an increment as any other.
    """
    found: dict[str, SectionChange] = {
        name: SectionChange("remove", None, None) for name in before if name not in after
    }
    brought: dict[str, bytes | StoredSection] = {}
    for name, data in after.items():
        entry = entry_of(data, is_raw=name in raw)
        old = before.get(name)
        if old == entry:
            continue
        patch = None
        if isinstance(data, bytes) and old is not None and not (old.is_raw or entry.is_raw):
            patch = _patch(read(name), data)
        brought[name] = data if patch is None else patch
        op = entry if patch is None else entry_of(patch)
        found[name] = SectionChange("set", op, op) if patch is None else SectionChange("patch", op, entry)
    for name in always - found.keys():
        brought[name] = after[name]
        entry = entry_of(after[name], is_raw=name in raw)
        found[name] = SectionChange("set", entry, entry)
    return Delta(found, brought)


def difference(old: object, new: object, pointer: str = "") -> Iterator[Operation]:
    """Operations in an order in which they apply. The pointer "" appears only where the whole value is another."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _of_objects(old, new, pointer)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_arrays(old, new, pointer)
    elif canonical.dumps(old) != canonical.dumps(new):  # so 1 is not true, as in a reader's patch
        yield {"op": "replace", "path": pointer, "value": new}


def _patch(old: bytes, new: bytes) -> bytes | None:
    """A patch that is smaller than the section itself and within a reader's limits; None where there is none."""
    operations = list(difference(canonical.loads(old), canonical.loads(new)))
    if len(operations) > DEFAULT.patch_operations:
        return None
    if any(not operation["path"] for operation in operations):  # as deep as a pointer may reach, a section is at most
        return None
    encoded = canonical.dumps(operations)
    # A patch names the result as well in the manifest: about a hundred bytes.
    return encoded if len(encoded) + 100 < len(new) else None


def _of_objects(old: dict[str, object], new: dict[str, object], pointer: str) -> Iterator[Operation]:
    for name in sorted(old.keys() | new.keys()):
        path = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in new:
            yield {"op": "remove", "path": path}
        elif name not in old:
            yield {"op": "add", "path": path, "value": new[name]}
        else:
            yield from difference(old[name], new[name], path)


def _of_arrays(old: list[object], new: list[object], pointer: str) -> Iterator[Operation]:
    """What both have at the start and at the end stays; between, elements are replaced, then removed or added."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    both = min(len(before), len(after))
    for index in range(both):
        yield from difference(before[index], after[index], f"{pointer}/{start + index}")
    for _ in before[both:]:
        yield {"op": "remove", "path": f"{pointer}/{start + both}"}
    for index in range(both, len(after)):
        yield {"op": "add", "path": f"{pointer}/{start + index}", "value": after[index]}


def _common(old: list[object], new: list[object]) -> int:
    """How many elements at the start are the same."""
    for count, (left, right) in enumerate(zip(old, new, strict=False)):
        if canonical.dumps(left) != canonical.dumps(right):
            return count
    return min(len(old), len(new))

"""Which selectors can select a node, found by what the node is instead of one by one (rules K21). Pure.

    index = SelectionIndex((config.to, config) for config in configs)
    index.candidates("n1", roles=("ingress",), labels={"zone": "a"})    # `selects` has the last word

A fleet in which each node has a folder of its own has as many selectors as nodes: asking every one of them for every
node is their product, seconds of work for four thousand. Each selector is kept under what a node must have at least:
one of its node ids, or its first label, or else one of its roles.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from coordinator.declared.kinds import Selector

Item = TypeVar("Item")
Handle = tuple[str, ...]
_ANY_NODE: Handle = ("any",)


class SelectionIndex(Generic[Item]):
    def __init__(self, items: Iterable[tuple[Selector, Item]]) -> None:
        self._items: list[Item] = []
        self._by_handle: dict[Handle, list[int]] = defaultdict(list)
        for place, (selector, item) in enumerate(items):
            self._items.append(item)
            for handle in _handles_of(selector):
                self._by_handle[handle].append(place)

    def candidates(self, node_id: str, roles: Iterable[str], labels: Mapping[str, str]) -> list[Item]:
        """All that can select such a node, and maybe some that do not; in the order in which they were given."""
        handles = [_ANY_NODE, ("node", node_id)]
        handles += [("role", role) for role in roles]
        handles += [("label", name, value) for name, value in labels.items()]
        places = {place for handle in handles for place in self._by_handle.get(handle, ())}
        return [self._items[place] for place in sorted(places)]


def _handles_of(selector: Selector) -> Iterator[Handle]:
    if selector.is_empty:
        yield _ANY_NODE
    yield from (("node", node_id) for node_id in selector.nodes)
    if selector.labels:
        yield "label", *min(selector.labels.items())
    else:
        yield from (("role", role) for role in selector.roles)

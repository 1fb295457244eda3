"""What each node is told before and after a change, where the two differ (rules K21). Pure.

    compiled_pairs(before_of, after_of, touched, read)    each scope of each node that is told something else

change_impact.py names what a change can touch, too much rather than too little; here it is compiled. Rejected:
comparing views instead of what is compiled, since whom a document is for is a difference, too; and keeping contents,
since a fleet's are more than memory: each pair is shown once, to who looks at it, and forgotten.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from coordinator.configs.compiled_contents import CompiledContents
from coordinator.declared import views
from coordinator.declared.change_impact import Touched
from coordinator.declared.compiler import ScopeContent
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from snapshot.identifiers import Scope

ModelOf = Callable[[str], Model]
"""By node id: what is compiled for it."""


class CompiledPair(NamedTuple):
    """`after`: None where the scope is withdrawn."""

    node_id: str
    scope: Scope
    before: ScopeContent
    after: ScopeContent | None


def compiled_pairs(
    before_of: ModelOf, after_of: ModelOf, touched: Collection[Touched], read: ReadPart
) -> Iterator[CompiledPair]:
    """In the order of nodes and scopes. Nothing is compiled for a node that has nothing of the scope."""
    contents: dict[int, CompiledContents] = {}

    def compile_(model: Model, node_id: str, scope: Scope) -> ScopeContent | None:
        known = contents.get(id(model))
        if known is None:
            known = contents[id(model)] = CompiledContents(model, read)
        return known.find(node_id, scope)

    for node_id, scope in sorted(touched):
        before = compile_(before_of(node_id), node_id, scope)
        if before is None:
            continue
        after = compile_(after_of(node_id), node_id, scope)
        if after is not before and not (after is not None and _is_equal(before, after)):
            yield CompiledPair(node_id, scope, before, after)


def is_given_scope(model: Model, node_id: str, scope: Scope) -> bool:
    subject = model.subjects.get(node_id)
    return subject is not None and views.holds(model, subject, scope)


def _is_equal(one: ScopeContent, other: ScopeContent) -> bool:
    """In what it says, and for whom."""
    said = one.sections == other.sections and one.raw == other.raw
    return said and (one.audience, one.is_shared) == (other.audience, other.is_shared)

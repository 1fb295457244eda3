"""What the nodes of one batch are told by one model: what says the same to many is compiled or hashed once."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from coordinator.declared import views
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from snapshot.identifiers import Scope

MOST_BYTES, MOST_COMMON_BYTES = 16 << 20, 64 << 20  # of contents that are kept: equal ones, and of nodes that are alike
EACH_BYTES = 256  # what a section takes beside its own


@dataclass
class CompiledContents:
    """What a scope says of nodes that are alike (`views.alike`) is compiled for the first of them: a Config may have
    thousands of files, and a policy of a whole fleet was compiled a thousand times to find one content, as was a
    service that all of them run. Of others the equal contents are one, so that it is hashed once.

    Where each is told something of its own, as in directories, a fleet's contents are more than memory. So beyond
    these bounds what is kept goes, and what is asked for once more is compiled once more.
    """

    model: Model
    read: ReadPart
    _common: dict[tuple[Scope, Hashable], ScopeContent] = field(default_factory=dict)
    _equal: dict[tuple[object, ...], ScopeContent] = field(default_factory=dict)
    _common_bytes: int = 0
    _equal_bytes: int = 0

    def compile(self, node_id: str, scope: Scope) -> ScopeContent:
        """As `compile_scope`."""
        return self._of_those_alike(node_id, scope, views.alike(self.model, node_id, scope))

    def find(self, node_id: str, scope: Scope) -> ScopeContent | None:
        """None for a node that is given nothing of the scope."""
        subject = self.model.subjects.get(node_id)
        if subject is None or not views.holds(self.model, subject, scope):
            return None
        return self._of_those_alike(node_id, scope, views.alike_of(self.model, subject, scope))

    def _of_those_alike(self, node_id: str, scope: Scope, alike: Hashable | None) -> ScopeContent:
        if alike is None:
            return self._compile(node_id, scope)
        known = self._common.get((scope, alike))
        if known is None:
            known = self._compile(node_id, scope)
            self._common_bytes += _size(known)
            if self._common_bytes > MOST_COMMON_BYTES:
                self._common.clear()
                self._common_bytes = _size(known)
            self._common[scope, alike] = known
        return known

    def _compile(self, node_id: str, scope: Scope) -> ScopeContent:
        content = compile_scope(self.model, node_id, scope, self.read)
        key = (scope, content.audience, content.is_shared, content.raw, *content.sections.items())
        known = self._equal.get(key)
        if known is None:
            self._equal_bytes += _size(content)
            if self._equal_bytes > MOST_BYTES:
                self._equal.clear()
                self._equal_bytes = _size(content)
            known = self._equal[key] = content
        return known


def _size(content: ScopeContent) -> int:
    sections = content.sections.values()
    return sum(EACH_BYTES + (len(section) if isinstance(section, bytes) else 0) for section in sections)

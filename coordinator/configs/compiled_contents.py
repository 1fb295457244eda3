"""What the nodes of one batch are told by one model: what says the same to many is compiled or hashed once."""

from dataclasses import dataclass, field

from coordinator.declared import views
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from snapshot.identifiers import Scope


@dataclass
class CompiledContents:
    """A Config that is shared says the same to all who are given it, whatever roles they have, and may have thousands
    of files: it is compiled once.
    """

    model: Model
    read: ReadPart
    _common: dict[Scope, ScopeContent] = field(default_factory=dict)
    _equal: dict[tuple[object, ...], ScopeContent] = field(default_factory=dict)

    def compile(self, node_id: str, scope: Scope) -> ScopeContent:
        """As `compile_scope`."""
        subject = self.model.subjects.get(node_id)
        if scope in self._common and subject is not None and views.holds(self.model, subject, scope):
            return self._common[scope]
        content = compile_scope(self.model, node_id, scope, self.read)
        if scope.type == CONFIG and content.is_shared:
            self._common[scope] = content
        key = (scope, content.audience, content.is_shared, content.raw, *content.sections.items())
        return self._equal.setdefault(key, content)

"""What a node would have of a scope, as files: the sections as JSON; of a Config its own files. Pure."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from coordinator.declared import views
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.config_scope import CONFIG, FILES
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from snapshot import canonical

SECTION_MODE = "0644"


@dataclass(frozen=True)
class RenderedFile:
    """One file of one scope. Its bytes are read when they are asked for, a section at a time."""

    scope: str
    name: str
    mode: str
    sections: tuple[str, ...]
    content: ScopeContent

    @property
    def place(self) -> str:
        """Where it lies below the folder of everything that a node has."""
        return f"{self.scope}/{self.name}"

    @property
    def size(self) -> int:
        return sum(self.content.entries[name].size for name in self.sections)

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        return (self.content.section(name) for name in self.sections)


def files_of(model: Model, node_id: str, read: ReadPart, config: str | None = None) -> Iterator[RenderedFile]:
    """Of all scopes of a member, or of one Config; none where it is not given that."""
    for scope in views.scopes(model, model.subjects[node_id]):
        if config is None or (scope.type, scope.ids) == (CONFIG, (config,)):
            yield from _of_scope(compile_scope(model, node_id, scope, read))


def _of_scope(content: ScopeContent) -> Iterator[RenderedFile]:
    scope = content.scope.name
    if content.scope.type != CONFIG:
        names = sorted(content.sections)
        yield from (RenderedFile(scope, f"{name}.json", SECTION_MODE, (name,), content) for name in names)
        return
    index = canonical.loads(content.section(FILES))
    if not isinstance(index, dict):
        raise AssertionError("an index is an object by path")
    for path, entry in sorted(index.items()):
        yield RenderedFile(scope, path, entry["mode"], tuple(entry["sections"]), content)

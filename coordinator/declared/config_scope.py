"""The scope type `config`: a folder of files, each Config a scope of its own. Pure.

What files hold is no part of the model. A view names their parts by hash, and of a template the node's own values that
it asks for: so two views are equal exactly where the node would be given the same bytes, and nobody need read them to
know it. The compiler reads (compiler.py).
"""

from collections.abc import Hashable, Mapping

from coordinator.declared.assignment import configs_for, is_given
from coordinator.declared.kinds import Config, Resource
from coordinator.declared.model import Model, Subject
from coordinator.declared.scope_view import (
    DRAINING,
    MEMBER,
    ScopeView,
    Sections,
    ValueOrigin,
    node_sources,
    resource_of,
    way_of_selection,
    write_once,
)
from coordinator.declared.templates import LABEL, values_of
from snapshot.identifiers import Scope
from wire.operators.fleet_answers import DeclaredSource

CONFIG = "config"
FILES = "files"
OWNER = "owner"  # of a view alone: whose it is, which stands in the envelope of a document
MOST_NAMED = 10  # scopes in a sentence


class ConfigFolders(ScopeView):
    """Configs have a scope each, so that a bad file keeps out its own folder and nothing beside it."""

    TYPE = CONFIG
    SHOWN = (Config,)
    TELLS_OF_NODE = True  # where a file is a template

    def scopes(self, model: Model, subject: Subject) -> tuple[Scope, ...]:
        given = configs_for(model.configs_by_selector, subject)
        return tuple(Scope(CONFIG, (config.id,)) for config in given)

    def has(self, model: Model, subject: Subject, scope: Scope) -> bool:
        config = model.configs.get(scope.ids[0]) if len(scope.ids) == 1 else None
        return config is not None and is_given(config, subject)

    def scope_of(self, resource: Resource) -> Scope:
        return Scope(CONFIG, (resource.id,))

    def concerns(self, _model: Model, resource: Resource, subject: Subject) -> bool:
        return isinstance(resource, Config) and is_given(resource, subject)

    def sections(self, model: Model, subject: Subject, scope: Scope) -> Sections:
        config = model.configs[scope.ids[0]]
        files = write_once(model, CONFIG, config, _files)
        asking = {path: file.stored_content.names for path, file in config.files.items() if file.stored_content.names}
        if asking and isinstance(files, dict):
            values = values_of(subject, model.cluster_id)
            own = {path: {name: values.get(name) for name in names} for path, names in asking.items()}
            files = {**files, **{path: {**files[path], "values": own[path]} for path in own}}
        owner = {OWNER: {"organization_id": config.organization}} if config.organization else {}
        return {**owner, FILES: files}

    def is_common(self, model: Model, _subject: Subject, scope: Scope) -> bool:
        return not any(file.template for file in model.configs[scope.ids[0]].files.values())

    def alike(self, model: Model, subject: Subject, scope: Scope) -> Hashable | None:
        """Whatever roles they have; what a template says is for one of them."""
        return () if self.is_common(model, subject, scope) else None

    def origin(self, model: Model, subject: Subject, scope: Scope, section: str, entry: str) -> ValueOrigin:
        """A template's text is written from the node, too: from what is declared of it, and from its entry."""
        config = resource_of(model, Config, scope.ids[0])
        sources = [DeclaredSource(Config.KIND, config.id)]
        if section == OWNER:
            return ValueOrigin("whose it is", tuple(sources))
        content = config.files[entry].stored_content
        if any(name.startswith(LABEL) for name in content.names):
            sources += node_sources(model, subject)
        if any(name in ("node.kind", "node.site") for name in content.names):
            sources.append(DeclaredSource(MEMBER, subject.node_id))
        said = content.origin or "its content"
        return ValueOrigin(f"{said}; `to` selects {way_of_selection(config.to, subject)}", tuple(sources))

    def why(self, model: Model, subject: Subject, scope: Scope) -> str:
        config = model.configs[scope.ids[0]]
        return f"`to` of Config {config.id} selects {way_of_selection(config.to, subject)}"

    def why_not(self, model: Model, subject: Subject, scope: Scope) -> str:
        if len(scope.ids) != 1:
            names = ", ".join(scope.name for scope in self.scopes(model, subject)[:MOST_NAMED])
            return f"each Config has a scope of its own: {names or 'none is for this node'}"
        config = model.configs.get(scope.ids[0])
        if config is None:
            return f"no Config {scope.ids[0]} is declared"
        if config.organization and not subject.serves(config.organization):
            return f"the node does not serve {config.organization}, whose Config it is"
        if not subject.may_get(config.key):
            return DRAINING
        return f"Config {config.id} is not for this node (to)"


def _files(config: Config) -> Mapping[str, object]:
    return {
        path: {
            "parts": list(file.stored_content.parts),
            "size": file.stored_content.size,
            "mode": file.mode,
            **({"values": {}} if file.template else {}),
        }
        for path, file in config.files.items()
    }

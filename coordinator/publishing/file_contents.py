"""Contents of declared files, read from the database while a declaration is settled (config_files.py)."""

from collections.abc import Mapping

from coordinator.configs import config_files, template_checks
from coordinator.configs.config_files import SchemaCheck, SettledFiles
from coordinator.database import catalog, uploads
from coordinator.database.database import Database
from coordinator.declared.contents import UploadedFile
from coordinator.declared.kinds import Config, EgressResource
from coordinator.declared.model import Key, Model
from coordinator.declared.resources import Declared
from coordinator.declared.value_shapes import Shapes
from coordinator.publishing import published_state


def settle(
    database: Database, declared: Mapping[Key, Declared], uploaded: Mapping[str, UploadedFile], shapes: Shapes
) -> SettledFiles:
    """config_files.settle, from one consistent reading."""
    if not any(isinstance(entry.resource, (Config, EgressResource)) for entry in declared.values()):
        return SettledFiles(dict(declared))
    with database.read() as transaction:
        kept = uploads.existing_parts(transaction, _named_parts(declared, uploaded))
        before = catalog.load(transaction).resources
        return config_files.settle(declared, uploaded, kept, published_state.reader(transaction), shapes, before)


def checks_of(settled: SettledFiles, after: Model) -> list[SchemaCheck]:
    """All that schemas are to judge: of templates each text that a node of the state `after` it would be given."""
    return [*settled.checks, *template_checks.checks_of(after, settled.templates)]


def are_said_parts_kept(
    database: Database, declared: Mapping[Key, Declared], uploaded: Mapping[str, UploadedFile]
) -> bool:
    """Whether what settled Configs say themselves is there: what nobody has declared, retention.py trims."""
    said = _named_parts(declared, {}) - _named_parts({}, uploaded)
    if not said:
        return True
    with database.read() as transaction:
        return uploads.existing_parts(transaction, said) == said


def _named_parts(declared: Mapping[Key, Declared], uploaded: Mapping[str, UploadedFile]) -> set[str]:
    """All parts that a declaration could count on."""
    configs = (entry.resource for entry in declared.values() if isinstance(entry.resource, Config))
    shown = (file.content for config in configs for file in config.files.values() if file.content is not None)
    rows = [*(upload.parts for upload in uploaded.values()), *(file.parts for file in shown)]
    return {part for parts in rows for part in parts}

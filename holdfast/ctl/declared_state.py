"""What files declare, read without a coordinator: the state that it would make of them, as if all that is declared had
joined.

    load(places)    DeclaredState; InvalidResources with everything that is wrong

It is the coordinator's own code, so it says what an apply would say. What only a member has (its certificate, so whom
others are told of) is not there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from coordinator.configs import config_files, template_checks
from coordinator.configs.config_files import SchemaCheck, SettledFiles
from coordinator.declared import foresight, resources, value_shapes
from coordinator.declared.contents import UploadedFile
from coordinator.declared.model import Model
from holdfast.ctl import declared_contents, declared_files
from holdfast.ctl.declared_contents import PartReader


@dataclass(frozen=True)
class DeclaredState:
    """`read`: what files hold, by hash."""

    model: Model
    read: PartReader
    settled: SettledFiles

    def schema_checks(self) -> list[SchemaCheck]:
        """All that JSON Schemas are to judge."""
        return [*self.settled.checks, *template_checks.checks_of(self.model, self.settled.templates)]


def load(places: Sequence[Path]) -> DeclaredState:
    texts = declared_contents.without_contents(declared_files.read(places))
    if not texts:
        raise click.UsageError(f"no {' or '.join(declared_files.SUFFIXES)} file in {', '.join(map(str, places))}")
    contents = declared_contents.read(texts)
    uploads = {name: UploadedFile(content.size, content.parts) for name, content in contents.items()}
    reader, shapes = PartReader(contents.values()), value_shapes.shipped_shapes()
    settled = config_files.settle(resources.read(texts, shapes), uploads, reader.parts, reader, shapes, {})
    reader.said.update(settled.parts)
    found = {key: entry.resource for key, entry in settled.declared.items()}
    cluster_id = foresight.cluster_id_of(found.values())
    resources.check(settled.declared, {}, cluster_id)
    return DeclaredState(foresight.with_declared_members(Model(cluster_id, found)), reader, settled)

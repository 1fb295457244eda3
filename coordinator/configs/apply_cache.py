"""The files that were read last: a plan that was shown is carried out without reading them again.

`holdfastctl apply` sends the same files twice, to show the plan and to have it carried out, and YAML costs more to read
than to apply. What is kept are the resources, which the catalog holds too once they are applied, and where each begins;
not where its members were written, so whatever is found wrong with them is said only after another reading.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordinator.base.releasing import ReleasedInSlices
from coordinator.declared import resources
from coordinator.declared.contents import UploadedFile
from coordinator.declared.model import Key
from coordinator.declared.resources import Declared
from coordinator.declared.value_shapes import Shapes
from coordinator.declared.yaml_source import YamlDocument


@dataclass(frozen=True)
class ReadDeclaration(ReleasedInSlices):
    """What files declare. `judged_in`: the state whose nodes' texts the schemas of templates fit; None where no schema
    judges a template, so nothing depends on the nodes.
    """

    declared: Mapping[Key, Declared]
    judged_in: str | None = None

    def is_judged(self, state_id: str) -> bool:
        return self.judged_in in (None, state_id)


@dataclass
class LastRead:
    """Of one coordinator; for any thread. `shapes`: what values are taken for secrets (value_shapes.py)."""

    shapes: Shapes
    _kept: tuple[bytes, ReadDeclaration] = field(default=(b"", ReadDeclaration({})))

    def look_for(self, shapes: Shapes) -> None:
        """Another table: what was read by the former is not known any more."""
        self.shapes, self._kept = shapes, (b"", ReadDeclaration({}))

    def lookup(self, texts: Mapping[str, str], uploads: Mapping[str, UploadedFile]) -> ReadDeclaration | None:
        """What these files declare, where they are those that were read last."""
        digest, known = self._kept
        return known if digest == _digest(texts, uploads) else None

    def read(self, texts: Mapping[str, str]) -> Mapping[Key, Declared]:
        """InvalidResources with all that is wrong."""
        return resources.read(texts, self.shapes)

    def keep(self, texts: Mapping[str, str], uploads: Mapping[str, UploadedFile], found: ReadDeclaration) -> None:
        """What they declare, once their contents are settled (config_files.py)."""
        bare = {key: _without_lines(entry) for key, entry in found.declared.items()}
        self._kept = _digest(texts, uploads), replace(found, declared=bare)


def _without_lines(entry: Declared) -> Declared:
    """But its first."""
    return replace(entry, source=YamlDocument(None, {(): entry.source.line(())}))


def _digest(texts: Mapping[str, str], uploads: Mapping[str, UploadedFile]) -> bytes:
    digest = hashlib.sha256()
    for name, text in sorted(texts.items()):
        _add(digest, name, text)
    for name, upload in sorted(uploads.items()):
        _add(digest, name, str(upload.size), *upload.parts)
    return digest.digest()


def _add(digest: "hashlib._Hash", *texts: str) -> None:
    """So that no two rows of texts are one."""
    digest.update(len(texts).to_bytes(8, "big"))
    for part in (text.encode("utf-8", "surrogatepass") for text in texts):
        digest.update(len(part).to_bytes(8, "big") + part)

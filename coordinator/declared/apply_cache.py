"""The files that were read last: a plan that was shown is carried out without reading them again.

`holdfastctl apply` sends the same files twice, to show the plan and to have it carried out, and YAML costs more to read
than to apply. What is kept are the resources, which the catalog holds too once they are applied; not where each was
written, so whatever is found wrong with them is said only after another reading.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.declared import resources
from coordinator.declared.contents import UploadedFile
from coordinator.declared.model import Key
from coordinator.declared.resources import Declared
from coordinator.declared.value_shapes import Shapes
from coordinator.declared.yaml_source import YamlDocument

_NOWHERE = YamlDocument(None, {})


@dataclass
class LastRead:
    """Of one coordinator; for any thread. `shapes`: what values are taken for secrets (value_shapes.py)."""

    shapes: Shapes
    _kept: tuple[bytes, Mapping[Key, Declared]] = field(default=(b"", {}))

    def look_for(self, shapes: Shapes) -> None:
        """Another table: what was read by the former is not known any more."""
        self.shapes, self._kept = shapes, (b"", {})

    def lookup(self, texts: Mapping[str, str], uploads: Mapping[str, UploadedFile]) -> Mapping[Key, Declared] | None:
        """What these files declare, where they are those that were read last."""
        digest, declared = self._kept
        return declared if digest == _digest(texts, uploads) else None

    def read(self, texts: Mapping[str, str]) -> Mapping[Key, Declared]:
        """InvalidResources with all that is wrong."""
        return resources.read(texts, self.shapes)

    def keep(
        self, texts: Mapping[str, str], uploads: Mapping[str, UploadedFile], declared: Mapping[Key, Declared]
    ) -> None:
        """What they declare, once their contents are settled (config_files.py)."""
        bare = {key: Declared(entry.resource, entry.file, _NOWHERE) for key, entry in declared.items()}
        self._kept = _digest(texts, uploads), bare


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

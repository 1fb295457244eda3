"""The files that were read last: a plan that was shown is carried out without reading them again.

`holdfastctl apply` sends the same files twice, to show the plan and to have it carried out, and YAML costs more to read
than to apply. What is kept are the resources, which the catalog holds too once they are applied; not where each was
written, so whatever is found wrong with them is said only after another reading.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.declared import resources
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

    def known(self, texts: Mapping[str, str]) -> Mapping[Key, Declared] | None:
        """What these files declare, where they are those that were read last."""
        digest, declared = self._kept
        return declared if digest == _digest(texts) else None

    def read(self, texts: Mapping[str, str]) -> Mapping[Key, Declared]:
        """InvalidResources with all that is wrong."""
        declared = resources.read(texts, self.shapes)
        bare = {key: Declared(each.resource, each.file, _NOWHERE) for key, each in declared.items()}
        self._kept = _digest(texts), bare
        return declared


def _digest(texts: Mapping[str, str]) -> bytes:
    digest = hashlib.sha256()
    for name, text in sorted(texts.items()):
        for part in (name.encode("utf-8", "surrogatepass"), text.encode("utf-8", "surrogatepass")):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()

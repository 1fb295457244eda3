"""Which members an operator asks about: of a site, with labels, in a state. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.base.refusal import Code, Refused

MOST_LABELS = 16


@dataclass(frozen=True)
class Selection:
    """What is left out is not asked for. `state` is as fleet.py says it: `unseen`, `silent`, `revoked`, or a node's."""

    site_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    state: str | None = None

    def takes(self, site_id: str, labels: Mapping[str, str], state: str) -> bool:
        if self.site_id not in (None, site_id) or self.state not in (None, state):
            return False
        return all(labels.get(name) == value for name, value in self.labels.items())


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    """Of `name=value`, each."""
    if len(texts) > MOST_LABELS or not all("=" in text for text in texts):
        raise Refused(Code.BAD_REQUEST, f"a label is name=value, at most {MOST_LABELS} times")
    return dict(text.split("=", 1) for text in texts)

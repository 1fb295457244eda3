"""Where each active document came from, for people who ask why it is there; nothing is decided by it (rules L3)."""

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from itertools import islice

from wire.local.node_status import DocumentOrigin

ROW = "origins"
MOST = 200  # a row of a table is bounded


@dataclass(frozen=True)
class Origin:
    """`kind`: whether it came whole or as an increment. `source`: a URL, `join`, `import`, or `pending`."""

    snapshot_id: str
    source: str
    kind: str

    def to_message(self) -> DocumentOrigin:
        """For the status."""
        return DocumentOrigin(**asdict(self))


def after(before: Mapping[str, Origin], new: Mapping[str, Origin], active: Container[str]) -> dict[str, Origin]:
    """Of what is active now, the newest first."""
    together = {**new, **{scope: origin for scope, origin in before.items() if scope not in new}}
    return dict(islice(((scope, origin) for scope, origin in together.items() if scope in active), MOST))


def row(origins: Mapping[str, Origin]) -> dict[str, dict[str, str]]:
    return {scope: asdict(origin) for scope, origin in origins.items()}


def from_row(value: object) -> dict[str, Origin]:
    """What is not in form is not known."""
    rows = value.items() if isinstance(value, dict) else ()
    try:
        return {str(scope): Origin(**origin) for scope, origin in rows}
    except TypeError:
        return {}

"""Where each active document came from, for people who ask why it is there; nothing is decided by it (rules L3).

Who gave a document is noted when it was judged, by its id, and stays when it is taken out of its slot later: what was
fetched as a candidate, or waited for its time, came from there all the same. Over a restart that is forgotten, and such
a document came out of its slot (`pending`).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from itertools import islice

from snapshot.frozen import mutable
from wire.messages import WAYS, DocumentOrigin

ROW = "origins"
MOST = 200  # a row of a table is bounded
MOST_GIVERS = 1024


@dataclass(frozen=True)
class Giver:
    """Who gave a document: `name` a URL, `join`, `import`, or `pending`; `way` one of `WAYS`, or nothing where that is
    not known; `node_id` of a peer.
    """

    name: str
    way: str = ""
    node_id: str = ""

    @classmethod
    def by_name(cls, name: str) -> "Giver":
        """That is no source: its name is its way."""
        return cls(name, name if name in WAYS else "")


@mutable
class Givers:
    """Of the documents that were judged last."""

    _by_id: dict[str, Giver] = field(default_factory=dict)

    def note(self, snapshot_id: str, giver: Giver) -> None:
        self._by_id.pop(snapshot_id, None)
        self._by_id[snapshot_id] = giver
        while len(self._by_id) > MOST_GIVERS:
            del self._by_id[next(iter(self._by_id))]

    def find(self, snapshot_id: str) -> Giver | None:
        return self._by_id.get(snapshot_id)


@dataclass(frozen=True)
class Origin:
    """`kind`: whether it came whole or as an increment. `source`, `way`, `node_id`: who gave it."""

    snapshot_id: str
    source: str
    kind: str
    way: str = ""
    node_id: str = ""

    @classmethod
    def of(cls, snapshot_id: str, giver: Giver, kind: str) -> "Origin":
        return cls(snapshot_id, giver.name, kind, giver.way, giver.node_id)

    def to_message(self) -> DocumentOrigin:
        """For the status and the report."""
        return DocumentOrigin(self.snapshot_id, self.source, self.kind, self.way or None, self.node_id or None)


def after(before: Mapping[str, Origin], new: Mapping[str, Origin], active: Container[str]) -> dict[str, Origin]:
    """Of what is active now, the newest first."""
    together = {**new, **{scope: origin for scope, origin in before.items() if scope not in new}}
    return dict(islice(((scope, origin) for scope, origin in together.items() if scope in active), MOST))


def row(origins: Mapping[str, Origin]) -> dict[str, dict[str, str]]:
    return {scope: dict(vars(origin)) for scope, origin in origins.items()}


def from_row(value: object) -> dict[str, Origin]:
    """What is not in form is not known."""
    rows = value.items() if isinstance(value, dict) else ()
    try:
        return {str(scope): Origin(**origin) for scope, origin in rows}
    except TypeError:
        return {}

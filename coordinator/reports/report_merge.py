"""What a report changes of the record of its node, and what it is answered (rules S3, S87, K37, K41). Pure.

merge(record, heartbeat, known)    the new record, and how the report stands against what was published
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from coordinator.database.documents import TRUST_BUNDLE
from coordinator.reports.checkin import Comparison, ReportedMark, compare, compare_all
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from snapshot import canonical
from wire.messages import SCOPES_MAX


class RecordedMarks(dict[str, ReportedMark]):
    """By scope what is on record of one node; nobody changes it once it is made. Its texts are written once: from one
    report of a node to the next it is the same (heartbeats.py).
    """

    @cached_property
    def text(self) -> str:
        """As it is kept: numbers and a hash, which need no escapes."""
        return canonical.join(
            {
                scope: f'[{mark.authority_epoch},{mark.config_version},"{mark.content_hash}"]'
                for scope, mark in self.items()
            }
        )

    @cached_property
    def answer(self) -> str:
        """As a node is told of it (protocol 3)."""
        return canonical.join(
            {
                scope: f'{{"authority_epoch":{mark.authority_epoch},"config_version":{mark.config_version}}}'
                for scope, mark in self.items()
            }
        )


@dataclass(frozen=True)
class NodeRecord:
    """What is kept of a node: the highest mark that it reported of what was published for it, by scope, at most
    SCOPES_MAX; and what was acknowledged. `features`: by which it is given what it is given (features.py).
    """

    incarnation: str = ""
    recorded: RecordedMarks = field(default_factory=RecordedMarks)
    acknowledged_event: int = 0
    features: frozenset[str] | None = None


@dataclass(frozen=True)
class Known:
    """What the coordinator knows of one node beside its record. `doubts`: reported versions that were never published
    for it. `announced`: what its head lists, read for a node that is behind; None where no head is out.
    """

    doubts: Mapping[str, Comparison] = field(default_factory=dict)
    announced: Mapping[str, ReportedMark] | None = None

    def verdict(self, scope: str, found: Comparison, reported: ReportedMark | None) -> Comparison:
        """`found`: how the report differs from the record. EQUAL: the report is right, and the record is to follow."""
        if found is Comparison.NODE_AHEAD:
            return self.doubts.get(scope, Comparison.EQUAL)
        if found is not Comparison.NODE_BEHIND or self.announced is None or scope == TRUST_BUNDLE:
            return found  # no recovery leads below a bundle, and it may be out before the head that lists it
        listed = self.announced.get(scope)
        if listed is None or compare(listed, reported) is Comparison.EQUAL:
            return Comparison.EQUAL
        return found


@dataclass(frozen=True)
class RecordedAnswer:
    """The answer to a heartbeat; `comparisons`: the scopes that are behind, ahead, or in conflict (rules K37, K41)."""

    generation: int
    acknowledged_event: int
    recorded: RecordedMarks
    comparisons: Mapping[str, Comparison]

    def to_bytes(self) -> bytes:
        """As protocol 3 has it, in canonical JSON."""
        numbers = f'"acknowledged_event":{self.acknowledged_event},"directives":[],"generation":{self.generation}'
        return f'{{{numbers},"recorded":{self.recorded.answer}}}'.encode()

    @property
    def is_behind(self) -> bool:
        """The node was restored from an old disk: it is to recover."""
        return Comparison.NODE_BEHIND in self.comparisons.values()


def merge(
    previous: NodeRecord | None, heartbeat: ReceivedHeartbeat, known: Known | None = None
) -> tuple[NodeRecord, Mapping[str, Comparison]]:
    """The new record, and how the report stands against the old one and against what was published.

    A mark goes up to what was published for this node, and down only to what its head announces after a recovery, or
    where its head lists the scope no more (rules S3, S87).
    """
    record, known = previous or NodeRecord(), known or Known()
    differs = compare_all(record.recorded, heartbeat.active)
    if not differs and not heartbeat.journal and record.incarnation == heartbeat.incarnation:
        return record, differs  # nearly every report
    marks, noted = _follow_marks(record, heartbeat, known, differs)
    is_same = record.incarnation == heartbeat.incarnation
    acknowledged = [record.acknowledged_event] if is_same else [0]
    acknowledged += [sequence for sequence, _ in heartbeat.journal]
    return NodeRecord(heartbeat.incarnation, marks, max(acknowledged), record.features), noted


def _follow_marks(
    record: NodeRecord, heartbeat: ReceivedHeartbeat, known: Known, differs: Mapping[str, Comparison]
) -> tuple[RecordedMarks, Mapping[str, Comparison]]:
    marks = RecordedMarks(record.recorded)
    noted: dict[str, Comparison] = {}
    for scope, found in differs.items():
        verdict = known.verdict(scope, found, heartbeat.active.get(scope))
        if verdict is not Comparison.EQUAL:
            noted[scope] = verdict
        elif scope in heartbeat.active:
            marks[scope] = heartbeat.active[scope]
        else:
            del marks[scope]
    if len(marks) > SCOPES_MAX:  # no honest node comes there: what it does not name any more is forgotten
        marks = RecordedMarks({scope: mark for scope, mark in marks.items() if scope in heartbeat.active})
    return marks, noted

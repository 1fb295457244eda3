"""What is kept of a change once the rows of its nodes are gone: how many came to what, and who did not take it. Pure.

    close_groups(record, nodes)    its groups, with that
    outcome_of, verdict_of         of one node, as it is known or follows from its votes
    refusals_of(node)              each of its refusals, in the words of who refused

Rows go with the end of a change, and of one that another stands in the place of, node by node. So it is counted when
that begins, once: what comes after is the other change's. Kept with each group and bounded, so a change of a large
fleet costs no more to look at a year later than one of ten nodes. Rejected: keeping the rows; a fleet of ten thousand
would have millions in a year, and each look at a node would pass over them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from coordinator.changes.groups import ChangeGroup, NodeRefusal
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.states import FAILED, Outcome, Step, Verdict

MOST_KEPT = 50  # refusals of a group; all are counted


def close_groups(record: ChangeRecord, nodes: Sequence[ChangeNode]) -> tuple[ChangeGroup, ...]:
    """As they were where this was done already."""
    if record.superseded_by is not None and any(group.counts for group in record.groups):
        return record.groups
    return tuple(_close(record, place, nodes) for place in range(len(record.groups)))


def verdict_of(node: ChangeNode) -> Verdict:
    """On all that it was asked about."""
    said = {vote.verdict for vote in node.votes.values()}
    if Verdict.REFUSED in said:
        return Verdict.REFUSED
    return Verdict.ACCEPTED if said else Verdict.NONE


def outcome_of(node: ChangeNode) -> Outcome:
    """As it is known, or will be once somebody decides."""
    known = Outcome(node.outcome)
    return Outcome.REFUSED if not known and verdict_of(node) is Verdict.REFUSED else known


def steps_of(nodes: Sequence[ChangeNode]) -> Mapping[str, int]:
    """How many were asked, have accepted, and were given it."""
    return {
        "asked": sum(node.step is Step.OFFERED or bool(node.votes) for node in nodes),
        "accepted": sum(verdict_of(node) is Verdict.ACCEPTED for node in nodes),
        "given": sum(node.step is Step.RELEASED for node in nodes),
    }


def refusals_of(node: ChangeNode) -> Iterator[NodeRefusal]:
    outcome = outcome_of(node)
    if outcome not in FAILED:
        return
    said = {scope: vote for scope, vote in node.votes.items() if vote.verdict == Verdict.REFUSED}
    for scope, vote in sorted(said.items()):
        yield NodeRefusal(node.node_id, str(outcome), scope, vote.step, vote.reason, vote.detail, vote.at)
    if not said:
        yield NodeRefusal(node.node_id, str(outcome), "", None, "", node.detail, None)


def _close(record: ChangeRecord, place: int, nodes: Sequence[ChangeNode]) -> ChangeGroup:
    mine = [node for node in nodes if node.group == place]
    took = sorted(node.active_at - record.at for node in mine if node.active_at is not None)
    refusals = [refusal for node in mine for refusal in refusals_of(node)]
    return replace(
        record.groups[place],
        counts=dict(Counter(str(outcome_of(node)) for node in mine)),
        steps=steps_of(mine),
        took={"p50": _quantile(took, 50), "p99": _quantile(took, 99)} if took else {},
        refusals=tuple(refusals[:MOST_KEPT]),
        refusals_total=len(refusals),
    )


def _quantile(ordered: Sequence[float], percent: int) -> float:
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3)

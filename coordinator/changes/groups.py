"""The nodes of a change that go by one policy, and how far they are together. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.changes.rollout_policy import DEFAULT, Rollout, parse_rollout
from coordinator.changes.states import GroupPhase


@dataclass(frozen=True)
class NodeRefusal:
    """A node that did not take a change, or did not keep it; `at` in Unix seconds, where it voted."""

    node_id: str
    outcome: str
    scope: str
    step: int | None
    reason: str
    detail: str
    at: float | None


@dataclass(frozen=True)
class ChangeGroup:
    """`ring`: the last one that was let go, 0 before the first; `since`: when its phase began, in Unix seconds.

    Once it is over, its rows are gone: `counts` says how many nodes came to which outcome, `steps` how many were asked,
    have accepted and were given it, `took` how long it was from the apply until they ran it, in seconds, by `p50` and
    `p99`, and `refusals` who has not taken it, the first of them (ends.py).
    """

    policy: str  # its id, or nothing where none applies
    rollout: Rollout = DEFAULT
    ring: int = 0
    since: float = 0.0
    phase: GroupPhase = GroupPhase.PENDING
    counts: Mapping[str, int] = field(default_factory=dict)
    took: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    refusals: tuple[NodeRefusal, ...] = ()
    refusals_total: int = 0

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "policy": self.policy,
            "rollout": self.rollout.to_value(),
            "ring": self.ring,
            "since": self.since,
            "phase": self.phase.value,
            "counts": dict(self.counts),
            "steps": dict(self.steps),
            "took": dict(self.took),
            "refusals": [vars(refusal) for refusal in self.refusals],
            "refusals_total": self.refusals_total,
        }


def parse_group(value: "Mapping[str, object]") -> ChangeGroup:
    """Of our own writing."""
    rollout, phase = value["rollout"], value.get("phase", GroupPhase.PENDING.value)
    if not isinstance(rollout, Mapping):
        raise AssertionError("a rollout is an object")
    refusals = value.get("refusals", ())
    if not isinstance(refusals, Iterable):
        raise AssertionError("refusals are an array")
    read = {"rollout": parse_rollout(rollout), "refusals": tuple(NodeRefusal(**refusal) for refusal in refusals)}
    return ChangeGroup(**{**value, **read, "phase": GroupPhase(str(phase))})  # type: ignore[arg-type]

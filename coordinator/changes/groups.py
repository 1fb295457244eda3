"""The nodes of a change that go by one policy, and how far they are together. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.changes.rollout_policy import DEFAULT, Rollout, parse_rollout
from coordinator.changes.states import GroupPhase


@dataclass(frozen=True)
class ChangeGroup:
    """`ring`: the last one that was let go, 0 before the first; `since`: when its phase began, in Unix seconds.

    Once it is over, its rows are gone: `counts` says how many nodes came to which outcome, `took` how long it was from
    the apply until they ran it, in seconds, by `p50` and `p99`.
    """

    policy: str  # its id, or nothing where none applies
    rollout: Rollout = DEFAULT
    ring: int = 0
    since: float = 0.0
    phase: GroupPhase = GroupPhase.PENDING
    counts: Mapping[str, int] = field(default_factory=dict)
    took: Mapping[str, float] = field(default_factory=dict)

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "policy": self.policy,
            "rollout": self.rollout.to_value(),
            "ring": self.ring,
            "since": self.since,
            "phase": self.phase.value,
            "counts": dict(self.counts),
            "took": dict(self.took),
        }


def parse_group(value: "Mapping[str, object]") -> ChangeGroup:
    """Of our own writing."""
    rollout, phase = value["rollout"], value.get("phase", GroupPhase.PENDING.value)
    if not isinstance(rollout, Mapping):
        raise AssertionError("a rollout is an object")
    return ChangeGroup(**{**value, "rollout": parse_rollout(rollout), "phase": GroupPhase(str(phase))})  # type: ignore[arg-type]

"""By which steps a change reaches the nodes that it touches: a value, frozen into each change when it begins. Pure.

    rollouts(model, subjects)    nodes by the policy that is theirs: the highest priority, then the lowest id

A policy that is declared otherwise later changes nothing of a change that is under way: who has approved one, or
watches it, knows by what it goes on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from coordinator.declared.fields import RecordForm
from coordinator.declared.kinds import (
    DEFAULT_RINGS,
    ON_FAILURE_HALT,
    PREPARE_ALL,
    RolloutPolicy,
    RolloutRing,
)
from coordinator.declared.model import Model, Subject, selects

FEW = 3  # nodes: with fewer, rings would be for show
EVERYBODY = (RolloutRing(percent=100),)


@dataclass(frozen=True)
class Rollout:
    """`success_percent`: of the nodes of a ring that are reachable. `approvals`: by operators other than its author."""

    prepare: str = PREPARE_ALL
    rings: tuple[RolloutRing, ...] = DEFAULT_RINGS
    bake_s: int = 30
    success_percent: int = 99
    on_failure: str = ON_FAILURE_HALT
    approvals: int = 0

    @property
    def at_once(self) -> "Rollout":
        """To all of them, once they were asked: `--now`."""
        return replace(self, prepare=PREPARE_ALL, rings=EVERYBODY, bake_s=0)

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {**asdict(self), "rings": [ring.to_value() for ring in self.rings]}


DEFAULT = Rollout()
"""Where nobody has declared a policy."""


def parse_rollout(value: Mapping[str, object]) -> Rollout:
    """Of our own writing."""
    rings = value["rings"]
    if not isinstance(rings, list):
        raise AssertionError("rings are an array")
    form = RecordForm(RolloutRing)
    return Rollout(**{**value, "rings": tuple(form.read_as(ring, (), []) for ring in rings)})  # type: ignore[arg-type]


def rollouts(model: Model, subjects: Iterable[Subject]) -> dict[str, list[str]]:
    """Node ids by the id of their policy; by nothing where none applies."""
    found: dict[str, list[str]] = {}
    for subject in subjects:
        policies = (policy.id for policy in model.rollout_policies if selects(policy.applies_to, subject))
        found.setdefault(next(policies, ""), []).append(subject.node_id)
    return found


def rollout_of(model: Model, policy_id: str, touched: int) -> Rollout:
    """As declared; the default's rings are for FEW nodes and more."""
    found = model.resources.get((RolloutPolicy.KIND, policy_id))
    if not isinstance(found, RolloutPolicy):
        return replace(DEFAULT, rings=EVERYBODY) if touched < FEW else DEFAULT
    return Rollout(found.prepare, found.rings, found.bake_s, found.success_percent, found.on_failure, found.approvals)

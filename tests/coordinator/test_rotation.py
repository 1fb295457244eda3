"""What comes next for each key, and when (rules S36; Numbers: key rollout)."""

from dataclasses import replace

from coordinator.base.refusal import Refused
from coordinator.trust.ceremony import Remove, Retire, Revoke
from coordinator.trust.rotation import ADD, REMOVE, RETIRE, Dates, RotationStep, steps
from snapshot.bundle import CONFIG, ROOT
from tests.coordinator.ceremonies import ROLLOUT_S, YEARS, Ceremonies
from tests.fakes.cluster import DAY

DATES = Dates(ROLLOUT_S, both_sign_s=DAY)


def step_of(cluster: Ceremonies, key_id: str) -> RotationStep:
    return {each.key_id: each for each in steps(cluster.trust, DATES, cluster.now)}[key_id]


def test_the_whole_walk_by_its_dates() -> None:
    """rules S36: add, both sign for a day, retire, remove after the rollout; done at its date, each step is taken."""
    cluster = Ceremonies()
    old = cluster.config_key()
    first = step_of(cluster, old)
    assert (first.action, first.due) == (ADD, cluster.now + YEARS - 2 * ROLLOUT_S)
    assert not first.is_due(cluster.now)
    assert first.is_due(first.due)
    cluster.now += 1
    new = cluster.add()
    second = step_of(cluster, old)
    assert (second.action, new in second.why) == (RETIRE, True)
    assert second.due <= cluster.now + DAY
    assert step_of(cluster, new).action == ADD
    cluster.now = second.due
    cluster.lead(Retire(old))
    third = step_of(cluster, old)
    assert (third.action, third.due) == (REMOVE, cluster.now + ROLLOUT_S)
    cluster.now = third.due - 1
    try:
        cluster.lead(Remove(old))
        raise AssertionError("a second early")
    except Refused:
        cluster.now += 1
    cluster.lead(Remove(old))
    assert {each.key_id for each in steps(cluster.trust, DATES, cluster.now)} == {new, *cluster.of(ROOT)}


def test_a_key_of_the_same_second_is_the_younger() -> None:
    """A ceremony right after `init`: the old key retires, not before its date, and the new one signs at once."""
    cluster = Ceremonies()
    old = cluster.config_key()
    new = cluster.add()
    another = cluster.add()
    assert step_of(cluster, old).action == RETIRE
    assert new in step_of(cluster, old).why
    assert [step_of(cluster, key_id).action for key_id in (new, another)] == [RETIRE, ADD]
    assert {step_of(cluster, key_id).action for key_id in cluster.of(ROOT)} == {ADD}, (
        "those of one bundle are of one age"
    )
    assert {record.key_id for record in cluster.trust.active(CONFIG, cluster.now)} == {old, new, another}


def test_a_key_that_cannot_be_spared_is_not_to_retire() -> None:
    """A younger key that signs less is no successor; a threshold of two needs two others."""
    cluster = Ceremonies()
    old, new = cluster.config_key(), cluster.add()
    less = replace(cluster.trust.keys[new], scope_types=("head",), not_before=cluster.now + 1)
    cluster.trust = replace(cluster.trust, keys={**cluster.trust.keys, new: less})
    cluster.now += 2
    assert step_of(cluster, old).action == ADD
    cluster = Ceremonies()
    old = cluster.config_key()
    cluster.now += 1
    cluster.add()
    cluster.trust = replace(cluster.trust, thresholds={**cluster.trust.thresholds, CONFIG: 2})
    assert step_of(cluster, old).action == ADD


def test_revoked_and_ended_keys_are_to_go() -> None:
    cluster = Ceremonies()
    old = cluster.config_key()
    cluster.add()
    cluster.lead(Revoke(old))
    assert step_of(cluster, old).action == REMOVE
    assert step_of(cluster, old).due == cluster.trust.keys[old].not_after
    cluster.now += 2 * YEARS
    assert {each.action for each in steps(cluster.trust, DATES, cluster.now)} == {REMOVE}

"""What members would do in an outage, by what is published for them."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database.database import Database
from coordinator.fleet import drill
from coordinator.membership import revocation
from snapshot.outage import Outage
from tests.coordinator.candidates import admit
from tests.coordinator.publishing import DAY, HOUR, Press
from wire.operators.fleet_answers import NodeOutage

MINUTE = 60


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def asked(press: Press, *node_ids: str, **how: object) -> dict[str, NodeOutage]:
    outage = Outage(int(press.now), 30 * DAY, **how)
    return {each.node_id: each for each in drill.drill(press.database, outage, node_ids, press.settings)}


def stops(told: NodeOutage) -> dict[str, tuple[int, str]]:
    return {each.what: (each.after_s, each.reason) for each in told.stops}


def test_by_the_head_and_the_documents_that_it_lists(press: Press) -> None:
    """rules S57: ten minutes later its head has ten minutes less, though what is declared is the same"""
    press.now += 10 * MINUTE
    told = asked(press)["node-a"]
    assert told.basis == "published"
    assert stops(told)["services"] == (20 * MINUTE + DAY, "degraded_limit")
    assert stops(told)["new services"] == (20 * MINUTE, "not_in_policy")
    assert [(each.after_s, each.mode) for each in told.states][:3] == [
        (0, "normal"), (20 * MINUTE, "degraded"), (20 * MINUTE + DAY, "fenced"),
    ]  # fmt: skip


def test_a_restart_without_leave(press: Press) -> None:
    """rules A15"""
    told = asked(press, "node-a", restart_s=HOUR)
    assert list(told) == ["node-a"]
    assert stops(told["node-a"])["services"] == (HOUR, "unconfirmed_start")


def test_what_is_declared_and_not_published_does_not_count_yet(press: Press) -> None:
    """It would be believed, and the node does not hold it."""
    press.apply("{kind: DegradedModePolicy, id: standard, spec: {allow: [], max_duration_s: 60}}")
    assert stops(asked(press)["node-a"])["services"][0] == 30 * MINUTE + DAY
    press.publish()
    assert stops(asked(press)["node-a"])["services"] == (30 * MINUTE, "not_in_policy")


def test_a_member_without_a_publication_is_judged_by_what_is_declared(press: Press) -> None:
    admit(press.database, "node-c")
    told = asked(press)
    assert {node_id: each.basis for node_id, each in told.items()} == {
        "node-a": "published", "node-b": "published", "node-c": "declared",
    }  # fmt: skip
    assert stops(told["node-c"])["new services"] == (30 * MINUTE, "not_in_policy")


def test_what_is_revoked_goes_on_nowhere(press: Press) -> None:
    """rules S61"""
    revocation.revoke(press.database, "service_ids", "web", reason="test", actor="root", now=press.now)
    assert "services" not in stops(asked(press)["node-a"])


def test_a_stranger(press: Press) -> None:
    with pytest.raises(Refused) as caught:
        asked(press, "node-z")
    assert caught.value.code is Code.NOT_FOUND

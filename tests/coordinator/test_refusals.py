"""The refusals that stand, as an operator reads them: in the fleet, in `explain`, in metrics."""

import pytest

from coordinator.database.database import Database
from coordinator.fleet import fleet
from coordinator.fleet.explain_scope import explain_scope
from coordinator.membership import revocation
from coordinator.reports import refusals
from coordinator.reports.refusals import Figures
from tests.coordinator.picky import Picky
from tests.coordinator.publishing import HOUR, STATE, Press
from wire.operators.fleet_answers import FleetRefusal

ROUTES = "route_policy"
NEXT = STATE.replace("www.example", "shop.example")


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def refuse(press: Press, *node_ids: str) -> list[Picky]:
    nodes = [Picky(press, node_id).follow() for node_id in node_ids]
    press.now += HOUR
    press.apply(NEXT)
    press.publish()
    return [_refusing(node) for node in nodes]


def _refusing(node: Picky) -> Picky:
    node.refuses.add(ROUTES)
    return node.follow()


def told(press: Press) -> list[FleetRefusal]:
    with press.database.read() as transaction:
        return refusals.fleet_refusals(transaction)


def test_in_a_sentence(press: Press) -> None:
    refuse(press, "node-a")
    (found,) = told(press)
    assert found.words == (
        "has refused 1.3 since 2027-01-15T09:00:00Z (validator_refused at step 12: web: a port is missing), "
        "runs 1.1, renewed until 2027-01-22T08:00:00Z"
    )


def test_what_is_not_renewed_comes_first_and_says_so(press: Press) -> None:
    refuse(press, "node-a", "node-b")
    assert [each.node_id for each in told(press)] == ["node-a", "node-b"]
    press.apply(NEXT.replace("roles: [ingress], organizations: [acme]", "roles: [ingress], organizations: [wayne]"))
    revocation.revoke(press.database, "service_ids", "web", actor="root", now=press.now, reason="gone")
    press.publish()
    assert told(press)[0].withheld == "it names what was revoked: web"
    assert told(press)[0].words.endswith("and NOT renewed: it names what was revoked: web")


def test_of_what_was_never_active(press: Press) -> None:
    node = Picky(press, refuses={ROUTES}).follow()
    (found,) = told(press)
    assert (found.runs, found.good_until) == (None, None)
    assert found.words.endswith("and runs nothing of it")
    assert refusals.figures(press.database) == Figures(1, 1, None)
    node.refuses.clear()


def test_in_figures(press: Press) -> None:
    assert refusals.figures(press.database) == Figures(0, 0, None)
    first, second = refuse(press, "node-a", "node-b")
    ends = min(first.expires[ROUTES], second.expires[ROUTES])
    assert refusals.figures(press.database) == Figures(2, 2, ends)


def test_in_the_fleet(press: Press) -> None:
    """Beside the straggler that the node is while the refused version is listed."""
    refuse(press, "node-a")
    seen = fleet.observe(press.database, now=press.now, settings=press.settings)
    assert [(each.node_id, each.scope, each.refused, each.runs) for each in seen.refusals] == [
        ("node-a", ROUTES, "1.3", "1.1")
    ]
    assert seen.refusals_total == 1
    assert f"late: {ROUTES}, validator_refused" in [each.reason for each in seen.stragglers]


def test_in_what_is_explained_of_the_scope_alone(press: Press) -> None:
    refuse(press, "node-a")
    for scope, expected in ((ROUTES, 1), ("node_runtime", 0)):
        notes = explain_scope(press.database, "node-a", scope, now=press.now).notes
        assert sum(note.startswith("it has refused 1.3 since") for note in notes) == expected

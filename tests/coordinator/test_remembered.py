"""What a coordinator need not read again (remembered.py); that it is what it would read, the models hold as well
(test_shared_documents.py, test_gates_model.py).
"""

import pytest
from sqlalchemy import delete, update

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.publishing.remembered import Recent
from tests.coordinator.publishing import DAY, Press

ROUTE = "kind: Route\nid: {id}\nspec: {{organization: acme, service: web, match: {{hosts: [{id}.example]}}}}"


@pytest.fixture
def press(database: Database) -> Press:
    made = Press.founded(database, "node-a", "node-b")
    made.publish()
    return made


def test_what_was_published_is_remembered_as_it_is_read(press: Press) -> None:
    press.check_remembered()
    press.apply(ROUTE.format(id="back"))
    press.publish()
    press.check_remembered()
    press.now += DAY
    press.publish()
    press.check_remembered()
    assert press.kept.remembered.heads.get("node-a") is not None


def test_what_another_coordinator_has_published_since_is_read_again(press: Press) -> None:
    second = Database(press.database.url)
    other = Press(second, bundles=press.bundles)
    press.apply(ROUTE.format(id="back"))
    other.publish()
    for each in (press, other):
        each.check_remembered()
    press.apply(ROUTE.format(id="side"))
    press.publish()
    for each in (press, other):
        each.check_remembered()
    second.close()
    assert b"side.example" in press.reader().follow().text("route_policy")


def test_a_remembered_document_that_is_lost_is_made_anew(press: Press) -> None:
    lost = press.listing()["node_runtime"]
    with press.database.change(actor="x", now=press.now) as transaction:
        transaction.run(delete(schema.documents).where(schema.documents.c.snapshot_id == lost.snapshot_id))
        transaction.run(update(schema.nodes).values(generation=schema.nodes.c.generation + 1))
        transaction.audit("test", "node-a")
    press.publish()
    assert press.listing()["node_runtime"].config_version == lost.config_version + 1
    press.check_remembered()
    press.reader().follow()


def test_only_what_was_used_last_is_remembered() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)

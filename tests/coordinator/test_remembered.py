"""What a coordinator need not read again (remembered.py); that it is what it would read, the models hold as well
(test_shared_documents.py, test_gates_model.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import delete, event, update

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.publishing.remembered import Recent
from tests.coordinator.publishing import DAY, STATE, Press

ROUTE = "kind: Route\nid: {id}\nspec: {{organization: acme, service: web, match: {{hosts: [{id}.example]}}}}"


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


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


# ---- what a head lists stands as long as nothing that it was made from has become another


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    found: list[str] = []

    def note(_connection, _cursor, statement, *_) -> None:
        found.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    yield found
    event.remove(database.engine, "before_cursor_execute", note)


def renew(press: Press) -> list[str]:
    """Heads that are due, and nothing else; what was asked of the database."""
    press.kept.remembered.documents._values.clear()
    press.now += press.settings.head_refresh_s + 1
    with statements(press.database) as found:
        batch = press.publish()
    assert {draft.publication.node_id for draft in batch.drafts} == {"node-a", "node-b"}
    return found


def readings(asked: list[str]) -> list[str]:
    """Of documents, but for those of recoveries, of which there are none."""
    found = [each for each in asked if each.startswith("SELECT") and "documents.envelope" in each]
    return [each for each in found if "recoveries" not in each]


def touch(press: Press) -> None:
    with press.database.change(actor="test", now=press.now) as transaction:
        transaction.run(update(schema.nodes).values(generation=schema.nodes.c.generation + 1))
        transaction.audit("test", "heads")


def test_a_head_is_renewed_as_it_is_without_a_look_at_what_it_lists(press: Press) -> None:
    """rules S85: it lists the same versions, with later dates, and its node takes it."""
    before, reader = press.listing(), press.reader().follow()
    for _ in range(2):
        asked = renew(press)
        assert len(readings(asked)) == 1, "of the trust bundle alone"
        assert press.listing() == before
        assert reader.follow().taken == [("head", "head")]
    press.check_remembered()


@pytest.mark.parametrize("what", ["declared", "a role", "a bundle", "lost", "restart"])
def test_what_it_was_made_from_has_become_another(press: Press, what: str) -> None:
    """rules K21, S3"""
    before = press.listing()
    if what == "declared":
        press.apply(STATE.replace("workers: 4", "workers: 5"))
    elif what == "a role":
        press.apply(STATE.replace("[core_mesh, egress_service]", "[egress_service]"))
    elif what == "a bundle":
        press.add_bundle()
    elif what == "lost":
        with press.database.change(actor="x", now=press.now) as transaction:
            gone = schema.documents.c.snapshot_id == before["node_runtime"].snapshot_id
            transaction.run(delete(schema.documents).where(gone))
            transaction.audit("test", "node-a")
        touch(press)
    else:
        press.kept.known.clear()
        touch(press)
    press.publish("node-a", "node-b")
    after = press.listing()
    changed = {scope for scope in after.keys() | before.keys() if after.get(scope) != before.get(scope)}
    assert {
        "declared": "service_assignment/web",
        "a role": "qos_policy",
        "a bundle": "trust_bundle",
        "lost": "node_runtime",
        "restart": None,
    }[what] in (changed or {None})
    press.check_remembered()
    press.reader().follow()


def test_what_comes_due_among_it_is_renewed_in_its_time(press: Press) -> None:
    """rules S85: however often the head was renewed as it is before"""
    before, reader = press.listing(), press.reader().follow()
    ends = press.now + press.settings.snapshot_refresh_s
    while press.now < ends:
        press.now += 2 * press.settings.head_refresh_s + 1
        press.publish()
        reader.follow()
    after = press.listing()
    renewed = {scope for scope in before if after[scope].config_version > before[scope].config_version}
    assert renewed == before.keys() - {"trust_bundle"}
    press.check_remembered()

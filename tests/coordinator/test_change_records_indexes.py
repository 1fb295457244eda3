"""What is asked of changes again and again is answered by an index, among thousands that are over."""

import re
from collections.abc import Callable

import pytest
from sqlalchemy import insert

from coordinator.base.settings import DAY
from coordinator.changes import records
from coordinator.changes.records import ChangeNode
from coordinator.changes.states import ChangeState
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.runtime import retention
from tests.coordinator import copies
from tests.coordinator.begun_changes import begin
from tests.coordinator.candidates import NOW, found
from tests.coordinator.query_plans import plans_of

ENDED = 4_000
READS_ALL = re.compile(r"SCAN changes$|Seq Scan on changes", re.MULTILINE)


@pytest.fixture
def years(database: Database) -> Database:
    """Thousands that are over, with plans of their own, and one that is open."""
    copies.made(database, "years of changes", pass_years)
    with database.change(actor="test", now=NOW) as transaction:
        transaction.connection.exec_driver_sql("ANALYZE")
        transaction.audit("test", "analyse")
    return database


def pass_years(database: Database) -> None:
    found(database)
    first = begin(database, state=ChangeState.DONE, settled_at=NOW)
    with database.change(actor="test", now=NOW) as transaction:
        row = dict(transaction.row(schema.changes.select())._mapping)
        plan = '[{"kind": "Organization", "id": "acme", "verb": "create", "before": null, "after": {"name": "%s"}}]'
        row |= {"plan": plan % ("x" * 200)}
        numbers = range(first.change_id + 1, ENDED)
        transaction.run(insert(schema.changes), [{**row, "change_id": number} for number in numbers])
        transaction.audit("test", "changes")
    begin(database, ChangeNode(0, "n-1", ("route_policy",)), state=ChangeState.HALTED)


ASKED = {
    "open": records.open_changes,
    "standing": records.standing_changes,
    "of a state": lambda transaction: records.list_changes(transaction, [ChangeState.HALTED]),
    "newest": lambda transaction: records.list_changes(transaction, most=50),
    "what takes it back": lambda transaction: records.reverts_of(transaction, 7),
    "what may go": lambda transaction: retention._changes(transaction, NOW - DAY),
    "what it stands in the place of": lambda transaction: records.superseded_changes(transaction, 7),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_no_question_reads_all_changes(years: Database, ask: Callable[[Transaction], object]) -> None:
    plans = list(plans_of(years, ask))
    assert plans
    for plan in plans:
        assert "changes" in plan and not READS_ALL.search(plan), plan


def test_the_explanation_would_show_one_that_does(years: Database) -> None:
    by_actor = schema.changes.select().where(schema.changes.c.actor == "nobody")
    (plan,) = plans_of(years, lambda transaction: transaction.rows(by_actor))
    assert READS_ALL.search(plan)

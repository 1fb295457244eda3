"""What reports change of the refusals that stand, and what a node that lies does not (rules S70, K41)."""

from dataclasses import replace

import pytest

from coordinator.database import audit_log
from coordinator.database.database import Database
from coordinator.database.documents import HeadEntry
from coordinator.membership import revocation
from coordinator.reports import heartbeats, refusal_records
from coordinator.reports.refusal_records import StandingRefusal
from tests.coordinator import reports
from tests.coordinator.candidates import cut_out
from tests.coordinator.picky import Picky
from tests.coordinator.publishing import DAY, HOUR, STATE, Press

ROUTES = "route_policy"
NEXT = STATE.replace("www.example", "shop.example")


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def refusing(press: Press, *node_ids: str) -> list[Picky]:
    nodes = [Picky(press, node_id).follow() for node_id in node_ids]
    press.now += HOUR
    press.apply(NEXT)
    press.publish()
    for node in nodes:
        node.refuses.add(ROUTES)
        node.follow()
    return nodes


def standing(press: Press) -> list[StandingRefusal]:
    with press.database.read() as transaction:
        return refusal_records.standing(transaction)


def noted(press: Press) -> list[str]:
    acts = audit_log.read(press.database, most=1000)
    return [each.action for each in acts if each.action.startswith("refusal")]


def test_one_a_node_and_scope(press: Press) -> None:
    refusing(press, "node-b", "node-a")
    assert [(each.node_id, each.scope) for each in standing(press)] == [("node-a", ROUTES), ("node-b", ROUTES)]
    with press.database.read() as transaction:
        assert [each.node_id for each in refusal_records.standing(transaction, "node-b")] == ["node-b"]


def forged(entry: HeadEntry, **changes: object) -> HeadEntry:
    return replace(entry, **changes)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"content_hash": "sha256:" + "ee" * 32}, "conflict"),
        ({"config_version": 9}, "node_ahead"),
        ({"authority_epoch": 2}, "node_ahead"),
    ],
    ids=["a content that was never published", "a version above", "an epoch above"],
)
def test_a_claim_of_what_was_never_published(press: Press, changes: dict[str, object], word: str) -> None:
    """rules K37, X16: it is told as what it is, what stands stays, and the next true report counts"""
    (node,) = refusing(press, "node-a")
    before, true = standing(press), node.active[ROUTES]
    press.now += HOUR
    node.active[ROUTES] = forged(true, **changes)
    answer = node.report()
    assert answer.comparisons[ROUTES].value == word
    assert standing(press) == before
    press.now += 7 * DAY / 8  # what the node has is due
    press.publish()
    made = press.document(ROUTES)
    assert made.content_hash == true.content_hash and b"www.example" in press.reader().follow().text(ROUTES)
    node.active[ROUTES] = true
    node.follow()
    assert node.version(ROUTES) == made.config_version == standing(press)[0].refusal.running.config_version


def test_a_claim_of_another_node_s_content(press: Press) -> None:
    """What was published for node-b is nothing that node-a can have renewed."""
    (node,) = refusing(press, "node-a")
    before, theirs = standing(press), press.listing("node-b")["node_bootstrap"]
    node.active[ROUTES] = theirs
    assert node.report().comparisons[ROUTES].value == "conflict"
    assert standing(press) == before
    press.now += DAY
    press.publish()
    assert press.listing()[ROUTES].content_hash != theirs.content_hash
    assert press.listing("node-b")["node_bootstrap"].content_hash == theirs.content_hash


@pytest.mark.parametrize("version", [1, 9, 2**53 - 1])
def test_a_refusal_of_what_is_not_listed(press: Press, version: int) -> None:
    node = Picky(press).follow()
    node.last[ROUTES] = reports.rejected(version)
    node.report()
    assert standing(press) == [] and noted(press) == []


def test_a_refusal_of_an_unknown_version_stands_for_nothing(press: Press) -> None:
    """rules K53: what the refused document claimed of itself may be out of form; the report counts all the same"""
    node = Picky(press).follow()
    press.now += HOUR
    press.apply(NEXT)
    press.publish()
    node.last[ROUTES] = reports.rejected(None)
    node.report()
    assert standing(press) == []
    node.refuses.add(ROUTES)
    node.follow()
    assert len(standing(press)) == 1


def test_the_scopes_that_others_sign_are_none(press: Press) -> None:
    """A trust bundle is root keys' to renew."""
    node = Picky(press).follow()
    press.add_bundle()
    press.publish()
    node.refuses.add("trust_bundle")
    node.follow()
    assert standing(press) == []


def test_a_node_that_flaps_fills_ten_lines_an_hour(press: Press) -> None:
    (node,) = refusing(press, "node-a")
    had, declared = node.active[ROUTES], press.listing()[ROUTES]
    for number in range(60):
        press.now += 10
        node.active[ROUTES] = had if number % 2 else declared
        node.report()
    assert len(standing(press)) == 1
    assert noted(press).count("refusal.begin") <= 10 and noted(press).count("refusal.end") <= 10
    press.now += 2 * HOUR
    node.active[ROUTES] = declared
    node.report()
    assert noted(press)[0] == "refusal.end" and standing(press) == []


def test_two_reports_in_one_batch(press: Press) -> None:
    """The later one counts."""
    (node,) = refusing(press, "node-a")
    declared, taken = press.listing()[ROUTES], replace(node, active=dict(node.active))
    taken.active[ROUTES] = declared
    heartbeats.record(press.database, [node.heartbeat(), taken.heartbeat()], now=press.now)
    assert standing(press) == []
    heartbeats.record(press.database, [taken.heartbeat(), node.heartbeat()], now=press.now)
    assert len(standing(press)) == 1


@pytest.mark.parametrize("leave", [revocation.revoke_node, cut_out])
def test_who_has_left_refuses_nothing(press: Press, leave) -> None:
    refusing(press, "node-a")
    leave(press.database, "node-a", reason="gone", actor="root", now=press.now)
    assert standing(press) == []

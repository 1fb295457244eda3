"""The number of a bundle that nodes hold does not come again with another content (rules K41, S35)."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database.database import Database
from coordinator.membership import revocation
from coordinator.reports import heartbeats
from coordinator.trust import bundle_conflicts, request_builder, signing_requests, trust_import
from snapshot import envelope
from snapshot.container import ChunkParts
from tests.coordinator import reports
from tests.coordinator.bundles import Bundles
from tests.coordinator.candidates import contents
from tests.coordinator.founding import set_restored
from tests.coordinator.publishing import Press

KEPT = ("documents", "trust_bundles", "cluster", "audit")


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def report(press: Press, node_id: str, version: int, content_hash: str | None = None) -> None:
    """As the agent says which bundle is active."""
    mark = {**reports.mark(version), "content_hash": content_hash or "sha256:" + "ee" * 32}
    scopes = {"trust_bundle": reports.scope(mark)}
    told = reports.heartbeat(node_id, trust_bundle_version=version, scopes=scopes)
    heartbeats.record(press.database, [told], now=press.now)


def refused(press: Press, act, *arguments, **named) -> Refused:
    before = contents(press.database, *KEPT)
    with pytest.raises(Refused) as found:
        act(*arguments, **named)
    assert contents(press.database, *KEPT) == before
    return found.value


def request(press: Press, **given: bool) -> signing_requests.SigningRequest:
    return request_builder.bundle_request(press.database, [], press.settings, press.now, **given)


def known_to_be_put_back(press: Press) -> None:
    """As after a node has shown a head of ours that is not on record (restored_backup.py)."""
    set_restored(press.database, 1)


def hash_of(bundle: bytes) -> str:
    return envelope.parse(ChunkParts([bundle]).opening().envelope, "snapshot").content_hash


@pytest.mark.parametrize("version", [2, 7, 2**53 - 1])
def test_a_claim_stops_nothing_and_is_told(press: Press, version: int) -> None:
    """rules K41: a member with the greatest number there is would keep every later bundle out"""
    report(press, "node-b", version)
    assert "2" in request(press).about
    assert [(each.node_id, each.greatest) for each in request_builder.unproven(press.database)] == [("node-b", version)]
    made = press.bundles.next()
    assert trust_import.add_trust_bundle(press.database, made, actor="root", now=press.now).version == 2


@pytest.mark.parametrize("version", [2, 7])
def test_of_a_restored_database_a_bundle_that_a_node_holds_is_not_made_again(press: Press, version: int) -> None:
    """rules K41: the remedies are to bring it in, and to know better"""
    report(press, "node-a", 1)
    known_to_be_put_back(press)
    request(press)
    report(press, "node-b", version)
    found = refused(press, request, press)
    assert (found.code, "node-b hold" in found.detail, "node-a" in found.detail) == (Code.CONFLICT, True, False)
    assert "holdfastctl trust import" in found.remedy and "--despite-reports" in found.remedy
    assert "2" in request(press, despite_reports=True).about


def test_the_bundle_itself_is_taken_and_ends_it(press: Press) -> None:
    lost = press.bundles.next()
    report(press, "node-a", 2)
    known_to_be_put_back(press)
    other = Bundles(press.now, press.bundles.roots, press.bundles.config, version=1).next(snapshot_id="another")
    found = refused(press, trust_import.add_trust_bundle, press.database, other, actor="root", now=press.now)
    assert (found.code, "hold another bundle 2" in found.detail) == (Code.CONFLICT, True)
    with pytest.raises(Refused):
        request(press)
    report(press, "node-a", 2, hash_of(lost))
    assert trust_import.add_trust_bundle(press.database, lost, actor="root", now=press.now).version == 2
    assert "3" in request(press).about


def test_a_false_claim_about_the_next_bundle_is_passed_over_by_an_operator_who_knows(press: Press) -> None:
    report(press, "node-a", 2)
    known_to_be_put_back(press)
    add = {"actor": "root", "now": press.now}
    made = press.bundles.next()
    refused(press, trust_import.add_trust_bundle, press.database, made, **add)
    assert trust_import.add_trust_bundle(press.database, made, despite_reports=True, **add).version == 2


def test_a_node_that_is_revoked_claims_nothing_any_more(press: Press) -> None:
    """rules K54"""
    known_to_be_put_back(press)
    report(press, "node-b", 2**53 - 1)
    refused(press, request, press)
    revocation.revoke_node(press.database, "node-b", reason="a liar", actor="root", now=press.now)
    assert "2" in request(press).about


def test_many_holders_are_not_all_named(database: Database) -> None:
    names = [f"n{number}" for number in range(5)]
    press = Press.founded(database, *names)
    for name in names:
        report(press, name, 2)
    known_to_be_put_back(press)
    assert "n0, n1, n2 and 2 more hold 2" in refused(press, request, press).detail


def test_what_a_node_has_shown_counts_as_reported(press: Press) -> None:
    """rules K41: its head names the bundle that it was signed under; a report of its own says it later."""
    report(press, "node-a", 1)
    known_to_be_put_back(press)
    for version, is_refused in ((1, False), (3, True), (2, True)):
        with press.database.change(actor="x", now=press.now) as transaction:
            bundle_conflicts.note(transaction, "node-a", version)
            bundle_conflicts.note(transaction, "node-b", version)  # it has never reported: nothing is kept of it
            transaction.audit("x", "x")
        if is_refused:
            assert "node-a hold 3" in refused(press, request, press).detail
        else:
            request(press)
    report(press, "node-a", 1)
    request(press)

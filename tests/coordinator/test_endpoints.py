"""When an endpoint of a coordinator may go (rules L15)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.database import audit_log, documents
from coordinator.database.database import Database
from coordinator.membership import revocation
from coordinator.publishing import endpoints
from coordinator.reports import heartbeats
from tests.coordinator import copies
from tests.coordinator.candidates import contents
from tests.coordinator.publishing import STATE, Press
from tests.coordinator.reports import heartbeat, mark, scope

OLD, NEW, THIRD = (f"https://{name}.example:7443" for name in ("old", "new", "third"))
TABLES = ("resources", "nodes", "cluster", "audit")


@pytest.fixture
def press(database: Database) -> Press:
    """Two members that hold a bootstrap with the old endpoint alone."""
    return copies.made(database, "an old endpoint", hold_the_old).over(database)


def hold_the_old(database: Database) -> Press:
    press = Press.founded(database, "node-a", "node-b")
    declare(press, OLD, drop_endpoints=True)
    settle(press)
    return press.over(database)


def cluster_of(*urls: str) -> str:
    listed = ", ".join(f'"{url}"' for url in urls)
    return f"kind: Cluster\nid: prod\nspec: {{coordinators: [{listed}]}}\n"


def declare(press: Press, *urls: str, **flags: object) -> None:
    press.apply(cluster_of(*urls), **flags)
    press.now += 1


def settle(press: Press, *node_ids: str) -> None:
    """What is declared is published, and these members report it."""
    press.publish()
    for node_id in node_ids or ("node-a", "node-b"):
        report(press, node_id)


def report(press: Press, node_id: str, **other: object) -> None:
    entry = press.listing(node_id)["node_bootstrap"]
    held = mark(entry.config_version, epoch=entry.authority_epoch) | {"content_hash": entry.content_hash} | other
    said = heartbeat(node_id, scopes={"node_bootstrap": scope(held)})
    heartbeats.record(press.database, [said], now=press.now)


def refused(press: Press, *urls: str, **flags: object) -> Refused:
    """Nothing of it remains."""
    before = contents(press.database, *TABLES)
    with pytest.raises(Refused) as caught:
        press.apply(cluster_of(*urls), **flags)
    assert contents(press.database, *TABLES) == before
    assert caught.value.code is Code.ENDPOINT_IN_USE
    return caught.value


def test_an_endpoint_goes_once_every_member_has_confirmed_another(press: Press) -> None:
    """rules L15: declared beside it, published, confirmed by each, and only then alone"""
    declare(press, OLD, NEW)
    assert "2 of 2 members" in refused(press, NEW).detail
    settle(press, "node-a")
    error = refused(press, NEW)
    assert error.detail == f"1 of 2 members would know no coordinator without {OLD}: node-b"
    assert "--drop-endpoints" in error.remedy
    report(press, "node-b")
    declare(press, NEW)
    settle(press)
    assert "2 of 2" in refused(press, THIRD).detail


def test_the_operator_may_say_so(press: Press) -> None:
    """rules L15: and the audit log has who did"""
    refused(press, NEW, dry_run=True)
    press.apply(cluster_of(NEW), drop_endpoints=True, dry_run=True)
    refused(press, NEW)
    declare(press, NEW, drop_endpoints=True)
    (row,) = audit_log.read(press.database, before=1 << 40, most=1, action="apply")
    assert (row.actor, row.after["drop_endpoints"]) == ("root", True)


def test_none_at_all_is_a_drop_too(press: Press) -> None:
    """rules L15: also by deleting the Cluster"""
    with pytest.raises(Refused, match="endpoint_in_use"):
        press.apply("{kind: Organization, id: acme}", prune=True)


def test_what_is_not_dropped_is_nobodys_business(press: Press) -> None:
    """Order, description, everything else: whatever members have confirmed."""
    declare(press, OLD, NEW)
    declare(press, NEW, OLD)
    press.apply(STATE.replace('"https://localhost:7443"', f'"{OLD}", "{NEW}"'))


def test_an_older_confirmed_version_is_judged_by_what_it_lists(press: Press) -> None:
    """rules L15: by the document that the member holds, not by whether it is the last"""
    declare(press, OLD, NEW)
    settle(press)
    declare(press, OLD, NEW, THIRD)
    press.publish()
    declare(press, NEW, THIRD)
    press.publish()
    error = refused(press, THIRD)
    assert "2 of 2" in error.detail
    settle(press)
    declare(press, THIRD)


@pytest.mark.parametrize(
    "other", [{"content_hash": "sha256:" + "ee" * 32}, {"config_version": 99}, {"authority_epoch": 7}]
)
def test_what_was_never_published_confirms_nothing(press: Press, other: dict) -> None:
    """rules L15, S70: a report is never taken at its word"""
    declare(press, OLD, NEW)
    settle(press)
    report(press, "node-b", **other)
    assert refused(press, NEW).detail.endswith(": node-b")


def test_a_document_that_is_kept_no_more_confirms_nothing(press: Press) -> None:
    """rules L15: judged on the safe side"""
    declare(press, OLD, NEW)
    settle(press)
    kept = press.listing("node-a")["node_bootstrap"].snapshot_id
    with press.database.record() as transaction:
        documents.forget(transaction, [kept])
    assert refused(press, NEW).detail.endswith(": node-a")


def test_a_report_without_a_bootstrap_confirms_nothing(press: Press) -> None:
    """rules L15"""
    declare(press, OLD, NEW)
    settle(press)
    heartbeats.record(press.database, [heartbeat("node-a", scopes={})], now=press.now)
    heartbeats.record(press.database, [heartbeat("node-b", scopes={"node_bootstrap": scope(None)})], now=press.now)
    assert refused(press, NEW).detail.endswith(": node-a, node-b")


def test_who_is_revoked_or_removed_is_not_waited_for(press: Press) -> None:
    """rules L15, K22"""
    declare(press, OLD, NEW)
    settle(press, "node-a")
    refused(press, NEW)
    revocation.revoke_node(press.database, "node-b", reason="sold", actor="root", now=press.now)
    declare(press, NEW)


def test_an_endpoint_that_is_revoked_is_none_that_stays(press: Press) -> None:
    """rules L15, S61"""
    declare(press, OLD, NEW)
    settle(press)
    revocation.revoke(press.database, "endpoints", NEW, reason="gone", actor="root", now=press.now)
    refused(press, NEW)


def test_a_cluster_without_members_does_as_it_likes(database: Database) -> None:
    press = Press.founded(database)
    declare(press, OLD)
    declare(press, NEW)
    press.apply("{kind: Organization, id: acme}", prune=True)


@given(st.lists(st.from_regex(r"[a-z][a-z0-9]{0,63}", fullmatch=True), min_size=1, max_size=40, unique=True))
def test_a_refusal_is_bounded_and_says_how_many(names: list[str]) -> None:
    words = endpoints._words([OLD], sorted(names), 50)
    assert words.startswith(f"{len(names)} of 50 members")
    assert len(Refused(Code.ENDPOINT_IN_USE, words).detail) <= 256
    assert len(names) <= 3 or words.endswith(f"and {len(names) - 3} more")

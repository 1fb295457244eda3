"""What a node has is renewed while it refuses what is declared, and what is declared is offered again, in turn."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import audit_log, cluster_state, schema
from coordinator.database.database import Database
from coordinator.database.documents import HeadEntry, StoredObject
from coordinator.membership import revocation
from coordinator.publishing.backlog import Backlog
from coordinator.reports import heartbeats, refusal_records
from coordinator.reports.refusal_records import StandingRefusal
from coordinator.runtime import retention
from coordinator.trust import trust_import
from tests.coordinator.picky import WORDS, Picky
from tests.coordinator.publishing import DAY, HOUR, STATE, Press
from tests.coordinator.test_trust_import import recovery
from wire.operators.operator_answers import AuditEntry

ROUTES = "route_policy"
NEXT = STATE.replace("www.example", "shop.example")
STEP_S = 12 * HOUR


@pytest.fixture
def press(database: Database) -> Press:
    return Press.founded(database, "node-a", "node-b")


def standing(press: Press) -> list[StandingRefusal]:
    with press.database.read() as transaction:
        return refusal_records.standing(transaction)


def refused(press: Press, after_s: float = HOUR, **picky: object) -> Picky:
    """A node that runs the first version of its routes, and has refused the next."""
    press.publish()
    node = Picky(press, **picky).follow()
    press.now += after_s
    press.apply(NEXT)
    press.publish()
    node.refuses.add(ROUTES)
    return node.follow()


def pass_by(press: Press, node: Picky, seconds: float) -> None:
    """Heads, reports and trims as time goes by; nothing that the node has ever expires."""
    until = press.now + seconds
    while press.now < until:
        press.now = min(until, press.now + STEP_S)
        assert min(node.expires.values()) > press.now
        settle(press, node)
        assert min(node.expires.values()) > press.now


def settle(press: Press, node: Picky) -> None:
    """A report may make the next head due, at once."""
    for _ in range(4):
        if not (due := press.due()):
            return
        press.publish(*due)
        node.follow()
    raise AssertionError("heads without end")


def test_two_weeks(press: Press) -> None:
    """Nothing expires; what is declared is offered once a day; a neighbour and the version line are as ever."""
    node = refused(press)
    before, offers = node.active[ROUTES], node.times
    began = press.now
    for day in range(1, 15):
        pass_by(press, node, DAY)
        retention.trim(press.database, now=press.now, settings=press.settings)
        (found,) = standing(press)
        assert (found.node_id, found.scope, found.refusal.since) == ("node-a", ROUTES, began)
        assert (found.refusal.reason, found.refusal.step, found.refusal.detail) == ("validator_refused", 12, WORDS)
        assert found.refusal.running.pair == node.active[ROUTES].pair
        assert found.good_until == node.expires[ROUTES] and found.refusal.withheld == ""
        assert node.active[ROUTES].content_hash == before.content_hash
        assert press.listing()[ROUTES].content_hash == found.refusal.refused.content_hash
        assert day - 1 <= node.times - offers <= day + 1
    # Each day a renewal, an offer, and a renewal for the neighbour: all have one counter.
    assert 26 + 13 <= press.listing()[ROUTES].config_version <= 34 + 16

    node.refuses.clear()
    node.last[ROUTES]["snapshot_id"] = None  # as a reload has it: what was put off is asked for
    node.follow()
    assert node.active[ROUTES] == press.listing()[ROUTES]
    assert standing(press) == []
    actions = [(each.action, each.subject) for each in acts(press)]
    assert actions == [("refusal.end", f"node-a {ROUTES}"), ("refusal.begin", f"node-a {ROUTES}")]


def acts(press: Press) -> list[AuditEntry]:
    return [each for each in audit_log.read(press.database, most=1000) if each.action.startswith("refusal")]


def test_the_node_takes_what_is_declared_without_anybody_s_doing(press: Press) -> None:
    """A validator that was mended, and no more: within a day."""
    node = refused(press)
    pass_by(press, node, DAY)
    node.refuses.clear()
    pass_by(press, node, DAY)
    assert b"shop.example" in press.reader().follow().text(ROUTES)
    assert node.active[ROUTES] == press.listing()[ROUTES] and standing(press) == []


def edge(text: str) -> str:
    return f"{{kind: Config, id: edge, spec: {{to: {{nodes: [node-a]}}, files: {{motd: {{text: {text}}}}}}}}}"


def test_files_that_are_renewed_are_held_by_their_hashes_alone(press: Press) -> None:
    """A validator with a bug refuses on all nodes at once: a batch of large folders is more than memory."""
    press.apply(edge("hello"))
    press.publish()
    node = Picky(press).follow()
    press.apply(edge("bye"))
    press.publish()
    node.refuses.add("config/edge")
    node.follow()
    press.now += press.settings.snapshot_refresh_s
    drafts = {each.publication.node_id: each.publication for each in press.publish().drafts}
    (made,) = [each for each in drafts["node-a"].documents if each.scope == "config/edge"]
    assert all(isinstance(section, StoredObject) for section in made.sections)
    node.follow()
    assert node.version("config/edge") == made.config_version
    assert press.reader().follow().text("config/edge").endswith(b"hello")


def test_over_a_restart_and_at_another_replica(press: Press, second: Database) -> None:
    """rules S1, J42: what stands is in the database"""
    node = refused(press)
    other = Press(second, bundles=press.bundles)
    at = [press, other]
    for turn in range(15):
        press.now += DAY / 5
        one = at[turn % 2]
        one.now, one.kept = press.now, Backlog()  # it begins anew each time
        node.press = at[(turn + 1) % 2]
        node.press.now = press.now
        for _ in range(3):
            one.publish()
            node.follow()
        assert node.expires[ROUTES] > press.now + 5 * DAY
    assert 2 <= node.times <= 4


def test_what_another_declares_ends_it(press: Press) -> None:
    """And may be refused in its turn; back to what the node has is a renewal like any."""
    node = refused(press)
    press.now += HOUR
    press.apply(NEXT.replace("shop.example", "mail.example"))
    press.publish()
    assert standing(press) == []
    node.follow()
    (found,) = standing(press)
    declared = press.listing()[ROUTES].config_version
    assert (found.refusal.since, found.refusal.refused.config_version) == (press.now, declared)
    press.apply(STATE)
    press.publish()
    node.follow()
    assert standing(press) == []
    assert node.version(ROUTES) > declared
    assert [each.action for each in acts(press)] == ["refusal.end", "refusal.begin"] * 2


def test_a_scope_that_is_no_longer_for_the_node_ends_it(press: Press) -> None:
    node = refused(press)
    nowhere = NEXT.replace("runs_on: {nodes: [node-a]}", "runs_on: {labels: {app: web}}")
    press.apply(nowhere.replace("roles: [core_mesh, egress_service]", "roles: [storage_config]"))
    press.publish()
    assert ROUTES not in press.listing() and standing(press) == []
    del node.active[ROUTES]
    node.report()  # what it refused last is in its report still
    assert standing(press) == []


def test_a_first_version_that_is_refused(press: Press) -> None:
    """There is nothing to renew; what is declared is offered once a day all the same."""
    press.publish()
    node = Picky(press, refuses={ROUTES}).follow()
    (found,) = standing(press)
    assert found.refusal.running is None and found.good_until is None
    pass_by(press, node, 3 * DAY)
    assert 3 <= node.times <= 5
    assert press.listing()[ROUTES].config_version >= node.times
    node.refuses.clear()
    pass_by(press, node, DAY)
    assert standing(press) == []


def test_an_epoch_that_is_raised(press: Press) -> None:
    """rules K41, S24: what the node has comes first, in the new epoch, then what is declared"""
    node = refused(press)
    press.add_bundle(epoch=2)
    assert authority_epoch(press) == 2
    before, had = press.listing()[ROUTES], node.active[ROUTES]
    press.publish()
    first = press.listing()[ROUTES]
    assert first.authority_epoch == 2 and first.config_version > before.config_version
    assert first.content_hash == had.content_hash
    node.follow()
    assert node.active[ROUTES] == first
    press.publish()
    node.follow()
    declared = press.listing()[ROUTES]
    assert declared.pair > first.pair and node.active[ROUTES] == first
    (found,) = standing(press)
    assert found.refusal.since < press.now + 1 and found.refusal.refused.pair == declared.pair
    pass_by(press, node, 3 * DAY)


def authority_epoch(press: Press) -> int:
    with press.database.read() as transaction:
        return cluster_state.standing(transaction).authority_epoch


def test_a_node_that_is_away_meanwhile(press: Press) -> None:
    """It finds what it had, renewed, and then what is declared."""
    node = refused(press)
    for _ in range(15):
        press.now += DAY / 5
        press.publish()
    assert press.listing()[ROUTES].content_hash == node.active[ROUTES].content_hash
    node.follow()
    assert node.expires[ROUTES] > press.now + 5 * DAY
    press.publish()
    assert press.listing()[ROUTES].content_hash != node.active[ROUTES].content_hash


@pytest.mark.parametrize("end", ["taken after all", "another store"])
def test_a_refusal_that_ends_before_the_node_sees_what_was_renewed(press: Press, end: str) -> None:
    """What it had is listed by then, and no refusal stands any more: what is declared comes with the next head."""
    node = refused(press)
    declared = press.listing()[ROUTES]
    while press.listing()[ROUTES].content_hash == declared.content_hash:
        press.now += DAY / 5
        press.publish()
    if end == "taken after all":
        node.active[ROUTES] = declared
        node.report()
    else:
        with press.database.change(actor="x", now=press.now) as transaction:
            heartbeats.forget(transaction, ["node-a"])
            transaction.audit("x", "x")
    assert standing(press) == []
    press.now += press.settings.head_refresh_s
    press.publish()
    assert press.listing()[ROUTES].content_hash == declared.content_hash


def test_a_node_that_comes_back_from_an_old_disk(press: Press) -> None:
    """rules L29: what it has is older than what was renewed, and is renewed all the same"""
    node = refused(press)
    old = disk_of(node)
    pass_by(press, node, 5 * DAY)
    pass_by(press, old, 2 * STEP_S)
    assert old.expires[ROUTES] > press.now + 5 * DAY
    pass_by(press, old, 3 * DAY)


def disk_of(node: Picky) -> Picky:
    """Its disk as it is now."""
    return replace(node, **{name: dict(getattr(node, name)) for name in ("active", "applied", "expires", "last")})


def test_what_names_a_revoked_service_is_not_signed_again(press: Press) -> None:
    """rules S60: nor what the node may not know any more; it is said, and it expires"""
    node = refused(press)
    revocation.revoke(press.database, "service_ids", "web", actor="root", now=press.now, reason="gone")
    press.publish()
    node.follow()
    (found,) = standing(press)
    assert found.refusal.withheld == "it names what was revoked: web"
    mine = node.active[ROUTES].content_hash
    for _ in range(16):
        press.now += DAY / 4
        press.publish()
        node.follow()
        assert press.listing()[ROUTES].content_hash != mine
    assert standing(press)[0].good_until == node.expires[ROUTES]


def test_a_recovery_in_place(database: Database) -> None:
    """rules S65, S87: what was gone back to is what is declared then; a node that refuses it keeps what it has"""
    press = Press.published(database, "node-a")
    node = Picky(press).follow()
    first = press.listing()[ROUTES]
    press.apply(NEXT)
    press.publish()
    node.follow()
    declared = node.active[ROUTES]
    trust_import.add_recovery(
        press.database, recovery(press, ROUTES, first.config_version), actor="root", now=press.now
    )
    press.publish()
    assert press.listing()[ROUTES].pair == (1, 1)
    node.refuses.add(ROUTES)
    press.now += STEP_S
    node.follow()
    (found,) = standing(press)
    assert found.refusal.refused.content_hash == first.content_hash
    pass_by(press, node, 9 * DAY)
    assert node.active[ROUTES].content_hash == declared.content_hash
    node.refuses.clear()
    pass_by(press, node, DAY)
    assert node.active[ROUTES].content_hash == first.content_hash and standing(press) == []


@pytest.mark.parametrize("reason", ["unsupported_schema", "bad_signature"])
def test_whatever_the_reason(press: Press, reason: str) -> None:
    """The verifier's of another release, or the word of a validator as elsewhere here: it is the same rule."""
    node = refused(press, reason=reason)
    pass_by(press, node, 2 * DAY)
    assert standing(press)[0].refusal.reason == reason


def test_short_lifetimes(press: Press) -> None:
    """What a node has is renewed in time, however short that is."""
    press.settings = CoordinatorSettings(snapshot_lifetime_s=HOUR, snapshot_refresh_s=HOUR // 2)
    node = refused(press, after_s=60)
    for _ in range(12):
        pass_by(press, node, HOUR / 3 + 60)


def test_a_node_that_says_now_this_now_that(press: Press) -> None:
    """It may have its own renewed, and no more often than once an hour."""
    node = refused(press)
    pass_by(press, node, 3 * DAY)
    first, last = old_and_new(press, node)
    pass_by(press, node, HOUR)
    before = press.listing()[ROUTES].config_version
    for number in range(50):
        press.now += 60
        node.active[ROUTES] = first if number % 2 else last
        node.report()
        press.publish()
        if press.listing()[ROUTES].content_hash == last.content_hash:
            last = press.listing()[ROUTES]
    assert press.listing()[ROUTES].config_version - before == 2


def old_and_new(press: Press, node: Picky) -> tuple[HeadEntry, HeadEntry]:
    """What it has now, and the first version with that content that was published for it."""
    table, now = schema.published, node.active[ROUTES]
    line = (table.c.node_id == "node-a") & (table.c.scope == ROUTES) & (table.c.content_hash == now.content_hash)
    with press.database.read() as transaction:
        row = transaction.row(select(table).where(line).order_by(table.c.config_version).limit(1))
    return HeadEntry(row.authority_epoch, row.config_version, row.content_hash, row.snapshot_id), now

"""A node is given what it can read (format.md 1, "Extension"): what is held back, and that it comes by itself."""

import pytest

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import audit_log
from coordinator.database.database import Database
from coordinator.fleet import explain, fleet, roster
from coordinator.fleet.explain_scope import explain_scope
from coordinator.reports import features, heartbeats
from snapshot.extension import FEATURES
from snapshot.identifiers import SCOPE_TYPES, Scope
from tests.coordinator.candidates import contents
from tests.coordinator.publishing import Press
from tests.coordinator.reports import heartbeat

EDGE = Scope("config", ("edge",))
WORDS = "its agent does not read it; agents from 0.1.0 do (feature config)"


@pytest.fixture
def press(database: Database) -> Press:
    """Both nodes are to have a Config; nobody has reported, and everything is out."""
    edge = "{kind: Config, id: edge, spec: {to: {roles: [core_mesh, ingress]}, files: {motd: {text: hello}}}}"
    return Press.published(database, "node-a", "node-b", also=edge)


def report(press: Press, *reads: str, node_id: str = "node-a") -> None:
    heartbeats.record(press.database, [heartbeat(node_id, {}, features=list(reads))], now=press.now)


def test_each_type_that_needs_a_feature_is_one_that_this_release_reads() -> None:
    """What an agent of this release reports, holds nothing back."""
    assert features.unreadable_scopes(map(Scope, SCOPE_TYPES), frozenset(FEATURES)) == {}
    assert features.missing(frozenset(FEATURES)) == frozenset()


def test_a_node_that_has_not_reported_is_given_everything(press: Press) -> None:
    """Its first head is made before its first heartbeat can come."""
    assert EDGE.name in press.listing("node-a")
    assert fleet.observe(press.database, now=press.now, settings=CoordinatorSettings()).held_back == ()


def test_what_it_does_not_read_is_held_back_from_it_alone(press: Press) -> None:
    report(press, "candidates")
    report(press, *FEATURES, node_id="node-b")
    assert press.due() == ["node-a"]
    press.publish()
    assert EDGE.name not in press.listing("node-a")
    assert {"node_runtime", "route_policy"} <= press.listing("node-a").keys()
    assert EDGE.name in press.listing("node-b")
    assert press.reader("node-a").follow().taken  # and what is left holds together


def test_an_agent_older_than_the_member_reads_nothing_that_was_added(press: Press) -> None:
    report(press)
    press.publish()
    assert EDGE.name not in press.listing("node-a")


def test_after_an_upgrade_it_comes_by_itself(press: Press) -> None:
    """Nothing else is done: the report of the new agent is enough, and the version goes on."""
    before = press.listing("node-a")[EDGE.name]
    report(press)
    press.publish()
    press.now += 60
    report(press, *FEATURES)
    assert press.due() == ["node-a"]
    press.publish()
    after = press.listing("node-a")[EDGE.name]
    assert (after.config_version, after.content_hash) == (before.config_version + 1, before.content_hash)
    press.reader("node-a").follow()


def test_a_node_that_says_now_this_now_that_is_followed_a_few_times_an_hour(press: Press) -> None:
    """Each time is a new version of all that is held back; what it says in the end is believed in time."""
    for turn in range(20):
        press.now += 10
        report(press, *(FEATURES if turn % 2 else ()))
        press.publish()
    versions = press.listing("node-b")[EDGE.name].config_version, press.listing("node-a")[EDGE.name].config_version
    assert versions == (1, 1 + heartbeats.FOLLOWED // 2)
    report(press)
    assert press.due() == []
    press.now += heartbeats.FOLLOWED_IN_S
    report(press)
    assert "node-a" in press.due()
    press.publish()
    assert EDGE.name not in press.listing("node-a")


def test_a_report_that_says_the_same_changes_nothing(press: Press) -> None:
    """rules S70: neither a head nor a line of the audit log."""
    report(press, *FEATURES)
    before = contents(press.database, "nodes", "audit")
    report(press, *FEATURES)
    report(press, *FEATURES, "something.new")
    assert contents(press.database, "nodes", "audit") == before
    assert press.due() == []


def test_a_change_of_what_it_reads_is_in_the_audit_log(press: Press) -> None:
    report(press, "candidates")
    (told,) = audit_log.read(press.database, action="features")
    assert (told.actor, told.subject, told.before, told.after) == ("coordinator", "node-a", None, "candidates")


def test_explain_says_what_is_held_back_and_since_when_it_could_be_had(press: Press) -> None:
    report(press)
    press.publish()
    told = {each.scope: each for each in explain.explain(press.database, "node-a")}
    assert (told[EDGE.name].may_hold, told[EDGE.name].held_back, told[EDGE.name].published) == (True, WORDS, None)
    assert told[EDGE.name].differs == {}  # nothing is about to change
    assert not any(each.held_back for name, each in told.items() if name != EDGE.name)
    assert explain_scope(press.database, "node-a", EDGE.name, now=press.now).notes == (f"held back: {WORDS}",)
    assert explain_scope(press.database, "node-b", EDGE.name, now=press.now).notes == ()


def test_the_views_of_nodes_show_it(press: Press) -> None:
    report(press, "candidates")
    report(press, *FEATURES, node_id="node-b")
    press.publish()
    settings = CoordinatorSettings()
    seen = fleet.observe(press.database, now=press.now, settings=settings)
    assert (seen.held_back, seen.held_back_total) == (("node-a",), 1)
    a, b = (roster.show(press.database, f"node-{each}", now=press.now, settings=settings) for each in "ab")
    assert (a.features, a.held_back) == (["candidates"], {EDGE.name: WORDS})
    assert (b.features, b.held_back) == (list(FEATURES), {})

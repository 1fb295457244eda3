"""Members that nobody has seen for a whole window: who is due, what stands in the way, and what is left of them."""

import pytest
from sqlalchemy import update

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CLOCK_SKEW_S, DAY, HOUR, CoordinatorSettings
from coordinator.database import audit_log, catalog, readiness, schema
from coordinator.database.database import Database
from coordinator.membership import leaving, revocation, trimming
from coordinator.membership.trimming import WARN_S, QuietMember
from coordinator.reports import heartbeats, last_seen
from tests.coordinator import reports
from tests.coordinator.candidates import NOW, Candidate, admit, join, token_for
from wire.operators.operator_answers import AllowlistEntry

WINDOW = 30 * DAY
SETTINGS = CoordinatorSettings()
END = NOW + WINDOW


def decide(*quiet: QuietMember, members: int = 100, trimmed: int = 0, ready: float | None = NOW - WINDOW):
    return trimming.decide(quiet, members, trimmed, ready_since=ready, now=NOW, settings=SETTINGS)


def quiet(node_id: str = "n1", seen: float | None = NOW - WINDOW, first: float = NOW - 2 * WINDOW) -> QuietMember:
    return QuietMember(node_id, first, seen)


def be_ready(database: Database, since: float, until: float) -> None:
    """As it stands after so long a time."""
    readiness.note(database, now=since)
    with database.record() as transaction:
        transaction.run(update(schema.readiness).values(until=until))


def trim(database: Database, now: float, **settings: object) -> tuple[str, ...]:
    return trimming.trim(database, now=now, settings=CoordinatorSettings(**settings))


def members(database: Database) -> list[str]:
    return [entry.node_id for entry in catalog.nodes(database)]


# ---- who is due: pure


@pytest.mark.parametrize(
    ("member", "ready", "is_due"),
    [
        (quiet(), NOW - WINDOW, True),
        (quiet(seen=NOW - WINDOW + 1), NOW - WINDOW, False),
        (quiet(seen=None), NOW - WINDOW, True),
        (quiet(seen=None, first=NOW - WINDOW + 1), NOW - WINDOW, False),
        (quiet(seen=NOW - WINDOW - 9, first=NOW - WINDOW + 1), NOW - WINDOW, False),
        (quiet(seen=NOW - 9 * WINDOW), NOW - WINDOW + 1, False),
        (quiet(seen=NOW - 9 * WINDOW), None, False),
        (quiet(seen=NOW + DAY), NOW - WINDOW, False),
    ],
    ids=["due", "seen", "never seen", "young", "came back", "not ready so long", "not ready", "ahead"],
)
def test_who_is_due(member: QuietMember, ready: float | None, is_due: bool) -> None:
    """rules K23, X29: unseen for the whole window, not younger than it, by who was ready for the whole of it."""
    assert bool(decide(member, ready=ready).due) is is_due


def test_a_week_before_it_is_said() -> None:
    """rules K23"""
    found = decide(quiet("n2", NOW - WINDOW + WARN_S), quiet("n1", NOW - WINDOW + WARN_S + 1), quiet("n3"))
    assert [member.node_id for member in found.soon] == ["n2"]
    assert [member.node_id for member in found.due] == ["n3"]
    assert found.soon[0].removed_at == NOW + WARN_S


@pytest.mark.parametrize(
    ("members_", "trimmed", "due", "goes"),
    [(10, 0, 1, True), (3, 0, 1, True), (10, 0, 2, False), (99, 1, 9, True), (99, 1, 10, False), (9, 1, 1, False)],
)
def test_never_more_than_a_tenth_of_a_fleet_in_a_window(members_: int, trimmed: int, due: int, goes: bool) -> None:
    """rules K23: at least one; and where more are due, nobody by itself."""
    found = decide(*(quiet(f"n{number}") for number in range(due)), members=members_, trimmed=trimmed)
    assert (found.held_back == "") is goes
    assert len(found.due) == due


def test_the_window_is_no_shorter_than_what_a_node_may_go_on_with() -> None:
    """rules X22, J39"""
    CoordinatorSettings(trim_window_s=8 * DAY)
    CoordinatorSettings(trim_window_s=30 * DAY + CLOCK_SKEW_S, snapshot_lifetime_s=30 * DAY)
    CoordinatorSettings(trim_window_s=60 * DAY, audit_history_s=60 * DAY)
    tenth_forgotten = {"trim_window_s": 60 * DAY, "audit_history_s": 59 * DAY}
    too_short = {"trim_window_s": 30 * DAY, "snapshot_lifetime_s": 30 * DAY}
    for wrong in ({"trim_window_s": 7 * DAY}, too_short, tenth_forgotten):
        with pytest.raises(Refused) as caught:
            CoordinatorSettings(**wrong)
        assert "trim_window_s" in str(caught.value)


# ---- since when somebody was ready


def test_readiness_lasts_over_a_restart_and_not_over_a_gap(cluster: Database) -> None:
    """rules X29: a gap begins the window anew; so does a clock that leaps, and one that is set back."""

    def since(now: float) -> float | None:
        with cluster.read() as transaction:
            return readiness.since(transaction, now)

    assert since(NOW) is None
    for at in (NOW, NOW + HOUR, NOW + HOUR - 60):
        readiness.note(cluster, now=at)
        assert since(at) == NOW
    assert since(NOW + 2 * HOUR) == NOW and since(NOW + 2 * HOUR + 1) is None
    readiness.note(cluster, now=NOW + 2 * HOUR + 1)
    assert since(NOW + 2 * HOUR + 1) == NOW + 2 * HOUR + 1
    readiness.note(cluster, now=NOW + 40 * DAY)
    assert since(NOW + 40 * DAY) == NOW + 40 * DAY
    assert since(NOW + 3 * HOUR) is None
    readiness.note(cluster, now=NOW + 3 * HOUR)
    assert since(NOW + 3 * HOUR) == NOW + 3 * HOUR


def test_replicas_share_what_they_know(cluster: Database, second: Database) -> None:
    """rules X29: whoever of them was ready, members could be seen."""
    for step in range(6):
        readiness.note((cluster, second)[step % 2], now=NOW + step * 50 * 60)
    with second.read() as transaction:
        assert readiness.since(transaction, NOW + 5 * 50 * 60) == NOW


# ---- trimming


def test_who_is_unseen_leaves_and_whoever_asks_or_reports_stays(cluster: Database) -> None:
    """rules K23, P19, X22, X29: of four that joined together, by its own word, by the log, with a tombstone."""
    for node_id in ("asks", "reports", "silent", "revoked"):
        admit(cluster, node_id)
    revocation.revoke_node(cluster, "revoked", reason="stolen", actor="root", now=NOW)
    last_seen.record(cluster, {"asks": NOW + WINDOW / 2, "silent": NOW + 60})
    heartbeats.record(cluster, [reports.heartbeat("reports")], now=NOW + WINDOW / 2)
    assert trim(cluster, END + 60) == (), "nobody was ready"
    be_ready(cluster, NOW + 61, END + 61)
    assert trim(cluster, END + 60) == (), "not for a whole window"
    be_ready(cluster, NOW, END)
    assert trim(cluster, END + 59) == ()
    assert trim(cluster, END + 60, trim_members=False) == ()
    assert trim(cluster, END + 60) == ("silent",)
    assert trim(cluster, END + 61) == ()
    assert members(cluster) == ["asks", "reports", "revoked"]
    (row,) = audit_log.read(cluster, most=9, action="trim.member")
    assert (row.actor, row.subject, row.before) == ("coordinator", "silent", {"last_seen": NOW + 60})
    with pytest.raises(Refused) as caught:
        token_for(cluster, "silent")
    assert caught.value.code is Code.REMOVED


def test_who_returns_is_told_and_let_in_anew_by_an_operator(cluster: Database) -> None:
    """rules K23, K43, P29: with its key, under its name, from the day on which it joins again."""
    node = admit(cluster, "node-a")
    be_ready(cluster, NOW, END)
    assert trim(cluster, END) == ("node-a",)
    with pytest.raises(Refused) as caught:
        join(cluster, node, token_for(cluster, now=END), now=END)
    assert caught.value.code is Code.REMOVED
    revocation.readmit(cluster, AllowlistEntry("node-a"), actor="root", now=END)
    assert join(cluster, node, token_for(cluster, "node-a", now=END), now=END).outcome == "admitted"
    assert trim(cluster, END + 60) == ()
    assert members(cluster) == ["node-a"]


def test_a_member_in_service_goes_likewise_and_one_that_drains(cluster: Database) -> None:
    """rules K23: dependants are those of a removal that somebody chose; a silent node serves nobody."""
    admit(cluster, "node-a")
    leaving.drain(cluster, "node-a", actor="root", now=NOW)
    be_ready(cluster, NOW, END)
    assert trim(cluster, END) == ("node-a",)


def test_a_silence_of_many_waits_for_an_operator(cluster: Database) -> None:
    """rules K23: nobody of them goes by itself; those that were shown and are due still go by the operator's word."""
    for number in range(4):
        admit(cluster, f"n{number}")
    be_ready(cluster, NOW, END)
    settings = CoordinatorSettings()
    assert trim(cluster, END) == ()
    shown = trimming.plan(cluster, now=END, settings=settings)
    assert [member.node_id for member in shown.due] == ["n0", "n1", "n2", "n3"] and "nodes trim" in shown.held_back
    last_seen.record(cluster, {"n1": END - 1})
    how = {"actor": "operator:alice", "now": END, "settings": settings}
    assert trimming.trim_these(cluster, ["n0", "n1", "n2"], **how) == ("n0", "n2")
    assert members(cluster) == ["n1", "n3"]
    with pytest.raises(Refused) as caught:
        trimming.trim_these(cluster, ["n1"], **how)
    assert caught.value.code is Code.CONTRADICTION
    assert {row.actor for row in audit_log.read(cluster, most=9, action="trim.member")} == {"operator:alice"}


def test_a_tenth_is_of_a_window_and_not_of_an_hour(cluster: Database) -> None:
    """rules K23: the second one a day later waits, and what an operator has said does not count."""
    for number in range(3):
        admit(cluster, f"n{number}")
    last_seen.record(cluster, {"n1": NOW + DAY, "n2": NOW + 20 * DAY})
    be_ready(cluster, NOW, END)
    assert trim(cluster, END) == ("n0",)
    be_ready(cluster, NOW, END + DAY)
    assert trim(cluster, END + DAY) == ()
    assert "1 are due, and 0 may go" in trimming.plan(cluster, now=END + DAY, settings=SETTINGS).held_back


def test_a_coordinator_of_a_members_name_is_never_trimmed(cluster: Database) -> None:
    """rules K23: own entries never."""
    admit(cluster, "coord-1")
    be_ready(cluster, NOW, END)
    assert trim(cluster, END) == () and members(cluster) == ["coord-1"]


def test_a_node_with_another_key_under_a_trimmed_name(cluster: Database) -> None:
    """rules K43: a fresh key changes nothing; a fresh name does."""
    admit(cluster, "node-a")
    be_ready(cluster, NOW, END)
    trim(cluster, END)
    with pytest.raises(Refused):
        join(cluster, Candidate("node-a"), token_for(cluster, now=END), now=END)
    admit(cluster, "node-b")

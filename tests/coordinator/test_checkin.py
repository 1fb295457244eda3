"""A check-in: who it is, whether one of us was restored from an old backup (rules K33, K36, K41)."""

from coordinator.base.refusal import Refused
from coordinator.database.member import Member
from coordinator.reports.checkin import Comparison, ReportedMark, compare, compare_all, judge

MEMBER = Member("node-a", "data", "default", "sha256:old", "sha256:new")


def judged(pin: str | None = "sha256:old", cluster: str = "prod", **known: object) -> str:
    try:
        judge((cluster, "node-a"), pin, cluster_id="prod", **{"member": MEMBER, **known})
    except Refused as refused:
        return refused.code
    return "ok"


def test_the_order_of_a_check_in() -> None:
    """rules K33, K36: proof, cluster, revoked, entry, certificate."""
    revoked = Member("node-a", "data", "default", "sha256:old", revoked=True)
    assert judged(None, "staging", member=revoked) == "bad_proof"
    assert judged("sha256:x", "staging", member=revoked) == "wrong_cluster"
    assert judged("sha256:x", member=revoked) == "revoked"
    assert judged("sha256:x", member=None) == "removed"
    assert judged("sha256:x") == "identity_conflict"
    assert judged() == judged("sha256:new") == "ok"


def test_who_was_put_back() -> None:
    """rules K41, P30"""
    ours, theirs = ReportedMark(1, 5, "a"), ReportedMark(1, 7, "b")
    assert compare(ours, ours) is Comparison.EQUAL
    assert compare(theirs, ours) is compare(ours, None) is Comparison.NODE_BEHIND
    assert compare(ours, theirs) is compare(None, ours) is Comparison.NODE_AHEAD
    assert compare(ours, theirs, proven=True) is Comparison.RESTORED_BACKUP
    assert compare(ours, ReportedMark(1, 5, "b")) is Comparison.CONFLICT
    assert compare(ReportedMark(2, 1), ReportedMark(1, 99)) is Comparison.NODE_BEHIND
    assert compare(None, None) is Comparison.EQUAL


def test_scope_by_scope() -> None:
    records = {"a": ReportedMark(1, 1), "b": ReportedMark(1, 2), "c": ReportedMark(1, 3)}
    compared = compare_all(records, {"a": ReportedMark(1, 1), "b": ReportedMark(1, 1), "d": ReportedMark(1, 1)})
    assert compared == {
        "b": Comparison.NODE_BEHIND,
        "c": Comparison.NODE_BEHIND,
        "d": Comparison.NODE_AHEAD,
    }

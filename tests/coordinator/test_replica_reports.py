"""What each coordinator has said of itself, and the words for what is wrong (rules H20, H37)."""

from dataclasses import replace

import pytest

from coordinator.base.settings import CLOCK_SKEW_S, HOUR
from coordinator.database.continuity import BEGINNING, LinkMark
from coordinator.database.database import Database
from coordinator.membership import replica_reports, replicas
from coordinator.membership.replica_reports import SILENT_S, HeardReplica, ReplicaReport
from tests.coordinator import entered, histories
from tests.coordinator.candidates import FOUNDING, NOW
from tests.coordinator.test_replicas import OTHER_SERVER, SECOND
from wire.operators.operator_answers import Replica

NAME = SECOND.coordinator_id
ENTRY = Replica(NAME, SECOND.url, OTHER_SERVER, "sha256:00", NOW)
SAID = ReplicaReport(NAME, NOW, NOW - 60, "1.0", OTHER_SERVER)


@pytest.mark.parametrize(
    ("heard", "state", "words"),
    [
        (HeardReplica(NAME, ENTRY, SAID), "ready", []),
        (HeardReplica(NAME, ENTRY, replace(SAID, at=NOW - SILENT_S)), "ready", []),
        (
            HeardReplica(NAME, ENTRY, replace(SAID, at=NOW - SILENT_S - 1, reason="old")),
            "silent",
            ["its last word is of"],
        ),
        (HeardReplica(NAME, ENTRY, replace(SAID, at=NOW - HOUR, is_stopped=True)), "stopped", ["it was stopped at 20"]),
        (HeardReplica(NAME, ENTRY, replace(SAID, reason="no room")), "not_ready", ["no room"]),
        (HeardReplica(NAME, ENTRY, replace(SAID, at=NOW + CLOCK_SKEW_S + 9)), "ready", ["its clock is 309 s ahead"]),
        (
            HeardReplica(NAME, ENTRY, replace(SAID, certificate_sha256="sha256:11")),
            "ready",
            ["it shows the certificate"],
        ),
        (HeardReplica(NAME, ENTRY, SAID, is_on_record=False), "ready", ["it has seen link 0"]),
        (HeardReplica(NAME, ENTRY, None), "unheard", ["it has said nothing yet"]),
        (HeardReplica(NAME, None, SAID), "forgotten", ["it is no coordinator of this cluster any more"]),
        (HeardReplica(NAME, None, replace(SAID, at=NOW - SILENT_S - 1, reason="not named")), "forgotten", []),
    ],
)
def test_what_is_wrong_is_said_in_words(heard: HeardReplica, state: str, words: list[str]) -> None:
    standing = replica_reports.judge(heard, NOW)
    assert (standing.coordinator_id, standing.state) == (NAME, state)
    assert [fault[: len(start)] for fault, start in zip(standing.faults, words, strict=True)] == words


@pytest.mark.parametrize("report", [replace(SAID, at=NOW - HOUR - 1), replace(SAID, is_stopped=True)])
def test_who_was_removed_and_has_gone_is_not_told_of(report: ReplicaReport) -> None:
    assert replica_reports.judge(HeardReplica(NAME, None, report), NOW) is None


def test_the_last_word_counts(cluster: Database) -> None:
    entered.add(cluster, SECOND, actor="root", now=NOW)
    replica_reports.note(cluster, replace(SAID, reason="starting"))
    replica_reports.note(cluster, SAID)
    first, second = replica_reports.all_of(cluster)
    assert (first.coordinator_id, first.report) == (FOUNDING.coordinator_id, None)
    assert (second.report, second.entry.coordinator_id, second.is_on_record) == (SAID, NAME, True)
    replicas.remove(cluster, NAME, answering=FOUNDING.coordinator_id, actor="root", now=NOW)
    assert [heard.coordinator_id for heard in replica_reports.all_of(cluster)] == [FOUNDING.coordinator_id]
    replica_reports.note(cluster, SAID)
    assert replica_reports.judge(replica_reports.all_of(cluster)[1], NOW).state == "forgotten"


def test_who_has_seen_another_history_is_named(cluster: Database) -> None:
    """rules H37: of another database, or of one that was put back under the others"""
    histories.begin(cluster, now=NOW)
    with cluster.read() as transaction:
        mark = histories.HISTORY.latest(transaction).mark
    for seen, is_on_record in (
        (BEGINNING, True),
        (mark, True),
        (LinkMark(mark.number, "ab" * 32), False),
        (LinkMark(mark.number + 1, "ab" * 32), False),
    ):
        replica_reports.note(cluster, replace(SAID, coordinator_id=FOUNDING.coordinator_id, mark=seen))
        (heard,) = replica_reports.all_of(cluster)
        assert heard.is_on_record is is_on_record

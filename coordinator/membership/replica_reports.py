"""What each coordinator says of itself, and what is wrong with it, in words (rules H20, H37).

    note    this replica, twice a minute: ready or why not, the certificate that it shows, what it has seen of the
            history; and, as its last word, that it was stopped
    all_of  each coordinator of the cluster by its entry and its last word, and who speaks without an entry
    judge   pure: one of them becomes a state, and sentences that say what is wrong and what to do

A word is no authority: nothing is decided by it, no link of the history is made for it, and whoever can write to the
database can write it. It is there so that an operator need not go from machine to machine.

Rejected: to ask each one at its URL when an operator asks. Whoever answers may be cut off from another one that all
nodes reach; that other one would have to answer a stranger; and one that does not reach the database, which is what
they share, is out of work in any case.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Row

from coordinator.base.refusal import Refused
from coordinator.base.settings import CLOCK_SKEW_S, HOUR
from coordinator.database import continuity, history, schema
from coordinator.database.continuity import BEGINNING, LinkMark
from coordinator.database.database import Database, Transaction
from coordinator.membership import moving, replicas
from snapshot.identifiers import format_time
from wire.operators.operator_answers import REPLICA_STATES, Replica, ReplicaStanding

NOTE_S = 30.0
SILENT_S = 4 * NOTE_S
READY, NOT_READY, STOPPED, SILENT, UNHEARD, FORGOTTEN, MOVED = REPLICA_STATES

_TABLE = schema.coordinator_reports


@dataclass(frozen=True)
class ReplicaReport:
    """`reason`: why it is not ready, or nothing. `mark`: the newest link of the history that it has seen. `at`: by its
    own clock, Unix seconds.
    """

    coordinator_id: str
    at: float
    started_at: float
    version: str
    certificate_sha256: str
    reason: str = ""
    mark: LinkMark = BEGINNING
    is_stopped: bool = False


@dataclass(frozen=True)
class HeardReplica:
    """A coordinator by its entry and its last word, of which at least one is there. `is_on_record`: the database has
    the link that it has seen. `manifest`: the hash of the one that this link names, or nothing.
    `has_moved`: the cluster came from it (moving.py).
    """

    coordinator_id: str
    entry: Replica | None
    report: ReplicaReport | None
    is_on_record: bool = True
    manifest: str = ""
    has_moved: bool = False


def note(database: Database, report: ReplicaReport) -> None:
    """Its last word; the one before is gone."""
    row = {
        **{name: value for name, value in vars(report).items() if name != "mark"},
        "link": report.mark.number,
        "transition": report.mark.transition,
    }
    with database.record(now=report.at) as transaction:
        transaction.run(delete(_TABLE).where(_TABLE.c.coordinator_id == report.coordinator_id))
        transaction.run(insert(_TABLE).values(row))


def all_of(database: Database) -> list[HeardReplica]:
    """In the order in which they were added; who speaks without an entry comes last."""
    entries = {entry.coordinator_id: entry for entry in replicas.list_replicas(database)}
    with database.read() as transaction:
        reports = {row.coordinator_id: _read(row) for row in transaction.rows(select(_TABLE))}
        oldest = continuity.oldest(transaction)
        moved = moving.came_from(transaction)
        return [
            HeardReplica(
                name,
                entries.get(name),
                report,
                _is_on_record(transaction, report, oldest),
                _read_manifest(transaction, report),
                name in moved,
            )
            for name, report in {**dict.fromkeys(entries), **reports}.items()
        ]


def judge(heard: HeardReplica, now: float, newest: int = 0) -> ReplicaStanding | None:
    """None for one without an entry that has been silent for an hour: it has gone. `newest`: the newest link."""
    entry, report = heard.entry, heard.report
    if entry is None and (report is None or report.is_stopped or now - report.at > HOUR):
        return None
    return ReplicaStanding(
        coordinator_id=heard.coordinator_id,
        url="" if entry is None else entry.url,
        state=_state(heard, now),
        faults=tuple(_faults(heard, now)),
        said_at=None if report is None else report.at,
        started_at=None if report is None else report.started_at,
        version="" if report is None else report.version,
        link=0 if report is None else report.mark.number,
        lag=0 if report is None else max(0, newest - report.mark.number),
        manifest=heard.manifest,
        identity="" if entry is None else entry.identity_sha256,
    )


def _state(heard: HeardReplica, now: float) -> str:
    report = heard.report
    if heard.entry is None:
        return FORGOTTEN
    if heard.has_moved:
        return MOVED
    if report is None:
        return UNHEARD
    if report.is_stopped:
        return STOPPED
    if now - report.at > SILENT_S:
        return SILENT
    return NOT_READY if report.reason else READY


def _faults(heard: HeardReplica, now: float) -> Iterator[str]:
    """Sentences, each with what to do."""
    entry, report = heard.entry, heard.report
    if heard.has_moved or _has_gone(heard, now):
        return  # it works on another database, of which nothing is heard here; or does not run, as it should
    if report is None:
        yield "it has said nothing yet: it was never started, is of an earlier version, or works on another database"
        return
    if entry is None:
        yield "it is no coordinator of this cluster any more, and runs still: stop it"
    elif report.is_stopped:
        yield f"it was stopped at {_time(report.at)}: start it, or: {replicas.REMOVE} {heard.coordinator_id}"
        return
    elif now - report.at > SILENT_S:
        why = "it does not run, does not reach the database, or its clock is behind"
        yield f"its last word is of {_time(report.at)}: {why}"
        return
    elif report.at - now > CLOCK_SKEW_S:
        yield f"its clock is {report.at - now:.0f} s ahead of that of the one that answers: set them right"
    if report.reason:
        yield report.reason
    if entry is not None and entry.certificate_sha256 != report.certificate_sha256:
        yield (
            f"it shows the certificate {report.certificate_sha256}, and its entry has another one, so that joins there"
            " are refused: systemctl reload holdfast-coordinator, on its machine; or two run under this id"
        )
    if not heard.is_on_record:
        yield (
            f"it has seen link {report.mark.number} of the history, which this database lacks: one of the two works on"
            " a database that was restored or exchanged"
        )


def _has_gone(heard: HeardReplica, now: float) -> bool:
    """Whether it was taken away, and has stopped: nothing is wrong, and its row goes within the hour."""
    return heard.entry is None and heard.report is not None and now - heard.report.at > SILENT_S


def _is_on_record(transaction: Transaction, report: ReplicaReport | None, oldest: int) -> bool:
    """Whether the database has the link that it has seen; or it is older than all that are kept."""
    if report is None or not report.mark.number:
        return True
    found = continuity.link_at(transaction, report.mark.number)
    return found == report.mark.transition or (found is None and report.mark.number < oldest)


def _read_manifest(transaction: Transaction, report: ReplicaReport | None) -> str:
    """Nothing where the link is none of this database, or is not kept any more."""
    if report is None or not report.mark.number:
        return ""
    try:
        seen = history.get(transaction, history.TRANSITIONS, report.mark.transition)
        return history.parse_transition(seen).manifest
    except Refused:
        return ""


def _read(row: Row[Any]) -> ReplicaReport:
    return ReplicaReport(
        coordinator_id=row.coordinator_id,
        at=row.at,
        started_at=row.started_at,
        version=row.version,
        certificate_sha256=row.certificate_sha256,
        reason=row.reason,
        mark=LinkMark(row.link, row.transition),
        is_stopped=row.is_stopped,
    )


def _time(at: float) -> str:
    return format_time(int(at))

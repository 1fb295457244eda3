"""Whether the history, and all that it proves, is as it was linked: by pages, so that a million links hold up nobody.

    walk     the links alone, each with the one before it: what a coordinator does at its start, beside its work
    verify   the same, and each audit row against the link that is for it (`holdfastctl audit verify`)
    compare  one table against its running digest, and that against the newest link

A page begins at a `Cursor`, which says what was verified up to there; who asks carries it from page to page. It begins
at the oldest link that is kept. If that is not the first one, a linked audit row must say that the ones before it were
trimmed, exactly up to there (retention.py): whoever takes rows away without that is found.

Rejected: a table of what was verified up to where, so that a start has less to do. Whoever changes the history would
change that as well; and the links alone are read at some ten thousand a second.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.engine import Row

from coordinator.base.refusal import Refused, bound_text
from coordinator.database import history, history_manifest, running_digests, schema
from coordinator.database.continuity import BEGINNING, ZERO, LinkMark, link_at, oldest
from coordinator.database.database import Database, Transaction
from coordinator.database.history import Latest, LinkedHistory, Transition, distrust
from snapshot import canonical
from snapshot.identifiers import format_time

PAGE = 500  # links at a time, or ten times as many rows
_ROWS_A_LINK = 10  # whose work is that of a link
MOST_FAULTS = 100
TRIM = "trim"  # the action of the audit row that says what was trimmed
IMPORT = "cluster.import"  # the action of the row that says where a cluster came from (membership/moving.py)
CLUSTER, COORDINATORS = "cluster", str(schema.coordinators.name)
COMPARED = (CLUSTER, *running_digests.TABLES)


@dataclass(frozen=True)
class Cursor:
    """Links are verified up to `mark`; of the next one the audit rows up to `row`, which give `digest`."""

    mark: LinkMark = BEGINNING
    row: int = 0
    digest: str = ""
    count: int = 0
    is_restored: bool = False  # the state at `mark` is of a database that was put back


@dataclass(frozen=True)
class Fault:
    """What is wrong, in words. `number`: of the link. `audit_id`, `at`: of the row, where it is one."""

    number: int
    what: str
    audit_id: int | None = None
    at: float | None = None


@dataclass
class CheckedPart:
    """`next`: where to go on, None at the newest link. `since`, `until`: of the audit rows, Unix seconds."""

    links: int = 0
    rows: int = 0
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    since: float | None = None
    until: float | None = None
    oldest: int = 0
    newest: int = 0
    unlinked: int = 0
    next: Cursor | None = None


def walk(database: Database, since: LinkMark, *, most: int = PAGE) -> LinkMark:
    """The mark of the last link that follows, of at most so many. Refused where one does not."""
    with database.read() as transaction:
        latest = _history(database).latest(transaction)
        at = since if since.number and link_at(transaction, since.number) == since.transition else LinkMark()
        for number, kept in _links(transaction, at.number, most):
            transition = history.parse_transition(history.get(transaction, history.TRANSITIONS, kept))
            if fault := _order_fault(number, transition, at):
                raise distrust(fault)
            at = LinkMark(number, kept)
        if at.number >= latest.mark.number and at != latest.mark:
            raise distrust("the newest link is not the one that the history's pointer names")
    return at


def verify(database: Database, since: Cursor | None = None, *, most: int = PAGE) -> CheckedPart:
    """One page. What is wrong is in it, and the next one goes on behind it."""
    with database.read() as transaction:
        made = CheckedPart()
        try:
            latest = _history(database).latest(transaction)
        except Refused as refused:
            made.faults.append(Fault(0, refused.detail))
            return made
        made.oldest, made.newest = oldest(transaction), latest.mark.number
        made.unlinked = _count(transaction, schema.audit.c.link.is_(None))
        cursor = since
        if cursor is None:
            cursor = Cursor()
            made.faults += _check_beginning(transaction, made)
        made.next = _Page(transaction, made, latest, most).go_on(cursor)
    return made


def compare(database: Database, name: str) -> str:
    """What of a table (`COMPARED`) is not as the newest link has it, in words; nothing where it is. Refused where the
    newest link cannot be believed.
    """
    with database.read() as transaction:
        latest = _history(database).latest(transaction)
        if name == CLUSTER:
            return "" if latest.cluster == latest.state[CLUSTER] else "the cluster's row of authority was changed"
        if name == COORDINATORS and not _is_as_declared(transaction, latest):
            return "the coordinators, or the latest trust bundle, are not those of the manifest"
        if name not in latest.state["digests"]:
            return ""  # an update of the program brought its digest: the next change has it
        table, kept = running_digests.TABLES[name], running_digests.read(transaction.connection)
        if running_digests.text_of(kept.get(name, b"")) != latest.state["digests"][name]:
            return f"the running digest of {name} is not the one that the newest link has"
        if running_digests.whole(transaction.connection, table) != kept[name]:
            return f"rows of {name} were changed, added or taken away from outside"
    return ""


def _is_as_declared(transaction: Transaction, latest: Latest) -> bool:
    said = history.get(transaction, history.MANIFESTS, latest.transition.manifest)
    return history_manifest.without_time(said) == history_manifest.content(
        transaction, history_manifest.owners_of(said)
    )


def text_of(cursor: Cursor) -> str:
    """For the address of the next page."""
    parts = (
        cursor.mark.number,
        cursor.mark.transition,
        cursor.row,
        cursor.digest,
        cursor.count,
        int(cursor.is_restored),
    )
    return ".".join(map(str, parts))


def cursor_of(text: str) -> Cursor:
    """ValueError for anything else."""
    number, transition, row, digest, count, restored = text.split(".")
    bytes.fromhex(digest)
    return Cursor(LinkMark(int(number), transition), int(row), digest, int(count), restored == "1")


@dataclass
class _Page:
    transaction: Transaction
    made: CheckedPart
    latest: Latest
    left: int
    resume: Cursor | None = None

    def go_on(self, cursor: Cursor) -> Cursor | None:
        for number, kept in _links(self.transaction, cursor.mark.number, self.left):
            after = self._link(number, kept, cursor)
            if after is None:  # in the midst of its rows
                return self.resume
            cursor = after
            self.made.links += 1
            self.left -= 1
            if len(self.made.faults) >= MOST_FAULTS:
                break
        if cursor.mark.number < self.latest.mark.number:
            if self.made.links:
                return cursor
            self._fault(cursor.mark.number + 1, "it is missing, and all links after it")
        elif cursor.mark != self.latest.mark:
            self._fault(cursor.mark.number, "it is not the link that the history's pointer names")
        return None

    def _link(self, number: int, kept: str, cursor: Cursor) -> Cursor | None:
        after = Cursor(LinkMark(number, kept), is_restored=cursor.is_restored)
        try:
            transition = history.parse_transition(history.get(self.transaction, history.TRANSITIONS, kept))
            if fault := _order_fault(number, transition, cursor.mark):
                self._fault(number, fault)
            state = history.read_state(self.transaction, transition.state)
        except Refused as refused:
            self._fault(number, refused.detail)
            return after
        if not self._rows(number, state["audit"], cursor):
            return None
        return replace(after, is_restored=self._note_restored(number, state["cluster"], cursor))

    def _rows(self, number: int, said: Mapping[str, Any], cursor: Cursor) -> bool:
        """Whether all of them were looked at."""
        digest, count, last = bytes.fromhex(cursor.digest), cursor.count, cursor.row
        named = {} if last else dict(said["rows"])
        is_all_named = said["count"] <= history.NAMED_ROWS
        faults = len(self.made.faults)
        for row in history.linked_rows(self.transaction, number, last):
            if self.left <= 0:
                self.resume = replace(cursor, row=last, digest=digest.hex(), count=count)
                return False
            text = history.row_text(row)
            digest, count, last = history.fold_row(digest, text), count + 1, row.audit_id
            self._note(row)
            name = named.pop(row.audit_id, None)
            if name is not None and name != history.row_name(text):
                self._row_fault(number, row, "was changed")
            elif name is None and is_all_named:
                self._row_fault(number, row, "was added, or moved here from another link")
            self.left -= self.made.rows % _ROWS_A_LINK == 0
        for audit_id in named:
            self._fault(number, f"its audit row {audit_id} is missing", audit_id)
        if digest.hex() != said["digest"] and len(self.made.faults) == faults:
            rows = f"{said['count']} audit rows from {said['first']} to {said['last']}"
            self._fault(number, f"of its {rows}, {count} are there, and they are not those that it proves")
        return True

    def _note(self, row: Row[Any]) -> None:
        made = self.made
        made.rows += 1
        made.since = row.at if made.since is None else min(made.since, row.at)
        made.until = row.at if made.until is None else max(made.until, row.at)

    def _note_restored(self, number: int, cluster: Mapping[str, Any], cursor: Cursor) -> bool:
        epoch = cluster["put_back_epoch"]
        is_restored = epoch is not None and cluster["authority_epoch"] <= epoch
        if is_restored and not cursor.is_restored:
            self.made.notes.append(f"link {number}: {self._explain_stop(number)}")
        if cursor.is_restored and not is_restored:
            self.made.notes.append(f"link {number}: epoch {cluster['authority_epoch']} ended that")
        return is_restored

    def _explain_stop(self, number: int) -> str:
        table = schema.audit
        is_import = (table.c.link == number) & (table.c.action == IMPORT)
        if _count(self.transaction, is_import):
            return "the cluster came from another coordinator, and nothing was signed until its epoch was raised"
        return (
            "a node proved that the database was restored from a backup; what was done between that backup and this "
            "link is not in this history"
        )

    def _row_fault(self, number: int, row: Row[Any], what: str) -> None:
        subject = bound_text(f"{row.action} {row.subject} by {row.actor}, {_time(row.at)}")
        self.made.faults.append(Fault(number, f"audit row {row.audit_id} ({subject}) {what}", row.audit_id, row.at))

    def _fault(self, number: int, what: str, audit_id: int | None = None) -> None:
        self.made.faults.append(Fault(number, what, audit_id))


def _time(at: float) -> str:
    try:
        return format_time(int(at))
    except (ValueError, OverflowError):
        return str(at)


def _history(database: Database) -> LinkedHistory:
    if not isinstance(database.history, LinkedHistory):
        raise distrust("no history was begun here, or its seed is missing")
    return database.history


def _links(transaction: Transaction, after: int, most: int) -> Iterator[tuple[int, str]]:
    table = schema.transitions
    chosen = select(table).where(table.c.number > after).order_by(table.c.number).limit(max(1, most))
    yield from ((row.number, row.transition) for row in transaction.rows(chosen))


def _order_fault(number: int, transition: Transition, before: LinkMark) -> str:
    """Of the oldest link that is kept, when nothing is verified yet, only that it says its own number."""
    if transition.number != number:
        return f"link {number} says that it is link {transition.number}"
    if not before.number:
        is_sound = number > 1 or transition.previous == ZERO
        return "" if is_sound else "the first link follows another one"
    if number != before.number + 1:
        return f"links {before.number + 1} to {number - 1} are missing"
    return "" if transition.previous == before.transition else f"link {number} does not follow link {before.number}"


def _check_beginning(transaction: Transaction, made: CheckedPart) -> Iterator[Fault]:
    """Whether what is not there any more was trimmed; and no row names a link that is not there."""
    table = schema.audit
    outside = _count(transaction, or_(table.c.link < made.oldest, table.c.link > made.newest))
    if outside:
        yield Fault(0, f"{outside} audit rows say that they are of links that are not kept: added from outside")
    if made.oldest <= 1:
        return
    kept = link_at(transaction, made.oldest)
    first = history.parse_transition(history.get(transaction, history.TRANSITIONS, kept or ""))
    wanted = {"number": made.oldest - 1, "transition": first.previous}
    if not any(said == wanted for said in _trims(transaction)):
        what = f"links up to {made.oldest - 1} are gone, and no audit row says that they were trimmed"
        yield Fault(made.oldest, what)


def _trims(transaction: Transaction) -> Iterator[object]:
    """What linked rows say was trimmed, the newest first; that they are sound is verified with all others."""
    table = schema.audit
    chosen = select(table.c.after).where(table.c.action == TRIM, table.c.link.is_not(None))
    for row in transaction.stream(chosen.order_by(table.c.at.desc())):
        try:
            said = canonical.loads(row.after.encode())
        except canonical.NotCanonical:
            continue
        yield said.get("history") if isinstance(said, dict) else None


def _count(transaction: Transaction, condition: ColumnElement[bool]) -> int:
    return transaction.number(select(func.count()).select_from(schema.audit).where(condition))

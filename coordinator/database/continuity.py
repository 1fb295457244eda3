"""What this coordinator has seen of its database last, and whether what is there now follows from it (rules H37, P30).

A database goes back: it is restored from a backup, exchanged, or its standby was behind when it was promoted. Whoever
signs from it then uses numbers again that nodes hold. So the newest link of the history that was seen or made here is
remembered, and asked for in each transaction from which something is to be signed (`cluster_state.sound`): one row by
its key. It is remembered before it is looked at again, so a reader's older view is not taken for a loss.

Of a server's database it is kept in a file, too (`database-seen.json`, beside the keys' directory): a coordinator that
was restarted in between knows as much. The file is written after each change, and before anybody is told of it. With it
goes the timeline that was worked on (servers.py).

Rejected: the same file for SQLite. It would lie on the disk of the database, and who puts back one puts back both.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import schema
from coordinator.database.database import Transaction
from coordinator.keys import keystore
from coordinator.servers.servers import NO_TIMELINE, Servers, Timeline
from snapshot import canonical
from wire.logs import log

FILE = "database-seen.json"
ZERO = "0" * 64


@dataclass(frozen=True)
class LinkMark:
    """A place in the history: the link of this number, by its hash. Zero: before the first one."""

    number: int = 0
    transition: str = ZERO


BEGINNING = LinkMark()


@dataclass(frozen=True)
class LastSeen:
    """The newest link, with the epoch that was in force; and the timeline of the server that it was on."""

    mark: LinkMark = BEGINNING
    authority_epoch: int = 0
    timeline: Timeline = NO_TIMELINE

    def gap(self, transaction: Transaction, authority_epoch: int) -> str:
        """Why what is there does not follow from this, or nothing; nothing, too, once the epoch is above it."""
        if not self.mark.number or authority_epoch > self.authority_epoch:
            return ""
        found = link_at(transaction, self.mark.number)
        if found == self.mark.transition or (found is None and oldest(transaction) > self.mark.number):
            return ""
        what = "lacks" if found is None else "has another"
        return f"the database {what} link {self.mark.number} of the history, which was seen here: it was restored"


@dataclass
class Continuity:
    """`file`: where it is kept; None: in memory alone. Used by several threads."""

    file: Path | None = None
    seen: LastSeen = LastSeen()
    servers: Servers | None = None  # whose timeline is kept with it
    _fault: str = ""
    _writing: Lock = field(default_factory=Lock)

    def note(self, mark: LinkMark, authority_epoch: int) -> None:
        """What was seen or made last, and follows from what is known; not if it is older."""
        timeline = NO_TIMELINE if self.servers is None else self.servers.newest
        with self._writing:
            known, found = self.seen, LastSeen(mark, authority_epoch, timeline)
            is_older = (authority_epoch, mark.number) < (known.authority_epoch, known.mark.number)
            if is_older or found == known or not mark.number:
                return
            self.seen = found
            if self.file is not None:
                self._keep(self.file, found)

    def _keep(self, file: Path, seen: LastSeen) -> None:
        """What cannot be kept is said, and known as long as this process lives."""
        try:
            _replace(file, _to_bytes(seen))
            self._fault = ""
        except OSError as error:
            if str(error) != self._fault:
                log.error("what was seen of the database is not kept over a restart", reason=str(error))  # noqa: TRY400
            self._fault = str(error)


def read_kept(file: Path, servers: Servers | None = None) -> Continuity:
    """What was seen before this process began. Refused `invalid_settings` where the file is none of ours."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return Continuity(file, servers=servers)
    try:
        found = Continuity(file, _parse(canonical.loads(data)), servers)
    except (canonical.NotCanonical, KeyError, TypeError, ValueError) as error:
        remedy = "take it away; then nodes alone say whether the database has gone back"
        raise Refused(Code.INVALID_SETTINGS, f"{file} is damaged", remedy=remedy) from error
    if servers is not None:
        servers.newest = found.seen.timeline
    return found


def _replace(file: Path, data: bytes) -> None:
    new = file.with_name(f"{file.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(data)
        writing.flush()
        os.fsync(descriptor)
    new.replace(file)
    keystore.sync_directory(file.parent)


def keep(file: Path, mark: LinkMark, authority_epoch: int) -> None:
    """That this was seen, for whoever reads it at a start. OSError."""
    _replace(file, _to_bytes(LastSeen(mark, authority_epoch)))


def forget(file: Path) -> None:
    with suppress(FileNotFoundError):
        file.unlink()


def _to_bytes(seen: LastSeen) -> bytes:
    line = {"system": seen.timeline.system, "timeline": seen.timeline.number}
    link = {"link": seen.mark.number, "transition": seen.mark.transition}
    return canonical.dumps({"authority_epoch": seen.authority_epoch, **link, **line})


def _parse(value: object) -> LastSeen:
    if not isinstance(value, Mapping):
        raise TypeError("no object")
    mark = LinkMark(int(value["link"]), str(value["transition"]))
    return LastSeen(mark, int(value["authority_epoch"]), Timeline(str(value["system"]), int(value["timeline"])))


# ---- where links are


def link_at(transaction: Transaction, number: int) -> str | None:
    table = schema.transitions
    row = transaction.row(select(table.c.transition).where(table.c.number == number))
    return None if row is None else str(row.transition)


def oldest(transaction: Transaction) -> int:
    return transaction.number(select(schema.transitions.c.number).order_by(schema.transitions.c.number).limit(1))

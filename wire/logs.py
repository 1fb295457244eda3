"""How both daemons log: structured, levelled, one event a line on stderr, for the journal (threats D-55).

    from wire.logs import log

    log.warning("document refused", scope=scope, reason=reason)

The journal is told each line's priority, for `journalctl -p warning`. No line holds a secret or the bytes of a
document; text from outside is bounded and escaped where it is made.

Rejected: structlog, which loads asyncio with itself, and rich where that is installed: a third of all that an agent
loaded before its first answer. The standard library's `logging`: its records have no values, and whatever library
configures it changes what is written here.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from wire.printable import printable

LEVELS = ("debug", "info", "warning", "error")
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3}  # sd-daemon(3)

Writer = Callable[[str, str, Mapping[str, object]], None]


class Log:
    """Of the process. `write` is given level, event and values of each line that is not below the level `least`."""

    def __init__(self, write: Writer) -> None:
        self.least = "debug"
        self.write = write

    def debug(self, event: str, **values: object) -> None:
        self._say("debug", event, values)

    def info(self, event: str, **values: object) -> None:
        self._say("info", event, values)

    def warning(self, event: str, **values: object) -> None:
        self._say("warning", event, values)

    def error(self, event: str, **values: object) -> None:
        self._say("error", event, values)

    def exception(self, event: str, **values: object) -> None:
        """An error, with the exception that is being handled: its frames' lines, and none of their variables."""
        self._say("error", event, {**values, "exception": traceback.format_exc().rstrip("\n")})

    def _say(self, level: str, event: str, values: Mapping[str, object]) -> None:
        if LEVELS.index(level) >= LEVELS.index(self.least):
            self.write(level, event, values)


def write_for_programs(level: str, event: str, values: Mapping[str, object]) -> None:
    """One JSON object; first what happened, for whoever reads the lines as they are."""
    line = json.dumps({"event": event, "level": level, **values, "timestamp": _now()}, default=repr)  # noqa: TID251 - no message
    _write_line(f"<{_PRIORITIES[level]}>{line}" if _is_the_journal() else line)


def write_for_people(level: str, event: str, values: Mapping[str, object]) -> None:
    """On a terminal. An exception has lines of its own."""
    said = " ".join(f"{name}={value!r}" for name, value in values.items() if name != "exception")
    _write_line(f"{_now()} [{level:<7}] {event:<30} {said}".rstrip())
    if "exception" in values:
        _write_line(str(values["exception"]))


log = Log(write_for_programs)


def set_up_logging(level: str) -> None:
    """One JSON object a line; on a terminal for people."""
    log.least = level
    log.write = write_for_people if sys.stderr.isatty() else write_for_programs


def last_words(text: str) -> None:
    """Why the process ends, for people; to the journal an error, each of its lines."""
    mark = f"<{_PRIORITIES['error']}>" if _is_the_journal() else ""
    sys.stderr.write("".join(f"{mark}{printable(line)}\n" for line in text.splitlines()))


def _write_line(line: str) -> None:
    """In one call, since threads write too."""
    sys.stderr.write(f"{line}\n")


def _now() -> str:
    """For people alone: nothing is decided by it, so it is no clock of the daemon's."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")  # noqa: TID251 - as the docstring says


def _is_the_journal() -> bool:
    """Whether stderr leads there: systemd.exec(5), $JOURNAL_STREAM."""
    try:
        there = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or none of the system's
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"

"""How both daemons log: structured, levelled, one event a line on stderr, for the journal (threats D-55).

The journal is told each line's priority, for `journalctl -p warning`. No line holds a secret or the bytes of a
document; text from outside is bounded and escaped where it is made.
"""

import logging
import os
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from wire.printable import printable

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}  # sd-daemon(3)


def set_up_logging(level: str) -> None:
    """One JSON object a line; on a terminal for people."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(_for_people() if sys.stderr.isatty() else _for_programs()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def last_words(text: str) -> None:
    """Why the process ends, for people; to the journal an error, each of its lines."""
    mark = f"<{_PRIORITIES['error']}>" if _is_the_journal() else ""
    sys.stderr.write("".join(f"{mark}{printable(line)}\n" for line in text.splitlines()))


def _for_people() -> list[Processor]:
    # The default formatter prints the variables of each frame, which may hold anything.
    return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback, repr_native_str=True)]


def _for_programs() -> list[Processor]:
    line: list[Processor] = [structlog.processors.format_exc_info, _event_first]
    return [*line, _with_priority if _is_the_journal() else structlog.processors.JSONRenderer()]


def _event_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """For whoever reads the lines as they are."""
    return {"event": event.pop("event"), "level": event.pop("level"), **event}


def _with_priority(logger: WrappedLogger, method: str, event: EventDict) -> str:
    priority = _PRIORITIES.get(event["level"], _PRIORITIES["error"])
    return f"<{priority}>{structlog.processors.JSONRenderer()(logger, method, event)!s}"


def _is_the_journal() -> bool:
    """Whether stderr leads there: systemd.exec(5), $JOURNAL_STREAM."""
    try:
        there = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or none of the system's
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"

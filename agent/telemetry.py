"""What the agent says of itself: structured logs on stderr, and counters (shown by the status, metrics and heartbeats).

No log line holds a secret or the bytes of a document; text from outside is bounded and escaped where it is made.
"""

import logging
import sys
from collections import Counter

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up_logging(level: str) -> None:
    """One JSON object a line, for the journal; on a terminal for people."""
    # Its default formatter prints the variables of each frame, which may hold anything.
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer: structlog.typing.Processor = console if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if sys.stderr.isatty() else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


class Counters:
    """Counted since the start; they only rise."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, by: int = 1) -> None:
        self._counts[name] += by

    def of(self, name: str) -> int:
        return self._counts[name]

    def all(self) -> dict[str, int]:
        return dict(sorted(self._counts.items()))

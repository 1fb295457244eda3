"""How both daemons log: structured, levelled, one event a line on stderr, for the journal (threats D-55).

No line holds a secret or the bytes of a document; text from outside is bounded and escaped where it is made.
"""

import logging
import sys

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up_logging(level: str) -> None:
    """One JSON object a line; on a terminal for people."""
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

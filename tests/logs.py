"""What is logged, kept instead of written."""

from contextlib import contextmanager

from wire.logs import log


@contextmanager
def capture_logs():
    """The lines that are logged inside of the block, at every level: `event`, `log_level` and their values."""
    lines = []
    with unchanged_logging():
        log.least = "debug"
        log.write = lambda level, event, values: lines.append({**values, "event": event, "log_level": level})
        yield lines


@contextmanager
def unchanged_logging():
    """What the block sets up is undone."""
    before = log.least, log.write
    try:
        yield
    finally:
        log.least, log.write = before

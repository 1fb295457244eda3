"""A daemon that has just been told to start: its socket is waited for, a moment, where it may come at all.

Whoever types one command after the other is faster than a daemon's first 300 ms. Rejected: to wait for any error, since
a permission or a wrong path does not mend itself; and to wait in the client library, whose callers have files to go on
with.
"""

import socket
import stat
import time
from pathlib import Path

START_S = 5.0
FLOOR_S, CAP_S = 0.05, 0.5


def wait_for(path: Path, within_s: float = START_S) -> None:
    """Until somebody listens at this Unix socket, or waiting for it is no use."""
    deadline, pause_s = time.monotonic() + within_s, FLOOR_S
    while may_come(path, _refusal(path)) and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, CAP_S)


def may_come(path: Path, refusal: OSError | None) -> bool:
    """Whether somebody may be about to listen: the socket is not there yet, or nobody is behind it yet."""
    if not isinstance(refusal, FileNotFoundError | ConnectionRefusedError):
        return False
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except FileNotFoundError:
        return path.parent.is_dir()
    except OSError:
        return False


def _refusal(path: Path) -> OSError | None:
    """Why a connect fails now."""
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(START_S)
        try:
            trial.connect(str(path))
        except OSError as error:
            return error
    return None

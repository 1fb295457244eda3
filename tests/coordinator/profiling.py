"""What a piece of work has called."""

import sys
from collections.abc import Callable


def entered_files(work: Callable[[], object]) -> set[str]:
    """The files whose functions were called."""
    found: set[str] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _argument: found.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found

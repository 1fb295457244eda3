"""No core dump, and nobody who looks into this process: it holds keys (rules H4; threats D-61).

The unit says the same (LimitCORE=0); a coordinator that is started by hand says it here. PR_SET_DUMPABLE beside the
limit: where dumps go through a program (systemd-coredump, apport) the kernel does not ask the limit; and without it
another process of the same account may read this one's memory.
"""

import ctypes
import resource

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_DUMPABLE = 4  # prctl(2)


def forbid() -> None:
    """For this process, from now on. OSError where the kernel refuses."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE) was refused")

"""Units of systemd as the configuration names them, and what may be asked of one."""

import re
from enum import StrEnum

_UNIT = re.compile(r"[A-Za-z0-9:_\\@-][A-Za-z0-9:_.\\@-]{0,250}", re.ASCII)


class Verb(StrEnum):
    RELOAD = "reload"  # systemctl try-reload-or-restart
    RESTART = "restart"  # systemctl try-restart
    SIGNAL = "signal"  # systemctl kill


VALIDATE = "validate"


def path_unit(asked: str, unit: str) -> str:
    """What root enables, and so allows the agent to ask this of the unit: a verb, or to validate."""
    return f"holdfast-{asked}@{unit}.path"


def is_unit(name: str) -> bool:
    """Of a form that is a file name, too, and never a path."""
    return _UNIT.fullmatch(name) is not None and ".." not in name

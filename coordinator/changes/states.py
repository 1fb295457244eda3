"""The words for where a change, a group of its nodes, and each node of it stand. Pure."""

import enum


class ChangeState(enum.StrEnum):
    PROPOSED = "proposed"  # waits for approvals
    PREPARING = "preparing"
    ROLLING = "rolling"
    DONE = "done"
    HALTED = "halted"  # waits for a person
    REVERTING = "reverting"
    REVERTED = "reverted"
    SUPERSEDED = "superseded"


SETTLED = frozenset({ChangeState.DONE, ChangeState.REVERTED, ChangeState.SUPERSEDED})


class GroupPhase(enum.StrEnum):
    """What a group of nodes is about."""

    PENDING = "pending"
    VOTING = "voting"
    READY = "ready"
    BAKING = "baking"
    PASSED = "passed"


class Step(enum.StrEnum):
    """What a node's head says of a change: nothing, that it comes, that it is there."""

    HELD = "held"
    OFFERED = "offered"
    RELEASED = "released"


class Outcome(enum.StrEnum):
    """What became of it on a node."""

    NONE = ""
    ACTIVE = "active"
    GOOD = "good"
    REFUSED = "refused"
    REVERTED = "reverted"
    SILENT = "silent"


FAILED = frozenset({Outcome.REFUSED, Outcome.REVERTED, Outcome.SILENT})


class Presence(enum.Enum):
    """Whether a node can be reached, as far as that is known."""

    REACHABLE = "reachable"
    UNKNOWN = "unknown"  # not heard of since we listen, and we have not listened for long
    OFFLINE = "offline"


class Verdict(enum.StrEnum):
    """What a node says of what is coming."""

    NONE = ""
    ACCEPTED = "accepted"
    REFUSED = "refused"

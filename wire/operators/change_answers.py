"""What a coordinator answers of changes: how far each is, what it changes, and what became of it (docs/changes.md).

A change is named `c-41`. Times are Unix seconds. What nodes say of themselves is shown and believed nothing.
"""

from collections.abc import Mapping

from wire.answer_message import AnswerMessage
from wire.forms import integer, member, message
from wire.operators.operator_answers import PlannedChange

COUNT = integer()


@message
class ChangeCounts:
    """Nodes of a change. Each is in as many of these as are true of it: who has it active has accepted it before.

    `asked`: they judge it before anybody runs it; `silent`: asked or given it, and not heard of it in time; `offline`:
    left out, they get it when they return; `given`: their heads list it; `good`: they run it, and kept it.
    """

    touched: int = member(COUNT, default=0)
    asked: int = member(COUNT, default=0)
    accepted: int = member(COUNT, default=0)
    refused: int = member(COUNT, default=0)
    silent: int = member(COUNT, default=0)
    offline: int = member(COUNT, default=0)
    given: int = member(COUNT, default=0)
    active: int = member(COUNT, default=0)
    good: int = member(COUNT, default=0)
    reverted: int = member(COUNT, default=0)


@message
class ChangeCourse:
    """The nodes that go by one policy. `ring`: the last one that was let go, of `rings`; `since`: when its phase began.

    `policy` is empty where none applies, and the default is gone by.
    """

    policy: str
    phase: str
    ring: int
    rings: int
    since: float
    prepare: str
    bake_s: int
    success_percent: int
    on_failure: str
    approvals: int = 0


@message
class ChangeSummary(AnswerMessage):
    """`why`: why it stands or goes back; `immediately`: why it skips rings and bake; or nothing. `resources`: so many
    it changes. `approvals` of `approvals_needed` were given. `allowed`: this plan was let pass the guards.
    """

    change: str
    at: float
    actor: str
    message: str
    state: str
    why: str
    plan_hash: str
    resources: int
    counts: ChangeCounts
    courses: tuple[ChangeCourse, ...]
    immediately: str
    allowed: bool
    reverts: str | None
    waits_for: str | None
    superseded_by: str | None
    settled_at: float | None
    approvals: int
    approvals_needed: int
    revision: int


@message
class ChangeList(AnswerMessage):
    """The newest first."""

    changes: tuple[ChangeSummary, ...]


@message
class ChangeRefusal:
    """A node that did not take it, or did not keep it: `outcome` is `refused`, `reverted` or `silent`."""

    node_id: str
    outcome: str
    scope: str
    step: int | None
    reason: str
    detail: str
    at: float | None


@message
class ChangeNews(ChangeSummary):
    """`mark` stands for all that is said here: with it one waits for what comes next. `took`: seconds from the apply
    until nodes ran it, `p50` and `p99`. `waits`: for what, as the coordinator that answers sees it. Of refusals and of
    nodes that are left out at most 50 are named.
    """

    mark: str
    refusals: tuple[ChangeRefusal, ...]
    refusals_total: int
    offline: tuple[str, ...]
    took: Mapping[str, float]
    waits: tuple[str, ...] = ()


@message
class ChangeMoment:
    """A line of the timeline. `what` is a word of ours; `node_id` and `detail` may be empty."""

    at: float
    what: str
    node_id: str
    detail: str


@message
class ChangeApproval:
    """`counts`: who gave it may still approve."""

    operator: str
    at: float
    counts: bool


@message
class ChangeDetail(ChangeNews):
    """A change in whole. Of a timeline of more than 2,000 lines the last says how many more there were."""

    timeline: tuple[ChangeMoment, ...] = ()
    approved_by: tuple[ChangeApproval, ...] = ()


@message
class ChangeDiff(AnswerMessage):
    """What it changes, resource by resource; `lines` say it to a person."""

    change: str
    plan_hash: str
    changes: tuple[PlannedChange, ...]
    lines: tuple[str, ...]

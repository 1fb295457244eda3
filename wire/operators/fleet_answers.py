"""What a coordinator answers of members: what they are, hold, report and would do (docs/admin-api.md).

What a node says of itself is shown and believed nothing (rules S70). Times without a form are Unix seconds.
"""

from collections.abc import Mapping

from snapshot.identifiers import format_time
from snapshot.outage import OutagePhase, Stop
from wire.answer_message import AnswerMessage, AnswerPage
from wire.forms import CONTENT, IDENTIFIER, Form, integer, member, message, nullable, table
from wire.messages import DocumentOrigin, RelayCondition
from wire.operators.change_answers import ChangeSummary

_COUNTS_OR_NONE: Form[Mapping[str, int] | None] = nullable(table(CONTENT, integer()))


@message
class NodeEntry:
    """What an operator sees of a member (rules K18). Times are Unix seconds."""

    node_id: str
    kind: str
    site_id: str
    certificate_sha256: str
    next_certificate_sha256: str | None
    direct_url: str | None
    incarnation: str
    first_seen: float
    last_seen: float | None
    generation: int
    revoked_at: float | None
    reason: str | None
    draining_since: float | None


@message
class Listed(NodeEntry):
    """A member in short. `state`: as it says itself, or `unseen`, `silent`, `revoked`; `why`: why it does not hold what
    it should, or nothing. What it says of itself is null before its first report. `came_from`: by whom ("coordinator",
    "relay ulm-1", "unknown" where its agent does not say) how many of its active versions came. `versions_behind`: of
    the scope that is furthest behind. An older coordinator says neither.
    """

    labels: Mapping[str, str]
    certificate_expires_at: int | None
    state: str
    why: str
    mode: str | None
    head_grade: str | None
    agent_version: str | None
    reported_at: float | None
    came_from: Mapping[str, int] | None = member(_COUNTS_OR_NONE, default=None, kw_only=True)
    versions_behind: int | None = member(nullable(integer()), default=None, kw_only=True)


@message
class MemberPage(AnswerPage):
    nodes: tuple[Listed, ...]


@message
class DocumentAudience:
    """Whom a document is for, as its envelope says it; `subject_node_id` is `*` where nodes share it."""

    subject_node_id: str
    roles: tuple[str, ...]
    organization_ids: tuple[str, ...]


@message
class ListedScope:
    """Versions are "epoch.version". `refused`: the version that the node has refused last, `reason` why. `made_for`:
    whom the published document is for. `origin`: where what is active came from, as the node says it.
    `versions_behind` what is published, for `behind_s`: since the first that it has not was.
    """

    scope: str
    published: str | None
    active: str | None
    expires_at: str | None
    refused: int | None
    reason: str
    made_for: DocumentAudience | None = None
    origin: DocumentOrigin | None = None
    versions_behind: int = 0
    behind_s: float | None = None


@message
class Span:
    """A time during which nothing of this changed, to the width of a slot. `silent`: no report came."""

    since: float
    until: float
    state: str
    mode: str
    head_grade: str


@message
class MemberDetail(Listed, AnswerMessage):
    """A member in whole. `clock` and `features` as the node says them; `history`: the newest first. `held_back`: by
    scope, why it is not given what it may hold. `relay`: what it keeps for its neighbours, where it does.
    """

    boot_id: str | None
    head: str | None
    degraded_since: str | None
    interval_s: int | None
    roots_confirmed: bool | None  # false: root keys of a first use that nobody has compared; None: it does not say
    clock_synchronised: bool | None
    clock_offset_s: float | None
    scopes: tuple[ListedScope, ...]
    history: tuple[Span, ...]
    features: tuple[str, ...] | None  # what its agent reads beside the first format; None: it does not say
    held_back: Mapping[str, str]
    relay: RelayCondition | None = None


@message
class ReportedEvent:
    """`incarnation` is the store's that it happened in; `at` is the node's clock, `received_at` (Unix seconds) ours."""

    sequence: int
    incarnation: str
    at: str
    event: str
    scope: str
    detail: str
    received_at: float


@message
class NodeEvents(AnswerMessage):
    """The newest first."""

    node_id: str
    events: tuple[ReportedEvent, ...]


@message
class NodeNamed(AnswerMessage):
    """Done, of this node."""

    node_id: str = member(IDENTIFIER)


@message
class DrainingNode(AnswerMessage):
    """`since`: Unix seconds."""

    node_id: str = member(IDENTIFIER)
    since: float


@message
class UnseenMember:
    """`last_seen` is None of one that has never been seen; from `removed_at` on it may go. Unix seconds."""

    node_id: str
    last_seen: float | None
    removed_at: float


@message
class TrimPlan(AnswerMessage):
    """Who has not been seen for the whole window, and who will not have been within a week. `ready_since`: since when
    some coordinator could have seen them without a gap; None: there is one up to now. `allowance`: so many may go
    without an operator; `held_back`: why nobody goes by itself, or nothing.
    """

    window_s: int
    ready_since: float | None
    due: tuple[UnseenMember, ...]
    soon: tuple[UnseenMember, ...]
    allowance: int
    held_back: str


@message
class TrimmedNodes(AnswerMessage):
    node_ids: tuple[str, ...]


@message
class Straggler:
    """A member that does not hold what it should, and why. `versions_behind`: of the scope that is furthest behind,
    for `behind_s`: since the first version that it has not was published.
    """

    node_id: str
    reason: str
    seconds_since_seen: float | None
    versions_behind: int = 0
    behind_s: float | None = None


@message
class CameBy:
    """So many active versions of so many nodes came this way; `unknown` where an agent does not say."""

    way: str
    versions: int
    nodes: int


@message
class RelayStanding:
    """A node that keeps documents for its neighbours, and how many nodes run something that came from it."""

    node_id: str
    site_id: str
    taken_by: int
    keeps: RelayCondition


@message
class FleetRefusal:
    """`refused` and `runs` are "epoch.version"; `since` and `good_until` Unix seconds. `runs` is None where nothing is
    active, `good_until` where that is not known; `withheld` is why what runs is not renewed, or nothing.
    """

    node_id: str
    scope: str
    refused: str
    content_hash: str
    since: float
    reason: str
    step: int
    detail: str
    runs: str | None
    good_until: int | None
    withheld: str

    @property
    def words(self) -> str:
        """In one sentence."""
        why = f"{self.reason} at step {self.step}" + (f": {self.detail}" if self.detail else "")
        return f"has refused {self.refused} since {format_time(int(self.since))} ({why}), {self._runs}"

    @property
    def _runs(self) -> str:
        if self.runs is None:
            return "and runs nothing of it"
        until = format_time(self.good_until) if self.good_until is not None else "an unknown time"
        if self.withheld:
            return f"runs {self.runs}, good until {until} and NOT renewed: {self.withheld}"
        return f"runs {self.runs}, renewed until {until}"


@message
class Fleet(AnswerMessage):
    """How the fleet stands at one time. Lags are in versions; times in seconds."""

    at: float
    members: int
    data_members: int
    baseline_shortfall: int
    states: Mapping[str, int]
    grades: Mapping[str, int]
    versions: Mapping[str, Mapping[str, int]]  # scope -> "epoch.version" -> nodes
    lag_versions: Mapping[str, float]  # "p50" "p90" "p99" "max", over every scope of every node that reports
    seconds_since_seen: Mapping[str, float]
    stragglers: tuple[Straggler, ...]  # the longest unseen first; of them as many as were asked for
    stragglers_total: int
    rejected_joins: Mapping[str, int]  # by code
    refusals: tuple[FleetRefusal, ...] = ()  # what is not renewed first, at most 50
    refusals_total: int = 0
    roots_unconfirmed: tuple[str, ...] = ()  # nodes that trust root keys on first use; at most 50
    roots_unconfirmed_total: int = 0
    held_back: tuple[str, ...] = ()  # nodes whose agents do not read all that is for them; at most 50
    held_back_total: int = 0
    draining: tuple[str, ...] = ()  # members on their way out, whatever their state; at most 50
    draining_total: int = 0
    unseen: tuple[UnseenMember, ...] = ()  # whom a trim will take within a week, or waits to take; at most 50
    unseen_total: int = 0
    restored_backup: str = ""  # why nothing is signed, or nothing
    changes: tuple[ChangeSummary, ...] = ()  # those that are not over, of the whole fleet, the newest first
    came_from: tuple[CameBy, ...] = ()
    relays: tuple[RelayStanding, ...] = ()  # whose nodes are most first, at most 50
    relays_total: int = 0


@message
class NodeOutage:
    """`basis`: `published`, or `rehearse_declared` where nothing is yet."""

    node_id: str
    basis: str
    states: tuple[OutagePhase, ...]
    stops: tuple[Stop, ...]


@message
class OutageDrill(AnswerMessage):
    began: float
    lasts_s: float
    restart_s: float | None
    nodes: tuple[NodeOutage, ...]


@message
class PublishedFacts:
    """What is published of one scope; `sections`: their sizes."""

    authority_epoch: int
    config_version: int
    content_hash: str
    snapshot_id: str
    issued_at: str
    refresh_after: str
    expires_at: str
    roles: tuple[str, ...]
    organization_ids: tuple[str, ...]
    sections: Mapping[str, int]
    subject_node_id: str | None = None  # the node that the document names; `*`: nodes share it


@message
class HoldingExplanation:
    """One scope for one node; `differs` is None where it may not hold it. `held_back`: why it is not given what it may
    hold, or nothing.
    """

    scope: str
    may_hold: bool
    because: str
    published: PublishedFacts | None = None
    differs: Mapping[str, str] | None = None  # section -> set, remove or patch: what the next publication changes
    held_back: str = ""


@message
class NodeExplanation(AnswerMessage):
    node_id: str
    scopes: tuple[HoldingExplanation, ...]


@message
class Signer:
    """`status`: as the present trust bundle has it (`active`, `retiring`, `revoked`), or `unknown`, then without
    purpose and times. `fault`: the reason for which a node refuses this key now, or None.
    """

    key_id: str
    status: str
    fault: str | None
    purpose: str | None = None
    not_before: str | None = None
    not_after: str | None = None


@message
class Version:
    """The document that the node's head announces."""

    authority_epoch: int
    config_version: int
    content_hash: str
    snapshot_id: str
    published_at: float
    issued_at: str
    refresh_after: str
    expires_at: str
    min_trust_bundle_version: int
    subject_node_id: str
    roles: tuple[str, ...]
    organization_ids: tuple[str, ...]
    signers: tuple[Signer, ...]
    threshold: int  # so many valid signatures the trust bundle asks for; 0 where there is none


@message
class ExplainedSection:
    """One section of the published version; `value` is left out (null) of a large one that was not asked for."""

    name: str
    size: int
    sha256: str
    value: object
    is_shown: bool


@message
class DeclaredSource:
    """A declared resource by its kind and id, or (kind `member`) what a member's entry in the catalog says.

    `declared_in`: the file, as whoever applied it has named it, and the line, `fabric/web.yaml:12`; None where that is
    not known yet, and of a member.
    """

    kind: str
    id: str
    declared_in: str | None = None


@message
class EntryExplanation:
    """A member of a section. `stands`: how published and declared agree.

    `as_declared`; `differs` (what is declared gives another value); `not_declared` (nothing declared gives it any
    more); `not_published` (declared, and not in the published version); `signed` (nobody declares it).
    """

    section: str
    entry: str
    stands: str
    because: str
    sources: tuple[DeclaredSource, ...]


@message
class ReportedVersion:
    """What the node says that it has active."""

    authority_epoch: int
    config_version: int
    content_hash: str


@message
class Reported:
    """What the node's last report says of the scope. `active` is None where it has none; times are Unix seconds."""

    at: float
    state: str
    active: ReportedVersion | None
    pending: int | None  # its config_version: taken, and waiting for its valid_from
    last_refused: str | None  # the reason


@message
class Holders:
    """`standing`: how the node's own active version stands to the published one.

    `same`, `behind`, `ahead`, `other_content` (one version, two contents), `nothing` (it reports the scope not to be
    active), `unheard` (no report), `unpublished` (there is nothing to compare with).
    """

    standing: str
    reported: Reported | None
    published_for: int  # other members whose heads announce the same content
    others: tuple[str, ...]  # other members that report it active: the first 50 by their ids
    others_total: int


@message
class ScopeExplanation(AnswerMessage):
    """`published` is None before the first publication; `differs` is by section, as for all scopes."""

    node_id: str
    scope: str
    may_hold: bool
    because: str
    rules: tuple[str, ...]
    notes: tuple[str, ...]
    published: Version | None
    differs: Mapping[str, str]
    sections: tuple[ExplainedSection, ...]
    entries: tuple[EntryExplanation, ...]
    entries_total: int
    holders: Holders

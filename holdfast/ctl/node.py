"""`holdfastctl nodes show`: one member on one screen."""

from collections.abc import Iterable, Iterator

from holdfast.ctl import output
from holdfast.terminal.audience import describe_audience
from holdfast.terminal.durations import in_words
from holdfast.terminal.relay_words import count_text, giver_text, relay_text
from holdfast.terminal.shown import say
from wire.operators.fleet_answers import ListedScope, MemberDetail, ReportedEvent, Span

Fact = tuple[str, object]
UNCONFIRMED = "NOT CONFIRMED: taken on first use; holdfast trust confirm on the node"


def render(answer: MemberDetail, told: Iterable[ReportedEvent]) -> None:
    """A member for people: what it is, its scopes, what it was, what it told."""
    output.facts([*_standing(answer), *_identity(answer)])
    say()
    scopes = (
        (
            scope.scope,
            scope.published,
            scope.active,
            _behind(scope),
            _origin(scope),
            scope.expires_at,
            _whom(scope),
            _refusal(scope),
        )
        for scope in answer.scopes
    )
    output.table(
        ("scope", "published", "active", "behind", "came from", "good until", "made for", "refused last"),
        scopes,
        nothing="no scope is published",
    )
    say()
    output.table(("since", "was", "for", "head"), map(_span, answer.history), nothing="it has reported nothing of late")
    say()
    events = ((event.at, event.event, event.scope or "-", event.detail) for event in told)
    output.table(("at", "told", "scope", "detail"), events, nothing="the node has told of nothing yet")


def _standing(answer: MemberDetail) -> Iterator[Fact]:
    yield "node", answer.node_id
    yield "state", _state(answer)
    yield "not as it should be", answer.why
    yield "draining since", output.time(answer.draining_since)
    yield "mode", answer.mode
    yield "degraded since", answer.degraded_since
    yield "last seen", output.time(answer.last_seen)
    yield "head", answer.head and f"{answer.head}, {answer.head_grade}"
    yield "generation", answer.generation
    yield "root keys", None if answer.roots_confirmed is not False else UNCONFIRMED
    yield "clock", _clock(answer)
    yield "keeps for others", _relay(answer)
    yield "reports", answer.interval_s and f"every {in_words(answer.interval_s)}"
    for scope, why in answer.held_back.items():
        yield "HELD BACK", f"{scope}: {why}"


def _identity(answer: MemberDetail) -> Iterator[Fact]:
    yield "agent", answer.agent_version
    yield "reads", answer.features
    yield "kind", answer.kind
    yield "site", answer.site_id
    yield "labels", answer.labels
    yield "certificate", answer.certificate_sha256
    yield "next certificate", answer.next_certificate_sha256
    yield "good until", answer.certificate_expires_at and output.time(answer.certificate_expires_at)
    yield "direct url", answer.direct_url
    yield "incarnation", answer.incarnation
    yield "first seen", output.time(answer.first_seen)


def _state(answer: MemberDetail) -> str:
    if answer.revoked_at is None:
        return answer.state
    return f"revoked {output.time(answer.revoked_at)}: {answer.reason or 'no reason was given'}"


def _clock(answer: MemberDetail) -> str | None:
    if answer.clock_synchronised is None:
        return None
    behind = answer.clock_offset_s or 0
    how = "synchronised" if answer.clock_synchronised else "NOT synchronised"
    return f"{how}, {in_words(behind)} behind what is proven" if behind < 0 else how


def _relay(answer: MemberDetail) -> str | None:
    keeps = answer.relay
    if keeps is None:
        return None
    named = ", ".join(keeps.for_nodes) or "nobody"
    return f"{relay_text(keeps)}; they are {named}"


def _behind(scope: ListedScope) -> str:
    if not scope.versions_behind:
        return "-"
    since = "" if scope.behind_s is None else f" for {in_words(scope.behind_s)}"
    return f"{count_text(scope.versions_behind, 'version')}{since}"


def _origin(scope: ListedScope) -> str:
    return "-" if scope.origin is None else giver_text(scope.origin)


def _whom(scope: ListedScope) -> str:
    """Of what is published."""
    one = scope.made_for
    return "-" if one is None else describe_audience(scope.scope, one.subject_node_id, one.roles, one.organization_ids)


def _refusal(scope: ListedScope) -> str:
    return "-" if scope.refused is None else f"{scope.refused}: {scope.reason or 'no reason is known'}"


def _span(each: Span) -> tuple[object, ...]:
    """`10:05 DEGRADED 12 min`: what is not as usual stands out."""
    said = each.state if each.mode in ("", "normal", each.state) else f"{each.state} ({each.mode})"
    word = said if said == "active" else said.upper()
    return output.time(each.since), word, in_words(each.until - each.since), each.head_grade or "-"

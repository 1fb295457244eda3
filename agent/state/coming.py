"""What a head says is coming: the candidates that there are to judge, and what its listing alone says of them. Pure.

    prospects(holdings)   in the order in which they are judged
    basis_of(holdings)        all that a judgement follows from: while it stays as it is, so does the judgement

A listing can be wrong by itself: it may name what was accepted already with other content, or something older than
what is to run. Then nothing is fetched; such a candidate is refused as the verifier would refuse it.
"""

from collections.abc import Iterator

from agent.state.candidate_request import CandidateRefusal
from agent.state.held_state import Holdings
from agent.state.own_bounds import QUARANTINED, QUARANTINED_STEP, QUARANTINED_WORDS, is_quarantined
from agent.state.plan import WantedScope, base_of, order_of, version_of
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.envelope import Envelope
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD, SCOPE_TYPES, parse_scope
from snapshot.manifest import ScopeVersion
from snapshot.reasons import Reason
from snapshot.verifier_state import VerifierState


@frozen
class Prospect:
    """A candidate. `refusal`: what is wrong with its listing. `is_active`: it is what runs already."""

    wanted: WantedScope
    refusal: CandidateRefusal | None = None
    is_active: bool = False

    @property
    def scope(self) -> str:
        return self.wanted.scope

    @property
    def change(self) -> str:
        """What it is judged with: the candidates of one change stand or fall together."""
        return self.wanted.listed.change or self.scope


@frozen
class JudgedBy:
    """`contents`: what is active, by scope; `versions`: of the candidates' own scopes the mark, what is active, and
    what is in quarantine.
    """

    candidates: tuple[tuple[str, ScopeVersion], ...]
    to_run: tuple[ScopeVersion | None, ...]
    contents: frozenset[tuple[str, str]]
    versions: tuple[object, ...]
    trust: tuple[object, ...]


def prospects(holdings: Holdings) -> list[Prospect]:
    """None without a head. What establishes roles comes first: the others are judged by what it gives."""
    listed = holdings.head.candidates if holdings.head is not None else {}
    return [_prospect(scope, listed[scope], holdings) for scope in sorted(listed, key=order_of)]


def is_coming(envelope: Envelope, holdings: Holdings) -> bool:
    """Whether it is a candidate, and not to be run: by the head that is held, however old that is."""
    if holdings.head is None:
        return False
    coming, to_run = (listing.get(envelope.scope) for listing in (holdings.head.candidates, holdings.head.scopes))
    return _is_of(envelope, coming) and not _is_of(envelope, to_run)


def basis_of(holdings: Holdings) -> JudgedBy:
    head, active, marks = holdings.head, holdings.kept.active, holdings.kept.marks
    candidates = tuple(sorted(head.candidates.items(), key=lambda item: item[0])) if head is not None else ()
    return JudgedBy(
        candidates=candidates,
        to_run=tuple(head.scopes.get(scope) for scope, _ in candidates) if head is not None else (),
        contents=frozenset((scope, held.content_hash) for scope, held in active.items() if scope != HEAD),
        versions=tuple(
            (marks.get(scope), active_version(scope, holdings), holdings.kept.quarantine.get(scope))
            for scope, _ in candidates
        ),
        trust=trust_of(holdings.holder),
    )


def active_version(scope: str, holdings: Holdings) -> tuple[int, int] | None:
    held = holdings.kept.active.get(scope)
    return held.version if held is not None else None


def trust_of(holder: VerifierState) -> tuple[object, ...]:
    """By what a reader judges beside what it holds."""
    bundle = holder.bundle.version if holder.bundle else 0
    return bundle, holder.roles, holder.organization_ids, holder.revocations, holder.lost


def _prospect(scope: str, listed: ScopeVersion, holdings: Holdings) -> Prospect:
    wanted = WantedScope(scope, listed, base=base_of(scope, listed, holdings))
    active = holdings.kept.active.get(scope)
    is_active = active is not None and wanted.is_met_by(active.envelope)
    refusal = None if is_active else next(_faults(scope, listed, holdings), None)
    return Prospect(wanted, refusal, is_active)


def _faults(scope: str, listed: ScopeVersion, holdings: Holdings) -> Iterator[CandidateRefusal]:
    if scope == TRUST_BUNDLE or parse_scope(scope)[0] not in SCOPE_TYPES:
        yield CandidateRefusal(3, Reason.UNKNOWN_SCOPE, f"{scope} is no scope that may come as a candidate")
    if is_quarantined(scope, listed.content_hash, holdings):
        yield CandidateRefusal(QUARANTINED_STEP, QUARANTINED, QUARANTINED_WORDS)
    mark = holdings.kept.marks.get(scope)
    to_run = holdings.head.scopes.get(scope) if holdings.head is not None else None
    if mark is not None:
        yield from _faults_against(listed, mark.version, mark.content_hash, "was accepted")
    if to_run is not None:
        yield from _faults_against(listed, version_of(to_run), to_run.content_hash, "is listed to be run")


def _faults_against(
    listed: ScopeVersion, version: tuple[int, int], content_hash: str, what: str
) -> Iterator[CandidateRefusal]:
    if version_of(listed) < version:
        yield CandidateRefusal(9, Reason.ROLLBACK, f"the candidate is {version_of(listed)}; {version} {what}")
    if version_of(listed) == version and listed.content_hash != content_hash:
        yield CandidateRefusal(9, Reason.VERSION_CONFLICT, f"{version} {what} with other content")


def _is_of(envelope: Envelope, listed: ScopeVersion | None) -> bool:
    return listed is not None and WantedScope(envelope.scope, listed).is_met_by(envelope)

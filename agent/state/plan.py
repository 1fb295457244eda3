"""What a head asks of a node that holds this: which scopes to fetch, from which base, and which to let go. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import field

from agent.state.candidate_request import CandidateRequest
from agent.state.held_state import BOOTSTRAP, RUNTIME, Holdings
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.envelope import Envelope
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD, SCOPE_TYPES, parse_scope
from snapshot.manifest import ScopeVersion
from snapshot.verifier_state import Mark

# These establish roles and organizations; the others are judged by what they give (format.md 9).
FIRST = (BOOTSTRAP, RUNTIME)
DIRECTORY = "peer_directory"
MOST_BEYOND = 16  # of what a head, or a bundle, says beyond this release


@frozen
class WantedScope:
    """A scope at the version that the head lists. `base`: the active version, if an increment from it may do.

    `below`: the version is lower than what was accepted, so a recovery has to allow it (rules S86). `candidate`: it is
    listed as coming, and asked for to be judged alone.
    """

    scope: str
    listed: ScopeVersion
    base: int | None = None
    below: bool = False
    candidate: CandidateRequest | None = field(default=None, compare=False)

    def is_met_by(self, envelope: Envelope) -> bool:
        """Whether what arrives is what was listed: epoch, version and content (rules S86)."""
        return envelope.version == version_of(self.listed) and envelope.state_hash == self.listed.content_hash


@frozen
class UpdatePlan:
    """`trust`: a newer bundle is listed. `dropped`: active and listed no more.

    `passed_over`: listed scopes of unknown types, and JSON pointers to what head and bundle say beyond this release.
    """

    trust: bool = False
    wanted: tuple[WantedScope, ...] = ()
    dropped: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()


def plan(holdings: Holdings) -> UpdatePlan:
    """Nothing without a head. An expired one is still the last word on what to hold."""
    if holdings.head is None:
        return UpdatePlan()
    listed = holdings.head.scopes
    known = {scope: entry for scope, entry in listed.items() if parse_scope(scope)[0] in SCOPE_TYPES}
    bundle = known.pop(TRUST_BUNDLE, None)
    held_bundle = holdings.bundle.version if holdings.bundle else 0
    wanted = [
        wanted_scope
        for scope in sorted(known, key=order_of)
        for wanted_scope in _wanted_scope(scope, known[scope], holdings)
    ]
    return UpdatePlan(
        trust=bundle is not None and bundle.config_version > held_bundle,
        wanted=tuple(wanted),
        dropped=tuple(scope for scope in sorted(holdings.scopes) if scope not in listed and scope != TRUST_BUNDLE),
        passed_over=tuple(sorted(listed.keys() - known.keys() - {TRUST_BUNDLE, HEAD})) + _beyond(holdings),
    )


def _beyond(holdings: Holdings) -> tuple[str, ...]:
    """The first few: enough to be told that there is more than this release knows."""
    of_head = holdings.head.passed_over if holdings.head else ()
    of_bundle = holdings.bundle.passed_over if holdings.bundle else ()
    return (*of_head[:MOST_BEYOND], *of_bundle[:MOST_BEYOND])


def version_of(listed: ScopeVersion) -> tuple[int, int]:
    return listed.authority_epoch, listed.config_version


def _wanted_scope(scope: str, listed: ScopeVersion, holdings: Holdings) -> Iterator[WantedScope]:
    active = holdings.kept.active.get(scope)
    if active is not None and active.version == version_of(listed) and active.content_hash == listed.content_hash:
        return
    mark = holdings.kept.marks.get(scope)
    if mark is not None and version_of(listed) < mark.version:
        was_held = scope in holdings.kept.lost and holdings.kept.returned.get(scope) == _mark_of(listed)
        yield WantedScope(scope, listed, below=not was_held)
        return
    yield WantedScope(scope, listed, base=base_of(scope, listed, holdings))


def _mark_of(listed: ScopeVersion) -> Mark:
    return Mark(listed.authority_epoch, listed.config_version, listed.content_hash)


def base_of(scope: str, listed: ScopeVersion, holdings: Holdings) -> int | None:
    """An increment changes what was accepted last, within its epoch; lost floors refuse all (threats D-24)."""
    active = holdings.kept.active.get(scope)
    if active is None or scope in holdings.kept.lost or holdings.floor_lost:
        return None
    epoch, version = active.version
    return version if epoch == listed.authority_epoch and version < listed.config_version else None


def order_of(scope: str) -> tuple[int, str]:
    return (FIRST.index(scope) if scope in FIRST else len(FIRST)), scope


def in_turns(wanted: Sequence[WantedScope], holdings: Holdings) -> list[list[WantedScope]]:
    """What is activated before the rest is asked for: of a node that has nothing yet, its directory, and what that is
    judged by. So a newcomer knows the relay of its site before it fetches what that has, and no copy more goes over the
    link. A node that runs on something goes from one head to the next in one activation.
    """
    first = [wanted_scope for wanted_scope in wanted if wanted_scope.scope in (*FIRST, DIRECTORY)]
    rest = [wanted_scope for wanted_scope in wanted if wanted_scope not in first]
    is_new = all(scope in (*FIRST, TRUST_BUNDLE) for scope in holdings.scopes)
    has_directory = any(wanted_scope.scope == DIRECTORY for wanted_scope in first)
    return [first, rest] if is_new and rest and has_directory else [list(wanted)]

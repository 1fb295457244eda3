"""What one node is to be told next: its changed scopes as documents, and the head that announces them (rules S69, S85).

    draft(issue, situation, told, shared)   -> Draft: a Publication, and what could not be published and why

A scope gets a new version where its content is another, where its audience no longer fits the node, where its renewal
is due, or where the epoch has been raised; else what is published stays. Where a node refuses what is declared, it may
be given once more what it has (instead.py). All that was signed has passed the nodes'
verifier before it is in a Publication; what fails leaves the scope as it is. What nodes share is found or made once for
all of them (shared_documents.py).

Example. A node's head lists `node_runtime` 4, `route_policy` 7 and bundle 3. Its route changes, and `node_runtime`
comes due for renewal in the same round. `route_policy` is compiled and gets 8, with an increment from 7 beside it;
`node_runtime` has equal content, so it gets 5 for its new dates alone; the head lists 5, 8 and 3. Had `route_policy`
failed the review, the head would list 7 for it, and `failed` would say why.

Version numbers belong to (node, scope, epoch) and only rise; they never come again, not for equal content either. A
number that is used twice for different content is the one thing that a node calls `version_conflict`, an alarm: so the
next number is taken from what was ever published, not from what is listed now. Of the scope types that nodes may share
it was published for any node, whether the document is shared or the node's own.

A shared document has passed the verifier as the first node has it. Of another node only that is asked in which it may
stand otherwise: that its roles and organizations hold those of the envelope, and that the version is above its mark.

A head that lists the same scopes as the one before it is written from that: a line that changed is put in place of what
it was, in the text, and the others are neither looked at nor written nor read back. Of a node of eighteen scopes that
was a tenth of what a change that all nodes share costs the coordinator.

What comes with a change that the node is offered is signed beside it, as a candidate: a document with its own number,
above what is listed. Once the change is released, that document is listed as it is, if nothing else has become of the
scope; where what is listed had to be renewed meanwhile, the candidate is signed anew above it. Increments lead to a
candidate from what is listed now alone, since that is what the node has by the time it looks for candidates.

The head's own time is the least of what its parts need: it is refreshed when the first of its scopes is due, but never
sooner than `RETRY_S`, also where a scope cannot be renewed at all.

Rejected:

- Publishing a scope that only this coordinator finds good: each document passes the verifier that the nodes have, with
  this node's roles, before it is in a Publication (`review.py`). A bug here is then a line in the log, and no node
  that stands still.
- All or nothing for a node: one bad resource of one organization would keep revocations and routes of all others back.
- Versions by wall clock: two coordinators' clocks differ, and a restored database would begin in the past.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from coordinator.changes.records import ChangeNode
from coordinator.database.documents import (
    TRUST_BUNDLE,
    Document,
    HeadEntry,
    StoredObject,
    listing_text,
    names_in,
    section_key,
)
from coordinator.database.scope_versions import is_counted
from coordinator.declared.compiler import Audience, ScopeContent, StoredSection
from coordinator.declared.model import Subject
from coordinator.keys import signer
from coordinator.keys.signer import Base
from coordinator.publishing.gates import ChangeMark
from coordinator.publishing.head_signing import (
    MOST_REPLACED,
    NO_MARKS,
    AmendedLine,
    Announced,
    HeadLine,
    amended_text,
    new_id,
    sign_head,
    signing,
)
from coordinator.publishing.heads import Pair, Publication
from coordinator.publishing.instead import Choice, choose, content_of, governing
from coordinator.publishing.published_state import AllowedRecovery, PublishedDocument, Situation
from coordinator.publishing.remembered import KnownDocument, KnownHead, Standing, one_of_equal
from coordinator.publishing.review import OtherThanMeant
from coordinator.publishing.shared_documents import SharedDocument, SharedDocuments
from coordinator.publishing.signing_context import Issue, Unpublishable, signers_of
from coordinator.reports.refusal_records import RefusalOutcome
from coordinator.reports.standing_refusals import KeptRefusal
from snapshot.envelope import SHARED, Envelope
from snapshot.frozen import replace_members
from snapshot.identifiers import HEAD, Scope
from snapshot.roles import ESTABLISHING
from snapshot.verifier_state import Mark, VerifierState
from wire.logs import log

RETRY_S = 30  # a head is not issued again sooner, also where a scope could not be renewed; but before it expires
NOTHING_LISTED = listing_text({})
_NO_SECTIONS: Mapping[str, bytes] = {}
# What follows these is judged by the roles and organizations that they give (format.md 9).
_FIRST = ("node_bootstrap", "node_runtime")

Compile = Callable[[Scope], ScopeContent]
"""The content of a scope, or KeyError."""


@dataclass(frozen=True)
class Offered:
    """What comes with one change: candidates of these scopes. `subject`: the node as it is with it."""

    mark: ChangeMark
    subject: Subject
    scopes: tuple[Scope, ...]
    compile_: Compile


class NodeContents(NamedTuple):
    """What a node is to be told. `subject` is None for a revoked member: it is told of its revocation, and holds
    nothing any more (rules K22).

    `scopes`: what the node may hold. What is published and is not among them is not listed any more, which withdraws
    it. `changed`: what has to be compiled again, of these and perhaps of more. `marks`: by scope, the change that it
    came by. `rows`: what changes are to know of the node from now on.
    """

    subject: Subject | None
    scopes: tuple[Scope, ...]
    changed: frozenset[Scope]
    compile_: Compile
    marks: Mapping[str, ChangeMark] = NO_MARKS
    offers: tuple[Offered, ...] = ()
    rows: tuple[ChangeNode, ...] = ()


class Draft(NamedTuple):
    """`failed`: by scope, what kept its new version from being published. `known`, `new`: what is out for the node once
    this is published, and what it lists anew, so that they need not be read again. `otherwise`: scopes that it does not
    list as they are declared.
    """

    publication: Publication
    failed: Mapping[str, Unpublishable]
    known: KnownHead
    new: tuple[KnownDocument, ...]
    otherwise: frozenset[Scope] = frozenset()


@dataclass
class _Case:
    """One node's next publication as it comes together."""

    issue: Issue
    situation: Situation
    told: NodeContents
    holder: VerifierState
    shared: SharedDocuments
    last: dict[str, Pair]  # the greatest numbers, with those of this publication
    listing: dict[str, HeadEntry] = field(default_factory=dict)
    listed: dict[str, PublishedDocument] = field(default_factory=dict)  # what the listing names
    candidates: dict[str, HeadEntry] = field(default_factory=dict)
    candidate_marks: dict[str, ChangeMark] = field(default_factory=dict)
    new: list[PublishedDocument] = field(default_factory=list)  # of what both name, what they did not name before
    refresh: dict[str, int] = field(default_factory=dict)  # when each document is due
    documents: list[Document] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)  # counters that new versions were made from
    failed: dict[str, Unpublishable] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)  # where something is refused


def draft(issue: Issue, situation: Situation, told: NodeContents, shared: SharedDocuments) -> Draft:
    """Unpublishable where not even a head can be signed."""
    standing = _standing(issue, situation, told)
    try:
        return _draft(issue, situation, told, shared, standing)
    except OtherThanMeant:
        log.warning("what a head lists was altered in the database: it is written anew", node=situation.node_id)
        return _draft(issue, situation, told, shared, None)


def _draft(
    issue: Issue, situation: Situation, told: NodeContents, shared: SharedDocuments, standing: Standing | None
) -> Draft:
    """`standing`: where the head may be written from the one before it."""
    changed = None if standing is None else _find_amended(issue, situation, told, standing)
    if standing is not None and changed == () and standing.marks == told.marks:
        return _renew_as_is(issue, situation, told, standing, shared)
    case = _Case(issue, situation, told, _holder(issue, situation, told.subject), shared, dict(situation.last))
    if standing is not None:
        case.refresh["what is left"] = standing.due_at
    if standing is not None and changed is not None:
        lines = _amend(case, changed, standing)
        is_short = len(lines) <= MOST_REPLACED
        announced = _amendment(case, lines, standing) if is_short else _announcement(case)
        same_as = situation.head_id
        but = tuple([after.scope for before, after in lines if before.entry != after.entry])
    else:
        _settle_all(case, standing)
        announced, same_as, but = _announcement(case), None, ()
    head, said = sign_head(issue, situation, announced, case.holder, shared.reviewer)
    publication = Publication(
        node_id=situation.node_id,
        based_on=situation.based_on,
        head=to_document(head),
        refresh_after=_refresh_after(issue, head, min(case.refresh.values(), default=None)),
        listing=case.listing,
        candidates=case.candidates,
        texts=announced.texts,
        same_as=same_as,
        but=but,
        documents=tuple(case.documents),
        counted=case.counted,
        outcomes=tuple(_outcomes(case)),
        rows=told.rows,
    )
    new = tuple(KnownDocument(made.entry, made.envelope, made.manifest_bytes) for made in case.new)
    known = _known_head(case, publication, _next_standing(case, said, standing))
    return Draft(publication, case.failed, known, new, _listed_otherwise(case))


def _renew_as_is(
    issue: Issue, situation: Situation, told: NodeContents, standing: Standing, shared: SharedDocuments
) -> Draft:
    """A head that lists what the one before it does."""
    listing, texts = situation.held.listing, (situation.listing_text, NOTHING_LISTED)
    announced = Announced(listing, texts, marks=told.marks, said=standing.said)
    head, said = sign_head(issue, situation, announced, _holder(issue, situation, told.subject), shared.reviewer)
    publication = Publication(
        node_id=situation.node_id,
        based_on=situation.based_on,
        head=to_document(head),
        refresh_after=_refresh_after(issue, head, standing.due_at),
        listing=listing,
        texts=texts,
        same_as=situation.head_id,
        rows=told.rows,
    )
    after = standing if said == standing.said else standing._replace(said=said)
    known = KnownHead(
        head.envelope.snapshot_id, listing, {}, situation.last, situation.last_listed, situation.names, after
    )
    return Draft(publication, {}, known, ())


def _refresh_after(issue: Issue, head: signer.SignedDocument, due_at: int | None) -> int:
    """When the next head is to be made. `due_at`: when the first of what is listed is due."""
    own = head.envelope.refresh_after
    return own if due_at is None else max(min(own, due_at), min(own, int(issue.now) + RETRY_S))


def _standing(issue: Issue, situation: Situation, told: NodeContents) -> Standing | None:
    """What the head that is out was made from, where what it lists stands but for what changes."""
    standing = situation.standing
    if standing is None or not situation.held.is_whole or not standing.stands(issue, told.subject):
        return None
    return standing


def _find_amended(
    issue: Issue, situation: Situation, told: NodeContents, standing: Standing
) -> tuple[tuple[Scope, str], ...] | None:
    """Where the next head lists the same scopes as the one before it, what it may list otherwise; else None."""
    is_bare = not (situation.recoveries or situation.refusing or situation.candidates.listing or told.offers)
    if not is_bare or not standing.is_of(issue, told.scopes) or len(told.changed) > MOST_REPLACED:
        return None
    listing = situation.held.listing
    return tuple([(scope, name) for scope in told.changed if (name := scope.name) in listing])


def _amend(case: _Case, changed: Sequence[tuple[Scope, str]], standing: Standing) -> list[AmendedLine]:
    """Of these scopes what they list now, of the others what is listed; and the lines that say something else."""
    before, listing = case.situation.held.listing, case.listing
    listing.update(before)
    for _, name in changed:
        del listing[name]
    for scope, name in changed if len(changed) == 1 else _in_order(tuple([scope for scope, _ in changed])):
        _settle(case, scope, name, is_changed=True)
    marks, marks_before = _declared_marks(case), standing.marks
    named = {name for _, name in changed}.union(listing.keys() & (marks.keys() | marks_before.keys()))
    lines = [
        AmendedLine(
            HeadLine(name, before[name], marks_before.get(name)), HeadLine(name, listing[name], marks.get(name))
        )
        for name in named
    ]
    return [line for line in lines if line.before != line.after]


def _amendment(case: _Case, lines: Sequence[AmendedLine], standing: Standing) -> Announced:
    plain = [AmendedLine(before._replace(mark=None), after._replace(mark=None)) for before, after in lines]
    text = amended_text(case.situation.listing_text, plain)
    texts = (listing_text(case.listing) if text is None else text, NOTHING_LISTED)
    return Announced(case.listing, texts, marks=_declared_marks(case), said=standing.said, lines=lines)


def _settle_all(case: _Case, standing: Standing | None) -> None:
    """What the head lists and announces, scope by scope."""
    situation, told = case.situation, case.told
    for scope, name in _in_order(told.scopes):
        is_changed = scope in told.changed
        if standing is not None and _is_left(case, name, is_changed=is_changed):
            case.listing[name] = situation.held.listing[name]
        else:
            _settle(case, scope, name, is_changed=is_changed)
    case.listing[TRUST_BUNDLE] = case.issue.bundle_entry
    for offered in told.offers:
        _offer(case, offered)


def _is_left(case: _Case, name: str, *, is_changed: bool) -> bool:
    """Whether a scope of what stands is listed as it was, without a look at its document."""
    situation = case.situation
    is_settled = not is_changed and name not in situation.recoveries and name not in situation.refusing
    return is_settled and name in situation.held.listing


def _next_standing(case: _Case, said: bytes, before: Standing | None) -> Standing | None:
    """None where something could not be had. `before`: by which the rest was left as it is."""
    if case.failed:
        return None
    signers = frozenset([signers_of(held.envelope) for held in case.listed.values()])
    return Standing(
        case.told.subject,
        case.told.scopes,
        case.told.marks,
        case.issue.bundle_entry,
        case.issue.authority_epoch,
        one_of_equal(signers if before is None else signers | before.signers),
        min(case.refresh.values(), default=case.issue.expires_at(case.issue.settings.head_lifetime_s)),
        said,
    )


def _known_head(case: _Case, publication: Publication, standing: Standing | None) -> KnownHead:
    """As it would be read again. What is listed as before has its number on record."""
    listing, candidates = publication.listing, publication.candidates
    scopes = {made.envelope.scope for made in case.new} | {TRUST_BUNDLE}
    listed = {scope: listing[scope] for scope in scopes & listing.keys()}
    coming = {scope: candidates[scope] for scope in scopes & candidates.keys()}
    last_listed = _greatest_numbers(case.situation.last_listed, listed)
    last = _greatest_numbers(_greatest_numbers(case.situation.last, listed), coming)
    names = names_in(listing, candidates)
    return KnownHead(publication.head.snapshot_id, listing, candidates, last, last_listed, names, standing)


def _greatest_numbers(last: Mapping[str, Pair], entries: Mapping[str, HeadEntry]) -> Mapping[str, Pair]:
    """The greater numbers; most heads bring none."""
    new = {scope: pair for scope, entry in entries.items() if (pair := entry.pair) > last.get(scope, (0, 0))}
    return {**last, **new} if new else last


@lru_cache(maxsize=256)
def _in_order(scopes: tuple[Scope, ...]) -> tuple[tuple[Scope, str], ...]:
    """With their names. Thousands of nodes may hold the same ones."""
    ordered = sorted(scopes, key=lambda scope: (scope.type not in _FIRST, scope))
    return tuple((scope, scope.name) for scope in ordered)


def _settle(case: _Case, scope: Scope, name: str, *, is_changed: bool) -> None:
    """What the head lists for one scope: what is published, or a new version."""
    situation = case.situation
    held = situation.held.get(name)
    is_settled = not is_changed and name not in situation.recoveries and name not in situation.refusing
    try:
        if held is not None and is_settled and _stays(case, held):
            _list_held(case, name, held)
        else:
            with signing():
                _renew(case, held, case.told.compile_(scope))
    except Unpublishable as fault:
        case.failed[name] = fault
        if held is not None:
            _list_held(case, name, held)


def _stays(case: _Case, held: PublishedDocument, holder: VerifierState | None = None) -> bool:
    """Whether a document may stand as it is while its content does. `holder`: where it is not the node as it is."""
    is_due = case.issue.now >= case.issue.due_at(held.envelope, case.situation.node_id)
    is_good = case.issue.vouches_for(signers_of(held.envelope)) and _fits(holder or case.holder, held.envelope)
    return not is_due and held.entry.authority_epoch == case.issue.authority_epoch and is_good


def _fits(holder: VerifierState, held: Envelope) -> bool:
    """A node that has lost a role or an organization would find the document damaged at its next start (step 10)."""
    if held.scope_type in ESTABLISHING:
        return holder.roles == set(held.roles) and holder.organization_ids == set(held.organization_ids)
    return holder.roles.issuperset(held.roles) and holder.organization_ids.issuperset(held.organization_ids)


def _renew(case: _Case, held: PublishedDocument | None, content: ScopeContent) -> None:
    name = content.scope.name
    allowed = governing(case.situation.recoveries.get(name), content)
    if allowed is not None:
        content = content_of(allowed)
    instead = _instead(case, held, content)
    if instead is not None:
        content, allowed = instead, None
    if held is not None and held.content_hash == content.content_hash and _stays(case, held):
        _list_held(case, name, held)
        return
    coming = case.situation.candidates.get(name)
    if coming is not None and (allowed, instead) == (None, None) and _is_still_good(case, coming, content, case.holder):
        _list_held(case, name, coming)
        return
    base = held if instead is None and held is not None and _is_last_listed(case, held) else None
    if allowed is not None and _last_listed_pair(case, content) == (
        case.issue.authority_epoch,
        allowed.from_config_version,
    ):
        made = _publish(case, None, content, allowed.held.entry.config_version, allowed)
    elif content.is_shared:
        made = _share(case, base, content, case.holder)
    else:
        made = _publish(case, base, content, _next_version(case, content))
    _list_held(case, name, made)


def _is_still_good(case: _Case, coming: PublishedDocument, content: ScopeContent, holder: VerifierState) -> bool:
    """Whether what was signed as a candidate may be listed, or offered still: it says just that, to the same audience,
    and nothing newer was signed for the node.
    """
    one = coming.envelope
    says_that = coming.content_hash == content.content_hash
    says_that &= Audience(one.roles, one.organization_ids) == content.audience
    listed = case.listing.get(content.scope.name)
    is_last = coming.entry.pair == case.last.get(content.scope.name) and (
        listed is None or listed.pair < coming.entry.pair
    )
    return says_that and is_last and _stays(case, coming, holder)


def _is_last_listed(case: _Case, held: PublishedDocument) -> bool:
    """Not so after a recovery went back to it: nothing leads on from there."""
    return held.entry.pair == case.situation.last_listed.get(held.envelope.scope)


def _last_listed_pair(case: _Case, content: ScopeContent) -> Pair:
    return case.situation.last_listed.get(content.scope.name, (0, 0))


def _last(case: _Case, content: ScopeContent) -> Pair:
    return case.last.get(content.scope.name, (0, 0))


def _next_version(case: _Case, content: ScopeContent) -> int:
    last = _last(case, content)
    number = last[1] + 1
    return max(number, case.shared.number(content.scope.name)) if is_counted(content.scope.name) else number


def _share(
    case: _Case, base: PublishedDocument | None, content: ScopeContent, holder: VerifierState
) -> PublishedDocument:
    """The newest document of this content, where it lies ahead of the node; else one that is made for all."""
    found = case.shared.newest(content, case.issue.authority_epoch)
    if found is None or not _is_ahead(case, content, found.held) or not _stays(case, found.held, holder):
        made = _sign(case, content, _next_version(case, content), holder)
        found = SharedDocument(_kept_document(made, content), to_document(made, content.sections))
        case.shared.add(content, found)
    smaller = None if base is None else _shared_increment(case, base, content, found.held, holder)
    if found.unkept is not None:
        _bring(case, content.scope.name, found.unkept)
    if smaller is not None:
        case.documents.append(smaller)
    case.last[content.scope.name] = found.held.entry.pair
    return found.held


def _is_ahead(case: _Case, content: ScopeContent, found: PublishedDocument) -> bool:
    """Of all that was listed for the node; what was its candidate may come again."""
    listed = case.listing.get(content.scope.name)
    behind = max(_last_listed_pair(case, content), (0, 0) if listed is None else listed.pair)
    return behind < found.entry.pair >= _last(case, content)


def _offer(case: _Case, offered: Offered) -> None:
    """Candidates of all scopes that the change gives another content; reviewed for the node as it is with that."""
    about = offered.subject
    holder = replace(case.holder, roles=frozenset(about.roles), organization_ids=frozenset(about.organizations))
    for scope, name in _in_order(offered.scopes):
        try:
            with signing():
                _announce(case, offered, offered.compile_(scope), holder)
        except Unpublishable as fault:
            case.failed[f"{name} as a candidate"] = fault


def _announce(case: _Case, offered: Offered, content: ScopeContent, holder: VerifierState) -> None:
    name = content.scope.name
    listed, coming = _listed_document(case, name), case.situation.candidates.get(name)
    if listed is not None:
        if listed.content_hash == content.content_hash:
            return
        holder = replace(
            holder,
            active={**holder.active, name: listed},
            marks={**holder.marks, name: Mark(*listed.entry.pair, listed.content_hash)},
        )
    if coming is None or not _is_still_good(case, coming, content, holder):
        if content.is_shared:
            coming = _share(case, listed, content, holder)
        else:
            coming = _publish(case, listed, content, _next_version(case, content), holder=holder)
    case.candidates[name], case.candidate_marks[name] = coming.entry, offered.mark
    if coming is not case.situation.candidates.get(name):
        case.new.append(coming)
    case.refresh[f"{name} as a candidate"] = case.issue.due_at(coming.envelope, case.situation.node_id)


def _listed_document(case: _Case, name: str) -> PublishedDocument | None:
    """Also of what is listed as it was."""
    found = case.listed.get(name)
    return case.situation.held.get(name) if found is None and name in case.listing else found


def _bring(case: _Case, scope: str, document: Document) -> None:
    """A version that is new; `take` counts it once it is good."""
    case.documents.append(document)
    if is_counted(scope):
        case.shared.take(scope, document.config_version)
        case.counted[scope] = case.shared.read[scope]


def _shared_increment(
    case: _Case, base: PublishedDocument, content: ScopeContent, to: PublishedDocument, holder: VerifierState
) -> Document | None:
    """Made once for all who come from the same document; kept for those who come later."""
    shared = case.shared
    if not shared.is_sought(base, to):
        shared.add_increment(base, to, _increment(case, base, content, to.envelope, holder))
    return shared.increment(base, to)


def _instead(case: _Case, held: PublishedDocument | None, content: ScopeContent) -> ScopeContent | None:
    """What the node has, where it is published in place of a content that it refuses."""
    refusing, issue = case.situation.refusing.get(content.scope.name), case.issue
    if refusing is None:
        return None
    choice = choose(
        refusing,
        content,
        held,
        case.holder,
        now=issue.now,
        refresh_s=issue.settings.snapshot_refresh_s,
        stays=lambda one: _stays(case, one),
    )
    case.choices[content.scope.name] = choice
    if choice.due_at is not None:
        case.refresh[f"{content.scope.name} as the node has it"] = choice.due_at
    return choice.content


def _outcomes(case: _Case) -> Iterator[RefusalOutcome]:
    """What this publication makes of the node's refusals, where that is something new."""
    for scope, refusing in case.situation.refusing.items():
        before = refusing.refusal
        after = _after(case, scope, before)
        if after != before:
            yield RefusalOutcome(case.situation.node_id, scope, before.refused.content_hash, after)


def _after(case: _Case, scope: str, before: KeptRefusal) -> KeptRefusal | None:
    """A scope that the head lists no more is refused no more."""
    if scope not in case.listing:
        return None
    choice = case.choices.get(scope)
    if choice is None or scope not in case.failed:
        return before if choice is None else choice.after
    return replace(before, withheld=str(case.failed[scope])) if choice.content is not None else before


def _publish(
    case: _Case,
    base: PublishedDocument | None,
    content: ScopeContent,
    version: int,
    allowed: AllowedRecovery | None = None,
    holder: VerifierState | None = None,
) -> PublishedDocument:
    """Sign and review a version of the node's own; with it the increment from `base`, where one is smaller."""
    holder = holder or case.holder
    if allowed is not None:
        holder = replace(holder, recoveries=(allowed.container,))
    made = _sign(case, content, version, holder)
    smaller = None if base is None else _increment(case, base, content, made.envelope, holder)
    document = to_document(made, content.sections)
    if allowed is not None:
        case.documents.append(document)
    else:
        _bring(case, content.scope.name, document)
    if smaller is not None:
        case.documents.append(smaller)
    case.last[content.scope.name] = max(_last(case, content), (made.envelope.authority_epoch, version))
    return _kept_document(made, content)


def _kept_document(made: signer.SignedDocument, content: ScopeContent) -> PublishedDocument:
    """As it is read again once it is kept."""
    one = made.envelope
    entry = HeadEntry(one.authority_epoch, one.config_version, one.state_hash, one.snapshot_id)
    names = {section.sha256: name for name, section in content.entries.items()}
    return PublishedDocument(entry, one, made.manifest_bytes, lambda sha256: content.section(names[sha256]))


def _sign(case: _Case, content: ScopeContent, version: int, holder: VerifierState) -> signer.SignedDocument:
    issue, node_id = case.issue, case.situation.node_id
    if content.is_shared:  # for each of its nodes spread by Issue.due_at
        subject, refresh_after = SHARED, int(issue.now) + issue.settings.snapshot_refresh_s
    else:
        spread_by = f"{node_id} {content.scope.type}"  # the services of a node are renewed with one head
        subject, refresh_after = node_id, issue.refresh_after(spread_by, issue.settings.snapshot_refresh_s)
    made = issue.snapshot_form(content.scope, content.audience).sign(
        content.manifest,
        content.read_all(),
        snapshot_id=new_id(),
        subject_node_id=subject,
        config_version=version,
        refresh_after=refresh_after,
    )
    case.shared.reviewer.review(made, holder, issue.now)
    return made


def _increment(
    case: _Case, held: PublishedDocument, content: ScopeContent, to: Envelope, holder: VerifierState
) -> Document | None:
    """From `held` to a document of this content, with its dates. None where only a full snapshot will do: another
    epoch, another audience, a base that is lost (rules S24); or where it is no smaller.
    """
    base = held.envelope
    if (base.authority_epoch, _audience(base)) != (to.authority_epoch, _audience(to)):
        return None
    delta = case.shared.delta(held, content)
    if delta is None:
        return None
    claims = replace(
        case.issue.claims(content.scope, content.audience),
        snapshot_id=new_id(),
        subject_node_id=to.subject_node_id,
        config_version=to.config_version,
        refresh_after=to.refresh_after,
        expires_at=to.expires_at,
    )
    keys = case.issue.signers(content.scope.type)
    brought = {name: content.bytes_of(section) for name, section in delta.brought.items()}
    made = signer.increment(claims, Base(base.config_version, held.sections), delta.changes, brought, keys)
    case.shared.reviewer.review(made, holder, case.issue.now)
    return to_document(made, delta.brought)


def _audience(one: Envelope) -> tuple[object, ...]:
    """Whom a document is for."""
    return one.subject_node_id, one.roles, one.organization_ids


def _announcement(case: _Case) -> Announced:
    return Announced(
        case.listing,
        (listing_text(case.listing), listing_text(case.candidates)),
        case.candidates,
        _declared_marks(case),
        case.candidate_marks,
    )


def _declared_marks(case: _Case) -> Mapping[str, ChangeMark]:
    """By scope, of the change that its version came by."""
    return {scope: mark for scope, mark in case.told.marks.items() if _is_as_declared(case, scope)}


def _listed_otherwise(case: _Case) -> frozenset[Scope]:
    """Each time they are compiled anew, also where the refusal, or the fault, is over by then."""
    if not case.failed and not case.choices:
        return frozenset()
    return frozenset([scope for scope in case.told.scopes if not _is_as_declared(case, scope.name)])


def _is_as_declared(case: _Case, scope: str) -> bool:
    """What is given in place of a refused version, or could not be made anew, came by no change of now."""
    choice = case.choices.get(scope)
    return scope not in case.failed and (choice is None or choice.content is None)


def _holder(issue: Issue, situation: Situation, subject: Subject | None) -> VerifierState:
    """The node as it stands when it holds all that was published for it."""
    return replace_members(
        issue.nobody,
        node_id=situation.node_id,
        roles=frozenset(subject.roles if subject else ()),
        organization_ids=frozenset(subject.organizations if subject else ()),
        marks=_Marks(situation),
        active=situation.held,
    )


@dataclass(frozen=True)
class _Marks(Mapping[str, Mark]):
    """The node's, each made when it is asked for: the verifier asks for that of one scope."""

    situation: Situation

    def __getitem__(self, scope: str) -> Mark:
        if scope == HEAD and self.situation.head != (0, 0):
            return Mark(*self.situation.head, signer.NO_HASH)
        pair, held = self.situation.last_listed[scope], self.situation.held.get(scope)
        return Mark(*pair, held.content_hash if held is not None and held.entry.pair == pair else signer.NO_HASH)

    def __iter__(self) -> Iterator[str]:
        yield from self.situation.last_listed
        if self.situation.head != (0, 0):
            yield HEAD

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _list_held(case: _Case, scope: str, held: PublishedDocument) -> None:
    case.listing[scope], case.listed[scope] = held.entry, held
    if held is not case.situation.held.get(scope):
        case.new.append(held)
    case.refresh[scope] = case.issue.due_at(held.envelope, case.situation.node_id)


def to_document(made: signer.SignedDocument, sections: Mapping[str, bytes | StoredSection] = _NO_SECTIONS) -> Document:
    """A signed document in the parts that the database keeps, with no bytes of those `sections` that lie in the store:
    a batch of documents may be larger than memory.
    """
    one = made.envelope
    return Document(
        snapshot_id=one.snapshot_id,
        kind=one.kind,
        subject=one.subject_node_id,
        scope=one.scope,
        authority_epoch=one.authority_epoch,
        config_version=one.config_version,
        content_hash=one.state_hash,
        issued_at=one.issued_at,
        expires_at=one.expires_at,
        envelope=made.envelope_bytes,
        signatures=made.signatures,
        manifest=made.manifest_bytes,
        sections=tuple([_kept_section(sections[name]) for name in sorted(sections)]),
        base_config_version=one.base_config_version,
    )


def _kept_section(section: bytes | StoredSection) -> bytes | StoredObject:
    return section if isinstance(section, bytes) else StoredObject(section_key(section.sha256))

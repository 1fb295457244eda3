"""What one node is to be told next: its changed scopes as documents, and the head that announces them (rules S69, S85).

    draft(issue, situation, subject, contents)   -> Draft: a Publication, and what could not be published and why

A scope gets a new version where its content is another, where its audience no longer fits the node, where its renewal
is due, or where the epoch has been raised; else what is published stays. Where a node refuses what is declared, it may
be given once more what it has (instead.py). All that was signed has passed the nodes'
verifier before it is in a Publication; what fails leaves the scope as it is. Pure, but for the random ids of documents.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from coordinator.database.documents import TRUST_BUNDLE, Document, HeadEntry
from coordinator.declared import increments
from coordinator.declared.compiler import ScopeContent
from coordinator.declared.model import Subject
from coordinator.keys import signer
from coordinator.keys.signer import Base, EnvelopeClaims
from coordinator.publishing.heads import Publication
from coordinator.publishing.instead import Choice, choose
from coordinator.publishing.published_state import AllowedRecovery, PublishedDocument, Situation
from coordinator.publishing.review import review
from coordinator.publishing.rollback_overlay import content_of, governing
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.reports.refusal_records import RefusalOutcome
from coordinator.reports.standing_refusals import KeptRefusal
from snapshot.bundle import CONFIG
from snapshot.holder import Holder, Mark
from snapshot.identifiers import HEAD, Scope
from snapshot.manifest import ScopeVersion
from snapshot.roles import ESTABLISHING

RETRY_S = 30  # a head is not issued again sooner, also where a scope could not be renewed; but before it expires
# What follows these is judged by the roles and organizations that they give (format.md 9).
_FIRST = ("node_bootstrap", "node_runtime")

Compile = Callable[[Scope], ScopeContent]
"""The content of a scope, or KeyError."""


@dataclass(frozen=True)
class Draft:
    """`failed`: by scope, what kept its new version from being published."""

    publication: Publication
    failed: Mapping[str, Unpublishable]


@dataclass
class _Case:
    """One node's next publication as it comes together."""

    issue: Issue
    situation: Situation
    holder: Holder
    listing: dict[str, HeadEntry] = field(default_factory=dict)
    refresh: dict[str, int] = field(default_factory=dict)  # when each document is due
    documents: list[Document] = field(default_factory=list)
    failed: dict[str, Unpublishable] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)  # where something is refused


def draft(
    issue: Issue,
    situation: Situation,
    subject: Subject | None,
    scopes: Mapping[Scope, bool],
    compile_: Compile,
) -> Draft:
    """`subject` is None for a revoked member: it is told of its revocation, and holds nothing any more (rules K22).

    `scopes`: what the node may hold; True for those that have to be compiled again. What is published and is not among
    them is not listed any more, which withdraws it. Unpublishable where not even a head can be signed.
    """
    case = _Case(issue, situation, _holder(issue, situation, subject))
    for scope in sorted(scopes, key=lambda each: (each.type not in _FIRST, each)):
        _settle(case, scope, compile_, is_changed=scopes[scope])
    case.listing[TRUST_BUNDLE] = issue.bundle_entry
    head = _head(case)
    wanted = min([head.envelope.refresh_after, *case.refresh.values()])
    refresh_after = max(wanted, min(head.envelope.refresh_after, int(issue.now) + RETRY_S))
    publication = Publication(
        node_id=situation.node_id,
        based_on=situation.based_on,
        head=kept(head),
        refresh_after=refresh_after,
        listing=case.listing,
        documents=tuple(case.documents),
        outcomes=tuple(_outcomes(case)),
    )
    return Draft(publication, case.failed)


def _settle(case: _Case, scope: Scope, compile_: Compile, *, is_changed: bool) -> None:
    """What the head lists for one scope: what is published, or a new version."""
    held = case.situation.held.get(scope.name)
    is_settled = not is_changed and scope.name not in case.situation.recoveries
    is_settled &= scope.name not in case.situation.refusing
    try:
        if held is not None and is_settled and _stays(case, held):
            _list(case, held.envelope.scope, held.entry, held.envelope.refresh_after)
        else:
            _renew(case, held, compile_(scope))
    except Unpublishable as fault:
        case.failed[scope.name] = fault
        if held is not None:
            _list(case, held.envelope.scope, held.entry, held.envelope.refresh_after)


def _stays(case: _Case, held: PublishedDocument) -> bool:
    """Whether a document may stand as it is while its content does."""
    is_due = case.issue.now >= held.envelope.refresh_after
    is_good = _is_vouched_for(case.issue, held) and _fits(case.holder, held)
    return not is_due and held.entry.authority_epoch == case.issue.authority_epoch and is_good


def _is_vouched_for(issue: Issue, held: PublishedDocument) -> bool:
    """Whether those who signed it may still: else every node calls it `signer_revoked`, and a resync finds it again
    (format.md 8, rules S82). A retiring key's signature is good.
    """
    one, bundle, revoked = held.envelope, issue.bundle, issue.revocations.key_ids
    records = [bundle.keys[key_id] for key_id in one.signers if key_id in bundle.keys]
    faults = [
        each.fault(issue.cluster_id, issue.now, one.scope_type, CONFIG, each.key_id in revoked) for each in records
    ]
    return faults.count(None) >= bundle.thresholds[CONFIG]


def _fits(holder: Holder, held: PublishedDocument) -> bool:
    """A node that has lost a role or an organization would find the document damaged at its next start (step 10)."""
    roles, organizations = set(held.envelope.roles), set(held.envelope.organization_ids)
    if held.envelope.scope_type in ESTABLISHING:
        return roles == holder.roles and organizations == holder.organization_ids
    return roles <= holder.roles and organizations <= holder.organization_ids


def _renew(case: _Case, held: PublishedDocument | None, content: ScopeContent) -> None:
    allowed = governing(case.situation.recoveries.get(content.scope.name), content)
    if allowed is not None:
        content = content_of(allowed)
    instead = _instead(case, held, content)
    if instead is not None:
        content, allowed = instead, None
    if held is not None and held.content_hash == content.content_hash and _stays(case, held):
        _list(case, held.envelope.scope, held.entry, held.envelope.refresh_after)
        return
    last = case.situation.last.get(content.scope.name, (0, 0))
    if allowed is not None and last == (case.issue.authority_epoch, allowed.from_config_version):
        _publish(case, held, content, allowed.held.entry.config_version, allowed)
    else:
        _publish(case, held if instead is None else None, content, last[1] + 1)


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
    held: PublishedDocument | None,
    content: ScopeContent,
    version: int,
    allowed: AllowedRecovery | None = None,
) -> None:
    """Sign, review, and list a version; with it the increment from what is published, where one is smaller."""
    issue = case.issue
    claims = _claims(case, content, version)
    keys = issue.signers(content.scope.type)
    made = signer.snapshot(claims, content.sections, keys)
    holder = case.holder if allowed is None else replace(case.holder, recoveries=(allowed.container,))
    review(made, holder, issue.now)
    documents = [kept(made)]
    smaller = None if held is None or allowed is not None else _increment(case, held, content, claims)
    if smaller is not None and _size(smaller) < _size(made):
        review(smaller, holder, issue.now)
        documents.append(kept(smaller))
    case.documents += documents
    _list(case, made.envelope.scope, _entry(made), claims.refresh_after)


def _increment(
    case: _Case, held: PublishedDocument, content: ScopeContent, claims: EnvelopeClaims
) -> signer.SignedDocument | None:
    """None where only a full snapshot will do: another epoch, another audience, a base left behind (rules S24)."""
    base = held.envelope
    same_audience = (base.roles, base.organization_ids) == (claims.roles, claims.organization_ids)
    if base.authority_epoch != claims.authority_epoch or not same_audience:
        return None
    if (base.authority_epoch, base.config_version) != case.situation.last.get(content.scope.name):
        return None
    delta = increments.changes(held.sections, held.read, content.sections)
    claims = replace(claims, snapshot_id=_new_id())
    keys = case.issue.signers(content.scope.type)
    return signer.increment(claims, Base(base.config_version, held.sections), delta.changes, delta.brought, keys)


def _head(case: _Case) -> signer.SignedDocument:
    issue, situation = case.issue, case.situation
    claims = EnvelopeClaims(
        snapshot_id=_new_id(),
        cluster_id=issue.cluster_id,
        subject_node_id=situation.node_id,
        scope_type=HEAD,
        config_version=max(situation.based_on.generation, situation.based_on.published + 1),
        authority_epoch=issue.authority_epoch,
        issued_at=issue.issued_at,
        refresh_after=issue.refresh_after(situation.node_id, issue.settings.head_refresh_s),
        expires_at=issue.expires_at(issue.settings.head_lifetime_s),
        min_trust_bundle_version=0,  # it is what announces the next bundle, to nodes that hold an older one
    )
    scopes = {scope: ScopeVersion(**vars(entry)) for scope, entry in case.listing.items()}
    poll_after_s = issue.poll_after_s(situation.node_id)
    keys = issue.signers(HEAD)
    made = signer.head(claims, scopes, keys, poll_after_s=poll_after_s, revocations=issue.revocations)
    review(made, case.holder, issue.now)
    return made


def _claims(case: _Case, content: ScopeContent, version: int) -> EnvelopeClaims:
    issue, node_id = case.issue, case.situation.node_id
    spread_by = f"{node_id} {content.scope.type}"  # the services of a node are renewed with one head
    return EnvelopeClaims(
        snapshot_id=_new_id(),
        cluster_id=issue.cluster_id,
        subject_node_id=node_id,
        scope_type=content.scope.type,
        scope_ids=content.scope.ids,
        roles=content.audience.roles,
        organization_ids=content.audience.organization_ids,
        config_version=version,
        authority_epoch=issue.authority_epoch,
        issued_at=issue.issued_at,
        refresh_after=issue.refresh_after(spread_by, issue.settings.snapshot_refresh_s),
        expires_at=issue.expires_at(issue.settings.snapshot_lifetime_s),
        min_trust_bundle_version=issue.bundle.version,
    )


def _holder(issue: Issue, situation: Situation, subject: Subject | None) -> Holder:
    """The node as it stands when it holds all that was published for it."""
    marks = {scope: Mark(*pair, _hash_at(situation, scope, pair)) for scope, pair in situation.last.items()}
    if situation.head != (0, 0):
        marks[HEAD] = Mark(*situation.head, signer.NO_HASH)
    return Holder(
        cluster_id=issue.cluster_id,
        node_id=situation.node_id,
        roles=frozenset(subject.roles if subject else ()),
        organization_ids=frozenset(subject.organizations if subject else ()),
        bundle=issue.bundle,
        marks=marks,
        active=situation.held,
        revocations=issue.revocations,
    )


def _hash_at(situation: Situation, scope: str, pair: tuple[int, int]) -> str:
    held = situation.held.get(scope)
    return held.content_hash if held is not None and held.entry.pair == pair else signer.NO_HASH


def _list(case: _Case, scope: str, entry: HeadEntry, refresh_after: int) -> None:
    case.listing[scope] = entry
    case.refresh[scope] = refresh_after


def _entry(made: signer.SignedDocument) -> HeadEntry:
    one = made.envelope
    return HeadEntry(one.authority_epoch, one.config_version, one.state_hash, one.snapshot_id)


def kept(made: signer.SignedDocument) -> Document:
    """A signed document in the parts that the database keeps."""
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
        sections=made.sections,
        base_config_version=one.base_config_version,
    )


def _size(made: signer.SignedDocument) -> int:
    return len(made.envelope_bytes) + len(made.manifest_bytes) + sum(map(len, made.sections))


def _new_id() -> str:
    return secrets.token_hex(16)  # protocol 1: 128 random bits

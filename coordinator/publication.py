"""What one node is to be told next: its changed scopes as documents, and the head that announces them (rules S69, S85).

    draft(issue, situation, subject, contents)   -> Draft: a Publication, and what could not be published and why

A scope gets a new version where its content is another, where its audience no longer fits the node, where its renewal
is due, or where the epoch has been raised; else what is published stays. All that was signed has passed the nodes'
verifier before it is in a Publication; what fails leaves the scope as it is. Pure, but for the random ids of documents.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from coordinator import increments, signer
from coordinator.compiler import Content
from coordinator.documents import TRUST_BUNDLE, Document, Entry
from coordinator.heads import Publication
from coordinator.issue import Issue, Unpublishable
from coordinator.model import Subject
from coordinator.recovered import content_of, governing
from coordinator.review import review
from coordinator.signer import Base, Claims
from coordinator.situation import Allowed, Held, Situation
from snapshot.bundle import CONFIG
from snapshot.holder import Holder, Mark
from snapshot.identifiers import HEAD
from snapshot.manifest import ScopeVersion
from snapshot.roles import ESTABLISHING

RETRY_S = 30  # a head is not issued again sooner, also where a scope could not be renewed; but before it expires
# What follows these is judged by the roles and organizations that they give (format.md 9).
_FIRST = ("node_bootstrap", "node_runtime")

Compile = Callable[[str], Content]
"""The content of a scope type, or KeyError."""


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
    listing: dict[str, Entry] = field(default_factory=dict)
    refresh: dict[str, int] = field(default_factory=dict)  # when each listed document is due
    documents: list[Document] = field(default_factory=list)
    failed: dict[str, Unpublishable] = field(default_factory=dict)


def draft(
    issue: Issue,
    situation: Situation,
    subject: Subject | None,
    scope_types: Mapping[str, bool],
    compile_: Compile,
) -> Draft:
    """`subject` is None for a revoked member: it is told of its revocation, and holds nothing any more (rules K22).

    `scope_types`: what the node may hold; True for those that have to be compiled again. Unpublishable where not even
    a head can be signed.
    """
    case = _Case(issue, situation, _holder(issue, situation, subject))
    for scope_type in sorted(scope_types, key=lambda name: (name not in _FIRST, name)):
        _settle(case, scope_type, compile_, is_changed=scope_types[scope_type])
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
    )
    return Draft(publication, case.failed)


def _settle(case: _Case, scope_type: str, compile_: Compile, *, is_changed: bool) -> None:
    """What the head lists for one scope: what is published, or a new version."""
    held = case.situation.held.get(scope_type)
    is_settled = not is_changed and scope_type not in case.situation.recoveries
    try:
        if held is not None and is_settled and _stays(case, held):
            _list(case, held.envelope.scope, held.entry, held.envelope.refresh_after)
        else:
            _renew(case, held, compile_(scope_type))
    except Unpublishable as fault:
        case.failed[scope_type] = fault
        if held is not None:
            _list(case, held.envelope.scope, held.entry, held.envelope.refresh_after)


def _stays(case: _Case, held: Held) -> bool:
    """Whether a document may stand as it is while its content does."""
    is_due = case.issue.now >= held.envelope.refresh_after
    is_good = _is_vouched_for(case.issue, held) and _fits(case.holder, held)
    return not is_due and held.entry.authority_epoch == case.issue.authority_epoch and is_good


def _is_vouched_for(issue: Issue, held: Held) -> bool:
    """Whether those who signed it may still: else every node calls it `signer_revoked`, and a resync finds it again
    (format.md 8, rules S82). A retiring key's signature is good.
    """
    one, bundle, revoked = held.envelope, issue.bundle, issue.revocations.key_ids
    records = [bundle.keys[key_id] for key_id in one.signers if key_id in bundle.keys]
    faults = [
        each.fault(issue.cluster_id, issue.now, one.scope_type, CONFIG, each.key_id in revoked) for each in records
    ]
    return faults.count(None) >= bundle.thresholds[CONFIG]


def _fits(holder: Holder, held: Held) -> bool:
    """A node that has lost a role or an organization would find the document damaged at its next start (step 10)."""
    roles, organizations = set(held.envelope.roles), set(held.envelope.organization_ids)
    if held.envelope.scope_type in ESTABLISHING:
        return roles == holder.roles and organizations == holder.organization_ids
    return roles <= holder.roles and organizations <= holder.organization_ids


def _renew(case: _Case, held: Held | None, content: Content) -> None:
    allowed = governing(case.situation.recoveries.get(content.scope_type), content)
    if allowed is not None:
        content = content_of(allowed)
    if held is not None and held.content_hash == content.content_hash and _stays(case, held):
        _list(case, held.envelope.scope, held.entry, held.envelope.refresh_after)
        return
    last = case.situation.last.get(content.scope_type, (0, 0))
    if allowed is not None and last == (case.issue.authority_epoch, allowed.from_config_version):
        _publish(case, held, content, allowed.held.entry.config_version, allowed)
    else:
        _publish(case, held, content, last[1] + 1)


def _publish(case: _Case, held: Held | None, content: Content, version: int, allowed: Allowed | None = None) -> None:
    """Sign, review, and list a version; with it the increment from what is published, where one is smaller."""
    scope_type, issue = content.scope_type, case.issue
    claims = _claims(case, content, version)
    keys = issue.signers(scope_type)
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


def _increment(case: _Case, held: Held, content: Content, claims: Claims) -> signer.Document | None:
    """None where only a full snapshot will do: another epoch, another audience, a base left behind (rules S24)."""
    base = held.envelope
    same_audience = (base.roles, base.organization_ids) == (claims.roles, claims.organization_ids)
    if base.authority_epoch != claims.authority_epoch or not same_audience:
        return None
    if (base.authority_epoch, base.config_version) != case.situation.last.get(content.scope_type):
        return None
    delta = increments.changes(held.sections, held.read, content.sections)
    claims = replace(claims, snapshot_id=_new_id())
    keys = case.issue.signers(content.scope_type)
    return signer.increment(claims, Base(base.config_version, held.sections), delta.changes, delta.brought, keys)


def _head(case: _Case) -> signer.Document:
    issue, situation = case.issue, case.situation
    claims = Claims(
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


def _claims(case: _Case, content: Content, version: int) -> Claims:
    issue, node_id = case.issue, case.situation.node_id
    return Claims(
        snapshot_id=_new_id(),
        cluster_id=issue.cluster_id,
        subject_node_id=node_id,
        scope_type=content.scope_type,
        roles=content.audience.roles,
        organization_ids=content.audience.organization_ids,
        config_version=version,
        authority_epoch=issue.authority_epoch,
        issued_at=issue.issued_at,
        refresh_after=issue.refresh_after(f"{node_id} {content.scope_type}", issue.settings.snapshot_refresh_s),
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


def _list(case: _Case, scope: str, entry: Entry, refresh_after: int) -> None:
    case.listing[scope] = entry
    case.refresh[scope] = refresh_after


def _entry(made: signer.Document) -> Entry:
    one = made.envelope
    return Entry(one.authority_epoch, one.config_version, one.state_hash, one.snapshot_id)


def kept(made: signer.Document) -> Document:
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


def _size(made: signer.Document) -> int:
    return len(made.envelope_bytes) + len(made.manifest_bytes) + sum(map(len, made.sections))


def _new_id() -> str:
    return secrets.token_hex(16)  # protocol 1: 128 random bits

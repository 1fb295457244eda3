"""One scope of one node in whole: by which rule, which version, who signed it, what is in it and whence, who holds it.

    explain_scope(database, node_id, scope, ...)    -> ScopeExplanation, from one consistent read

What is published and what is declared are two things: entries are those of both, and each says how the two stand.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, declared_places, schema
from coordinator.database.database import Database, Transaction
from coordinator.declared import views
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.config_scope import CONFIG, FILES
from coordinator.declared.model import Model, Subject
from coordinator.declared.scope_view import ValueOrigin
from coordinator.declared.tenant_scopes import SERVICES
from coordinator.fleet import explain
from coordinator.fleet.explain import TRUST_BUNDLE
from coordinator.fleet.held_scopes import held_scopes
from coordinator.fleet.holders import holders
from coordinator.publishing import published_state as situation
from coordinator.publishing.instead import governing
from coordinator.publishing.published_state import AllowedRecovery, PublishedDocument, Situation
from coordinator.reports import features, refusals
from coordinator.trust.signatures import signers
from snapshot import canonical
from snapshot.egress import RESOURCES
from snapshot.identifiers import Scope, format_time
from snapshot.roles import EVERY_NODE, allowed_scope_types
from wire.operators.fleet_answers import (
    EntryExplanation,
    ExplainedSection,
    FleetRefusal,
    ScopeExplanation,
    Version,
)

MOST_ENTRIES = 200
VALUE_BYTES = 1_024  # a larger section is shown where it is asked for by its name
BY_ROOTS = ValueOrigin("root keys signed it; `holdfastctl trust show` has all of it")
LEFT = ValueOrigin("nothing that is declared gives it any more")


def explain_scope(
    database: Database,
    node_id: str,
    scope: str,
    *,
    now: float,
    section: str | None = None,
    most: int = MOST_ENTRIES,
) -> ScopeExplanation:
    """With `section` of that one alone, its value in whole. `not_found` for what there is not."""
    wanted = explain.scope_of(scope)
    with database.read() as transaction:
        model = catalog.load(transaction)
        subject = explain.subject_of(model, node_id)
        found = situation.read_situations(transaction, [node_id])[node_id]
        case = _Case(transaction, model, subject, wanted, found, now)
        return _explain(case, section, most)


@dataclass(frozen=True)
class _Case:
    """One question, and what it is answered from."""

    transaction: Transaction
    model: Model
    subject: Subject
    scope: Scope
    situation: Situation
    now: float

    @property
    def published_document(self) -> PublishedDocument | None:
        return self.situation.held.get(self.scope.name)

    @property
    def may_hold(self) -> bool:
        return self.scope == TRUST_BUNDLE or views.holds(self.model, self.subject, self.scope)

    @cached_property
    def content(self) -> ScopeContent | None:
        """What is declared; None of what it may not hold, and of what no resource is compiled into."""
        if not self.may_hold or self.scope == TRUST_BUNDLE:
            return None
        read = situation.reader(self.transaction)
        return compile_scope(self.model, self.subject.node_id, self.scope, read)

    @property
    def last_recovery(self) -> AllowedRecovery | None:
        """The last recovery."""
        return self.situation.recoveries.get(self.scope.name)

    def published_section(self, name: str) -> bytes | None:
        return (
            self.published_document.read(name)
            if self.published_document is not None and name in self.published_document.sections
            else None
        )

    def declared_section(self, name: str) -> bytes | None:
        return None if self.content is None or name not in self.content.sections else self.content.section(name)

    @property
    def raw(self) -> frozenset[str]:
        """Sections that hold parts of files: what they hold is no entry of anything, and no JSON."""
        if self.scope.type != CONFIG:
            return frozenset()
        held = self.published_document.sections if self.published_document is not None else ()
        return frozenset((*held, *(self.content.sections if self.content else ()))) - {FILES}


def _explain(case: _Case, section: str | None, most: int) -> ScopeExplanation:
    names = _names(case, section)
    stands = [(name, entry, how) for name in names for entry, how in _standings(case, name)]
    held = case.published_document
    entries = [_entry(case, *stand) for stand in stands[:most]]
    return ScopeExplanation(
        node_id=case.subject.node_id,
        scope=case.scope.name,
        may_hold=case.may_hold,
        because=explain.because(case.model, case.subject, case.scope),
        rules=_rules(case),
        notes=tuple(_notes(case)),
        published=None if held is None else _version(case, held),
        differs={} if case.content is None else explain.differing(case.content, held, case.last_recovery),
        sections=tuple(_section(case, name, whole=section is not None) for name in names if _is_published(held, name)),
        entries=tuple(_with_places(case, entries)),
        entries_total=len(stands),
        holders=holders(case.transaction, case.subject.node_id, case.scope.name, held.entry if held else None),
    )


def _names(case: _Case, wanted: str | None) -> list[str]:
    """The sections that are published or declared, or the one that is asked for; of a Config the index stands for all
    of its files.
    """
    published = set(case.published_document.sections) if case.published_document else set()
    names = sorted(published | set(case.content.sections if case.content else ()))
    if wanted is None:
        return [name for name in names if name not in case.raw]
    if wanted not in names:
        remedy = f"there are {', '.join(names)}" if names else "it has none"
        raise Refused(Code.NOT_FOUND, f"{case.scope.name} has no section {wanted}", remedy=remedy)
    return [wanted]


def _rules(case: _Case) -> tuple[str, ...]:
    """What decides whether the node may hold it."""
    if case.scope == TRUST_BUNDLE:
        return ("format.md 8", "format.md 9")
    if case.subject.member.kind == "witness":
        return ("rules J27",)
    return ("format.md 9",) if case.scope.type in EVERY_NODE else ("format.md 9", "rules S17")


def _notes(case: _Case) -> Iterator[str]:
    held = case.published_document
    kept_back = held_scopes(case.transaction, [case.subject.node_id]).get(case.subject.node_id, {}).get(case.scope.name)
    if kept_back is not None:
        yield f"held back {kept_back}"
    if held is not None and not case.may_hold and kept_back is None:
        yield "it is announced still: the next head does not list it"
    waiting = features.unreadable_scopes([case.scope], case.situation.features) if case.may_hold else {}
    yield from (f"held back: {feature.words}" for feature in waiting.values())
    if held is None and case.may_hold and not waiting and kept_back is None:
        yield "nothing is published for this node yet: see `publishing` in `holdfastctl status`"
    if held is not None and case.now >= held.envelope.expires_at:
        yield "the published version has expired, and no node acts on it"
    yield from (f"it {refusal.words}" for refusal in _refusals(case))
    yield from _revocation_notes(case)
    if held is not None and _is_recovered(case):
        yield f"a recovery went back to version {held.entry.config_version}: what is declared is held back"


def _refusals(case: _Case) -> list[FleetRefusal]:
    """What the node does not take, where it does not."""
    of_node = refusals.fleet_refusals(case.transaction, case.subject.node_id)
    return [refusal for refusal in of_node if refusal.scope == case.scope.name]


def _revocation_notes(case: _Case) -> Iterator[str]:
    """What was taken from the node without being compiled otherwise: heads and bundles tell it so (rules S61)."""
    told = [situation.read_revocations(case.transaction)]
    bundle = situation.latest_bundle(case.transaction)
    told += [bundle[1].revocations] if bundle else []
    roles = frozenset(case.subject.roles)
    taken = {
        role
        for role in roles
        if any(f"{case.subject.node_id}/{role}" in revocations.role_assignments for revocations in told)
    }
    if case.scope.type in allowed_scope_types(roles) - allowed_scope_types(roles - taken):
        yield f"revoked for this node: {', '.join(sorted(taken))}; it uses nothing that only this grants"
    if case.scope.type == SERVICES:
        gone = (name for name in case.scope.ids if any(name in revocations.service_ids for revocations in told))
        yield from (f"the service {name} is revoked" for name in gone)
        used = case.content.sections.get(RESOURCES, b"{}") if case.content is not None else b"{}"
        names = json.loads(used) if isinstance(used, bytes) else {}
        lost = (name for name in names if any(name in revocations.service_ids for revocations in told))
        yield from (f"the resource {name} is revoked: nodes show it no more, and refuse its use" for name in lost)


def _is_recovered(case: _Case) -> bool:
    """Whether the published version is one that a recovery went back to, and still holds (rules S65)."""
    held, allowed = (
        case.published_document,
        None if case.content is None else governing(case.last_recovery, case.content),
    )
    return held is not None and allowed is not None and held.entry.pair == allowed.held.entry.pair


def _version(case: _Case, held: PublishedDocument) -> Version:
    table, one = schema.documents, held.envelope
    chosen = select(table.c.published_at, table.c.signatures).where(table.c.snapshot_id == held.entry.snapshot_id)
    row = case.transaction.row(chosen)
    if row is None:
        raise AssertionError("what is held is kept")
    key_ids = [key_id for key_id, _ in json.loads(row.signatures)]
    signed, threshold = signers(
        case.transaction, key_ids, case.scope.type, cluster_id=case.model.cluster_id, now=case.now
    )
    return Version(
        **vars(held.entry),
        published_at=row.published_at,
        issued_at=format_time(one.issued_at),
        refresh_after=format_time(one.refresh_after),
        expires_at=format_time(one.expires_at),
        min_trust_bundle_version=one.min_trust_bundle_version,
        subject_node_id=one.subject_node_id,
        roles=one.roles,
        organization_ids=one.organization_ids,
        signers=signed,
        threshold=threshold,
    )


def _is_published(held: PublishedDocument | None, name: str) -> bool:
    return held is not None and name in held.sections


def _section(case: _Case, name: str, *, whole: bool) -> ExplainedSection:
    held = case.published_document
    if held is None:
        raise AssertionError("it is published")
    entry = held.sections[name]
    is_shown = name not in case.raw and (whole or entry.size <= VALUE_BYTES)
    value = canonical.loads(held.read(name)) if is_shown else None
    return ExplainedSection(name, entry.size, entry.sha256, value, is_shown)


def _standings(case: _Case, name: str) -> Iterator[tuple[str, str]]:
    """The members of a section, published or declared, in the order of their names, and how the two stand."""
    if name in case.raw:
        return
    published, declared = case.published_section(name), case.declared_section(name)
    if case.scope == TRUST_BUNDLE:
        yield from ((entry, "signed") for entry in sorted(_members(published)))
    elif published == declared:  # as nearly always, and then nothing need be compared
        yield from ((entry, "as_declared") for entry in sorted(_members(published)))
    else:
        ours, theirs = _members(declared), _members(published)
        for entry in sorted(ours.keys() | theirs.keys()):
            yield entry, _stands(entry, theirs, ours)


def _members(section: bytes | None) -> dict[str, object]:
    """Of bytes that our own hash has named."""
    value = {} if section is None else json.loads(section)
    return value if isinstance(value, dict) else {}


def _stands(entry: str, published: Mapping[str, object], declared: Mapping[str, object]) -> str:
    if entry not in published:
        return "not_published"
    if entry not in declared:
        return "not_declared"
    is_same = canonical.dumps(published[entry]) == canonical.dumps(declared[entry])  # so 1 is not true
    return "as_declared" if is_same else "differs"


def _entry(case: _Case, section: str, entry: str, stands: str) -> EntryExplanation:
    if stands == "signed":
        whence = BY_ROOTS
    elif stands == "not_declared":
        whence = LEFT
    else:
        whence = views.origin(case.model, case.subject, case.scope, section, entry)
    return EntryExplanation(section, entry, stands, whence.because, whence.sources)


def _with_places(case: _Case, entries: Sequence[EntryExplanation]) -> Iterator[EntryExplanation]:
    """Each source with where it was declared."""
    keys = {(source.kind, source.id) for entry in entries for source in entry.sources}
    places = declared_places.read(case.transaction, keys)
    written = {key: f"{file}:{line}" for key, (file, line) in places.items()}
    for entry in entries:
        sources = (replace(source, declared_in=written.get((source.kind, source.id))) for source in entry.sources)
        yield replace(entry, sources=tuple(sources))

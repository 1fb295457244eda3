"""What each node is told: its head, swapped against exactly what it was made from (rules K20, K21, X16).

Under one (node, scope, epoch, version) there is one content for ever, whichever coordinator publishes: who comes second
with another one gets `conflict`, and nothing of it remains.

A publication says what it was made from (`Basis`: the generation of the node's entry, and that of the head that is
out). It is accepted where both are still so, inside the transaction that writes it: compare and swap. Compiling takes
long and holds no lock; what changes meanwhile makes the work void, and never wrong.

What else is held here, since here alone all of it is known at one moment:

- `issued_at` never goes back, not between replicas whose clocks differ (rules K47).
- The numbers behind a head are kept for it to be signed again while the database is away (replicas/generations.py).
- No document has an epoch that the trust bundle has not announced.
- Whatever a head lists is kept, so that it can be handed out.
- One content under one version; a lower version only with a recovery that names exactly this step (rules S86, S87).
- A candidate is kept, and on record under a number of its own, above what the head lists. Whether a version was ever
  listed, or was a candidate and no more, is on record as well: no node can have that active (report_check.py).
- A new version of a scope that nodes may share is above all that any of them had, and made from the counter as it is
  (shared_documents.py): of two coordinators that sign the same content, one finds the document of the other. Within a
  batch it is one document, whichever of its nodes bring it.

Example. A change has raised node-a to generation 12, and head 11 is out. Two coordinators compile `route_policy` 8 for
it. The first one publishes: head 12 is out. The second one is told `conflict`, as what it was made from is over; it
looks again, finds nothing due, and is done. Neither head nor version has been used twice, and of the second one's
documents nothing remains.

One transaction for a batch, judged node by node: a node that lost its swap does not hold up the other 63.

Rejected:

- A lock on the node while it is compiled: a coordinator that stalls would hold it, and needs a timeout, which is a
  guess. Who loses again and again is compiled within the transaction instead (locked_batch.py).
- Accepting what was made from a generation that is over, to be made again at once: a halt, a revocation or a role that
  was taken away would each have to be found in what lies between, and one that is overlooked is told to a node after
  it was taken back.
- Leaving it to the database's isolation: SQLite and PostgreSQL refuse in different ways, and neither refusal says why.
- Keeping all heads: only the newest is ever handed out; history is the lines of `published`.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import bindparam, case, func, insert, select, update

from coordinator.base.refusal import Code, Refused
from coordinator.changes import records
from coordinator.changes.records import ChangeNode
from coordinator.database import cluster_state, documents, schema, scope_versions
from coordinator.database.database import Database, Transaction, is_in, is_named
from coordinator.database.documents import Document, HeadEntry
from coordinator.database.running_digests import UNDIGESTED
from coordinator.replicas.generations import repeats
from coordinator.reports import refusal_records
from coordinator.reports.checkin import PublishedHead
from coordinator.reports.refusal_records import RefusalOutcome
from snapshot.envelope import SNAPSHOT

MOST_SCOPES = 500  # in one statement
MOST_SOUGHT = 64  # lines that are looked for in a text, one by one

# Made once, for all batches: making a statement costs as much as running it.
_nodes, _heads, _published = schema.nodes, schema.heads, schema.published
_BEHIND = (
    select(_nodes.c.node_id, _heads.c.expires_at)
    .select_from(_nodes.outerjoin(_heads, _nodes.c.node_id == _heads.c.node_id))
    .where(_nodes.c.published < _nodes.c.generation)
)
_PAST = (
    select(_heads.c.node_id, _heads.c.refresh_after, _heads.c.expires_at)
    .select_from(_heads.join(_nodes, _nodes.c.node_id == _heads.c.node_id))
    .where(_heads.c.refresh_after <= bindparam("at"))
)
_OUT = (
    select(
        _nodes.c.node_id,
        _nodes.c.generation,
        _heads.c.authority_epoch,
        _heads.c.generation.label("published"),
        _heads.c.snapshot_id,
    )
    .select_from(_nodes.outerjoin(_heads, _nodes.c.node_id == _heads.c.node_id))
    .where(is_named(_nodes.c.node_id))
)
_TEXTS = select(_heads.c.node_id, _heads.c.listing, _heads.c.candidates).where(is_named(_heads.c.node_id))
_NOTHING_LISTED = ("{}", "{}")
_LINE = (_published.c.node_id, _published.c.scope, _published.c.authority_epoch)
_LAST = (
    select(
        *_LINE,
        func.max(_published.c.config_version).label("numbered"),
        func.max(case((_published.c.is_candidate, 0), else_=_published.c.config_version)).label("listed"),
    )
    .where(is_named(_published.c.node_id))
    .group_by(*_LINE)
)
_LAST_OF_SCOPES = _LAST.where(_published.c.scope.in_(bindparam("scopes", expanding=True)))
_OF_NUMBERS = select(*_LINE, _published.c.config_version, _published.c.content_hash).where(
    is_named(_published.c.node_id), _published.c.config_version.in_(bindparam("numbers", expanding=True))
)
_PUBLISHED = insert(_published)
_ANNOUNCED_AGAIN = (
    update(_published)
    .where(
        _published.c.node_id == bindparam("node"),
        _published.c.scope == bindparam("of_scope"),
        _published.c.authority_epoch == bindparam("epoch"),
        _published.c.config_version == bindparam("version"),
    )
    .values(snapshot_id=bindparam("document"))
    .execution_options(**UNDIGESTED)
)
_LISTED_AGAIN = _ANNOUNCED_AGAIN.values(is_candidate=False)
_RENEWING = ("authority_epoch", "generation", "snapshot_id", "refresh_after", "expires_at")
_RENEWED = (
    update(schema.heads)
    .where(schema.heads.c.node_id == bindparam("node"))
    .values({schema.heads.c[name]: bindparam(name) for name in _RENEWING})
)
_NUMBERED = (
    update(schema.nodes)
    .where(schema.nodes.c.node_id == bindparam("node"))
    .values(generation=bindparam("number"), published=bindparam("number"))
    .execution_options(**UNDIGESTED)
)
_ISSUED = update(schema.cluster).values(last_issued_at=bindparam("latest"))

Pair = tuple[int, int]
Numbered = tuple[str, Pair]
"""A scope that nodes may share, and a new version of it."""
NOTHING: "Mapping[Numbered, Document]" = {}


class Basis(NamedTuple):
    """What a publication was made from: the swap is against exactly this (rules K21)."""

    generation: int  # of the node's entry: raised by every change that touches it
    published: int  # generation of the head that is out; 0 for none


@dataclass(frozen=True)
class Publication:
    """One node's next head, with the documents that it announces and that are not kept yet. `texts`: what it lists and
    what is coming as they are kept, where that was written out already. `same_as`: the id of the head before it, where
    that lists and announces the same, but for the scopes `but`, which it lists otherwise.
    """

    node_id: str
    based_on: Basis
    head: Document
    refresh_after: int
    listing: Mapping[str, HeadEntry]  # scope -> what the node should hold
    candidates: Mapping[str, HeadEntry] = field(default_factory=dict)  # scope -> what is coming
    texts: tuple[str, str] | None = None
    same_as: str | None = None
    but: tuple[str, ...] = ()
    documents: tuple[Document, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)  # scope -> the counter that a new version was made from
    outcomes: tuple[RefusalOutcome, ...] = ()
    rows: tuple[ChangeNode, ...] = ()  # of changes that are to know of the node from now on


def bases(transaction: Transaction, node_ids: Sequence[str] | None = None) -> dict[str, Basis]:
    """Of every entry, or of some. Read it in the transaction that reads the model: nothing can slip in between then."""
    nodes, heads = schema.nodes, schema.heads
    joined = nodes.outerjoin(heads, nodes.c.node_id == heads.c.node_id)
    columns = select(nodes.c.node_id, nodes.c.generation, heads.c.generation.label("published"))
    chosen = columns.select_from(joined)
    rows = transaction.rows(chosen if node_ids is None else chosen.where(is_in(nodes.c.node_id, node_ids)))
    return {row.node_id: Basis(row.generation, row.published or 0) for row in rows}


def due(transaction: Transaction, now: float, *, round_s: float = 0, most: int = 0) -> list[str]:
    """Members whose head is missing, behind their generation, or past its `refresh_after`; those without one first,
    and then whose head ends first. Asked each second, and after each change: by indexes, of those alone that are behind
    or past it.

    Where one is past it, those that will be within `round_s` come along, the first of them, until there are `most`: a
    small fleet is renewed by the batch, and not by a transaction for each node.
    """
    ends = {node_id: end or 0 for node_id, end in map(tuple, transaction.rows(_BEHIND))}
    rows = map(tuple, transaction.rows(_PAST, {"at": now + round_s}))
    soon = sorted((at, node_id, end) for node_id, at, end in rows if node_id not in ends)
    ends |= {node_id: end for at, node_id, end in soon if at <= now}
    if soon and soon[0][0] <= now:
        early = [(node_id, end) for at, node_id, end in soon if at > now]
        ends |= dict(early[: max(0, most - len(ends))])
    return sorted(ends, key=lambda node_id: (ends[node_id], node_id))


def publish(database: Database, publications: Sequence[Publication], *, actor: str, now: float) -> dict[str, Refused]:
    """Publish for each node or for none of it; the refusals by node id, empty when all went out.

    One transaction for all: a node that lost its swap (`conflict`: compile again) does not hold up the others.
    """
    with database.change(actor=actor, now=now, after_move=True) as transaction:
        return publish_within(transaction, publications)


def publish_within(transaction: Transaction, publications: Sequence[Publication]) -> dict[str, Refused]:
    """The same, in a change that is open already."""
    if len({publication.node_id for publication in publications}) < len(publications):
        raise ValueError("one publication for each node")
    refusals: dict[str, Refused] = {}
    accepted: list[_Accepted] = []
    numbered: dict[Numbered, bytes] = {}
    cluster_state.sound(transaction)
    out = _read_out(transaction, [publication.node_id for publication in publications])
    others = [publication.node_id for publication in publications if not _is_same(publication, out)]
    found = _find_changed(publications, out, _read_texts(transaction, others))
    read = _read(transaction, found, out)
    for changed in found:
        try:
            candidate = _accept(transaction, changed, read)
            _check_numbers(candidate, numbered)
        except Refused as refused:
            refusals[changed.publication.node_id] = refused
        else:
            accepted.append(candidate)
            if candidate.new:
                numbered |= _numbers(candidate)
    _write(transaction, accepted, read)
    latest = max([read.standing.last_issued_at, *(candidate.publication.head.issued_at for candidate in accepted)])
    transaction.run(_ISSUED, [{"latest": latest}])
    subject = publications[0].node_id if len(publications) == 1 else f"{len(publications)} nodes"
    transaction.audit("publish", subject, None, {"refused": sorted(refusals)})
    return refusals


def published_head(transaction: Transaction, node_id: str) -> PublishedHead | None:
    row = transaction.row(select(schema.heads).where(schema.heads.c.node_id == node_id))
    return None if row is None else PublishedHead(row.authority_epoch, row.generation, row.refresh_after)


class LastVersions(NamedTuple):
    """The greatest (epoch, version) of a scope, ever; and of those that were listed, not only announced as coming."""

    numbered: Pair
    listed: Pair


NEVER = LastVersions((0, 0), (0, 0))


def last_versions(
    transaction: Transaction, node_ids: Sequence[str], scopes: Sequence[str] | None = None
) -> dict[str, dict[str, LastVersions]]:
    """By node and scope: of all scopes, or of some."""
    asked = {"named": node_ids} if scopes is None else {"named": node_ids, "scopes": scopes}
    found: dict[str, dict[str, LastVersions]] = defaultdict(dict)
    rows = transaction.rows(_LAST if scopes is None else _LAST_OF_SCOPES, asked)
    for node_id, scope, epoch, numbered, listed in map(tuple, rows):
        before = found[node_id].get(scope, NEVER)
        of_epoch = (epoch, listed) if listed else (0, 0)
        found[node_id][scope] = LastVersions(max((epoch, numbered), before.numbered), max(of_epoch, before.listed))
    return found


class _Line(NamedTuple):
    """A version of a scope as a publication announces it."""

    scope: str
    entry: HeadEntry
    is_candidate: bool


class _Changed(NamedTuple):
    """The lines that a publication announces, and its node's last head did not. `listing`, `candidates`: as text;
    `is_renewal`: both are those of the head that is out.
    """

    publication: Publication
    listing: str
    candidates: str
    lines: tuple[_Line, ...]
    is_renewal: bool


@dataclass(frozen=True)
class _Read:
    """What publications are held against; read once for all of them, and only of what they change."""

    standing: cluster_state.ClusterState
    out: Mapping[str, "_HeadOut"]
    last: Mapping[str, Mapping[str, LastVersions]]
    on_record: Mapping[tuple[str, str, Pair], str]  # node, scope, version -> content hash: of what is announced now
    kept: set[str]
    sections: set[str]  # keys of those that documents name, as far as they are kept
    counters: Mapping[str, int]  # of the scopes that nodes may share
    changes: frozenset[int]  # those that nodes may have rows of


class _Accepted(NamedTuple):
    """A publication that may go out, and its lines that are not on record yet or name another document."""

    publication: Publication
    changed: _Changed
    new: tuple[_Line, ...]
    again: tuple[_Line, ...]


class _HeadOut(NamedTuple):
    """An entry, and the head that is out for it."""

    basis: Basis
    pair: Pair
    snapshot_id: str | None


def _read_out(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, _HeadOut]:
    """By node; strangers are left out."""
    found: dict[str, _HeadOut] = {}
    for chunk in documents.chunks(node_ids):
        rows = transaction.rows(_OUT, {"named": chunk})
        for node_id, generation, epoch, published, snapshot_id in map(tuple, rows):
            pair = (epoch or 0, published or 0)
            found[node_id] = _HeadOut(Basis(generation, published or 0), pair, snapshot_id)
    return found


def _find_changed(
    publications: Sequence[Publication], out: Mapping[str, _HeadOut], texts: Mapping[str, tuple[str, str]]
) -> list[_Changed]:
    """Most heads list what the one before them did, and a text is compared in no time. `texts`: by node, what that
    lists and announces, of those that do not say that they are the same.
    """
    found = []
    for publication in publications:
        listing, candidates = publication.texts or (
            documents.listing_text(publication.listing),
            documents.listing_text(publication.candidates),
        )
        if _is_same(publication, out):
            amended = tuple(_Line(scope, publication.listing[scope], is_candidate=False) for scope in publication.but)
            found.append(_Changed(publication, listing, candidates, amended, is_renewal=not amended))
            continue
        before = texts.get(publication.node_id, _NOTHING_LISTED)
        lines: list[_Line] = []
        if listing != before[0]:
            lines += _changed_lines(publication.listing, before[0], is_candidate=False)
        if candidates != before[1]:
            lines += _changed_lines(publication.candidates, before[1], is_candidate=True)
        is_renewal = publication.node_id in texts and (listing, candidates) == before
        found.append(_Changed(publication, listing, candidates, tuple(lines), is_renewal))
    return found


def _is_same(publication: Publication, out: Mapping[str, _HeadOut]) -> bool:
    """Whether it lists what the head that is out does: of one that is out no more, nobody knows."""
    before = out.get(publication.node_id)
    return publication.same_as is not None and before is not None and before.snapshot_id == publication.same_as


def _read_texts(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """By node, what its head lists and what it announces, as text."""
    return {
        node_id: (listing, candidates)
        for chunk in documents.chunks(node_ids)
        for node_id, listing, candidates in map(tuple, transaction.rows(_TEXTS, {"named": chunk}))
    }


def _changed_lines(entries: Mapping[str, HeadEntry], text_before: str, *, is_candidate: bool) -> Iterator[_Line]:
    """A name has no quote, and an entry is written in one way: what stands in the text is a member of it. To look for
    very many would cost their square: then the text is read.
    """
    if len(entries) > MOST_SOUGHT:
        before = json.loads(text_before)
        changed = (scope for scope, entry in entries.items() if before.get(scope) != vars(entry))
    else:
        changed = (scope for scope, entry in entries.items() if f'"{scope}":{entry.text}' not in text_before)
    return (_Line(scope, entries[scope], is_candidate) for scope in changed)  # of our own writing


def _read(transaction: Transaction, changed: Sequence[_Changed], out: Mapping[str, _HeadOut]) -> _Read:
    """Of these nodes alone: what one node's change costs does not grow with the fleet."""
    publications = [candidate.publication for candidate in changed]
    named = {line.entry.snapshot_id for candidate in changed for line in candidate.lines}
    joining = any(publication.rows for publication in publications)
    return _Read(
        standing=cluster_state.standing(transaction),
        out=out,
        last=_last(transaction, changed),
        on_record=_on_record(transaction, changed),
        kept=documents.existing_ids(transaction, named),
        sections=documents.existing_keys(
            transaction, documents.keys_of(made for publication in publications for made in publication.documents)
        ),
        counters=scope_versions.read(
            transaction, {scope for publication in publications for scope, _ in _snapshots_to_count(publication)}
        ),
        changes=frozenset(record.change_id for record in (records.standing_changes(transaction) if joining else ())),
    )


def _last(transaction: Transaction, changed: Sequence[_Changed]) -> dict[str, dict[str, LastVersions]]:
    """Of the scopes of lines that change; where those are too many for a statement, of all."""
    named = sorted({line.scope for candidate in changed for line in candidate.lines})
    scopes = named if len(named) <= MOST_SCOPES else None
    found: dict[str, dict[str, LastVersions]] = {}
    for chunk in documents.chunks([candidate.publication.node_id for candidate in changed if candidate.lines]):
        found |= last_versions(transaction, chunk, scopes)
    return found


def _on_record(transaction: Transaction, changed: Sequence[_Changed]) -> dict[tuple[str, str, Pair], str]:
    """Lines with the version numbers that are announced anew, of any of the nodes: few more than are asked for."""
    numbers = sorted({line.entry.config_version for candidate in changed for line in candidate.lines})
    return {
        (node_id, scope, (epoch, version)): content_hash
        for chunk in documents.chunks([candidate.publication.node_id for candidate in changed if candidate.lines])
        for some in documents.chunks(numbers)
        for node_id, scope, epoch, version, content_hash in map(
            tuple, transaction.rows(_OF_NUMBERS, {"named": chunk, "numbers": some})
        )
    }


def _accept(transaction: Transaction, changed: _Changed, read: _Read) -> _Accepted:
    """Refused `conflict` for what may not go out; nothing has been written then. What was announced before is kept."""
    each = changed.publication
    _check_basis(each, read)
    for document in (*each.documents, each.head):
        if document.issued_at < read.standing.last_issued_at:
            raise Refused(Code.CONFLICT, f"issued_at {document.issued_at} is behind the last one")  # rules K47
        if document.authority_epoch > read.standing.authority_epoch:
            raise Refused(Code.CONFLICT, f"epoch {document.authority_epoch} was not announced")
    if not (each.documents or each.rows or changed.lines):  # as most heads are
        return _Accepted(each, changed, (), ())
    brought = {document.snapshot_id for document in each.documents}
    missing = {line.entry.snapshot_id for line in changed.lines} - brought - read.kept
    if missing:
        raise Refused(Code.CONFLICT, f"{min(missing)} is announced but not kept")
    if lost := documents.keys_of(each.documents) - read.sections:
        raise Refused(Code.CONFLICT, f"{min(lost)} is not kept any more", remedy="compile again")
    if over := {row.change_id for row in each.rows} - read.changes:
        raise Refused(Code.CONFLICT, f"change {min(over)} is over", remedy="compile again")
    known = {line: _is_known(transaction, each, line, read) for line in changed.lines}
    new = tuple(line for line in changed.lines if not known[line])
    _check_counters(each, new, read)
    return _Accepted(each, changed, new, tuple(line for line in changed.lines if known[line]))


def _snapshots_to_count(each: Publication) -> Mapping[Numbered, Document]:
    """The snapshots that come with it of scopes that nodes may share."""
    if not each.documents:
        return NOTHING
    return {
        (document.scope, (document.authority_epoch, document.config_version)): document
        for document in each.documents
        if document.kind == SNAPSHOT and scope_versions.is_counted(document.scope)
    }


def _check_counters(each: Publication, new: Sequence[_Line], read: _Read) -> None:
    for scope, made_from in each.counted.items():
        if read.counters.get(scope, 0) != made_from:
            detail = f"{scope} was numbered from {made_from}, now {read.counters.get(scope, 0)}"
            raise Refused(Code.CONFLICT, detail, remedy="compile again")
    brought = _snapshots_to_count(each)
    for scope, entry, _ in new:
        is_counted = (scope, entry.pair) in brought and entry.snapshot_id not in read.kept
        if is_counted and entry.config_version <= read.counters.get(scope, 0):
            raise Refused(Code.CONFLICT, f"{scope} {entry.pair} is another node's, or may be")


def _numbers(candidate: _Accepted) -> dict[Numbered, bytes]:
    """The envelopes of the new versions that come with it; each says what its document holds, and for whom."""
    if not candidate.new:
        return {}
    brought = _snapshots_to_count(candidate.publication)
    numbered = ((scope, entry.pair) for scope, entry, _ in candidate.new)
    return {number: brought[number].envelope for number in numbered if number in brought}


def _check_numbers(candidate: _Accepted, numbered: Mapping[Numbered, bytes]) -> None:
    """Counters are read once for a batch, so two of its nodes could come with the same number for two documents."""
    for (scope, pair), signed in _numbers(candidate).items():
        if numbered.get((scope, pair), signed) != signed:
            detail = f"{scope} {pair} is another document with another node of this batch"
            raise Refused(Code.CONFLICT, detail, remedy="compile again")


def _check_basis(each: Publication, read: _Read) -> None:
    out = read.out.get(each.node_id)
    latest = None if out is None else out.basis
    if out is None or latest is None or latest != each.based_on:
        raise Refused(Code.CONFLICT, f"made from {each.based_on}, now {latest}", remedy="compile again")
    before, pair = out.pair, (each.head.authority_epoch, each.head.config_version)
    if pair <= before or each.head.config_version < latest.generation:
        raise Refused(Code.CONFLICT, f"head {pair} does not follow {before} and generation {latest.generation}")
    if repeats(before, pair):
        raise Refused(Code.CONFLICT, f"head {pair} is kept for {before} to be signed again")


def _is_known(transaction: Transaction, each: Publication, line: _Line, read: _Read) -> bool:
    """Whether this version is on record, with this content; Refused where it is another one, or goes back.

    One content under one version; a lower version only where a recovery allows it (rules S86, S87). What was a
    candidate may be listed, as long as nothing newer was; what is a candidate lies above what is listed beside it.
    """
    scope, entry, is_candidate = line
    recorded = read.on_record.get((each.node_id, scope, entry.pair))
    if recorded not in (None, entry.content_hash):
        raise Refused(Code.CONFLICT, f"{scope} {entry.pair} was published with another content")
    last = read.last.get(each.node_id, {}).get(scope, NEVER)
    behind = last.listed if recorded is not None else last.numbered
    if entry.pair < behind and (
        is_candidate or not _is_recovered(transaction, each.node_id, scope, last.listed, entry)
    ):
        raise Refused(Code.CONFLICT, f"{scope} {entry.pair} is below {behind}, and no recovery allows it")
    beside = each.listing.get(scope)
    if is_candidate and beside is not None and entry.pair <= beside.pair:
        raise Refused(Code.CONFLICT, f"{scope} {entry.pair} is to come after {beside.pair}")
    return recorded is not None


def _is_recovered(transaction: Transaction, node_id: str, scope: str, last: tuple[int, int], entry: HeadEntry) -> bool:
    table = schema.recoveries
    allowed = select(table.c.nonce).where(
        table.c.node_id == node_id,
        table.c.scope == scope,
        table.c.from_config_version == last[1],
        table.c.to_config_version == entry.config_version,
        table.c.to_content_hash == entry.content_hash,
    )
    return entry.authority_epoch == last[0] and transaction.row(allowed) is not None


def _write(transaction: Transaction, accepted: Sequence[_Accepted], read: _Read) -> None:
    """All of it with few statements: thousands of nodes may get a new head at once. Refusals come before heads, and
    both in the order of the key, as in a batch of reports, so that the two never wait for each other.
    """
    publications = [candidate.publication for candidate in accepted]
    refusal_records.settle(transaction, [outcome for publication in publications for outcome in publication.outcomes])
    documents.insert_documents(
        transaction, [document for publication in publications for document in publication.documents]
    )
    replaced = [(publication.head, read.out[publication.node_id].snapshot_id) for publication in publications]
    documents.put_heads(transaction, replaced)
    records.add_nodes(transaction, [row for publication in publications for row in publication.rows], keep=True)
    scope_versions.advance(transaction, _counters(accepted))
    _write_heads(transaction, [candidate.changed for candidate in accepted])
    _write_entries(transaction, accepted)
    rows = [{"node": publication.node_id, "number": publication.head.config_version} for publication in publications]
    transaction.run_many(_NUMBERED, rows)


def _write_heads(transaction: Transaction, written: Sequence[_Changed]) -> None:
    """In the order of the key, though it takes two statements; mostly all are renewals, or none is."""
    ordered = sorted(written, key=lambda changed: changed.publication.node_id)
    for renews, some in groupby(ordered, key=lambda changed: changed.is_renewal):
        if renews:
            transaction.run_many(_RENEWED, [_renewal_row(changed.publication) for changed in some])
        else:
            transaction.put(schema.heads, [_head_row(changed) for changed in some])


def _counters(accepted: Sequence[_Accepted]) -> dict[str, int]:
    """As they stand after these, where that is another number."""
    found: dict[str, int] = {}
    for candidate in accepted:
        for scope, (_, version) in _numbers(candidate):
            found[scope] = max(found.get(scope, 0), version)
    return found


def _write_entries(transaction: Transaction, accepted: Sequence[_Accepted]) -> None:
    rows = [
        {
            "node_id": candidate.publication.node_id,
            "scope": line.scope,
            **vars(line.entry),
            "published_at": transaction.now,
            "is_candidate": line.is_candidate,
        }
        for candidate in accepted
        for line in candidate.new
    ]
    transaction.run_many(_PUBLISHED, rows)
    for statement, are_candidates in ((_ANNOUNCED_AGAIN, True), (_LISTED_AGAIN, False)):
        again = [
            {"node": candidate.publication.node_id, **_key_of(line)}
            for candidate in accepted
            for line in candidate.again
            if line.is_candidate is are_candidates
        ]
        transaction.run(statement, again)  # it replaces what is handed out, no more


def _key_of(line: _Line) -> dict[str, object]:
    entry = line.entry
    about = {"of_scope": line.scope, "document": entry.snapshot_id}
    return {**about, "epoch": entry.authority_epoch, "version": entry.config_version}


def _renewal_row(each: Publication) -> dict[str, object]:
    """What is another one in the row of a head that lists what the one before it did."""
    return {
        "node": each.node_id,
        "authority_epoch": each.head.authority_epoch,
        "generation": each.head.config_version,
        "snapshot_id": each.head.snapshot_id,
        "refresh_after": each.refresh_after,
        "expires_at": each.head.expires_at,
    }


def _head_row(changed: _Changed) -> dict[str, object]:
    """All of a row."""
    row = _renewal_row(changed.publication)
    return {"node_id": row.pop("node"), **row, "listing": changed.listing, "candidates": changed.candidates}

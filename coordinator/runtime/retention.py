"""What goes with time: spent nonces, expired tokens, old events, audit rows, ended changes, and superseded documents
(rules, Numbers).

`trim` is one transaction, after some for old events, and may run as often as one likes. It never touches what a head
announces, what a node reports to have active (it may have to be signed for it again: standing_refusals.py), the last
version of any scope, tombstones, trust bundles or recoveries; nor the contents of files that a node goes by still,
whatever is declared by now: what was replaced stays as long as a change keeps anybody back from what replaced it, and
as long as increments do after that, so that a change can be taken back.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import delete, func, select

from coordinator.base.byte_order import ByteOrder
from coordinator.base.settings import CLOCK_SKEW_S, DAY, CoordinatorSettings
from coordinator.changes import undoing
from coordinator.database import catalog, documents, history, history_check, journals, schema, uploads
from coordinator.database.continuity import LinkMark, link_at
from coordinator.database.database import Database, Transaction
from coordinator.declared.kinds import Config

UPLOADS_KEPT_S = DAY


def trim(database: Database, *, now: float, settings: CoordinatorSettings) -> Mapping[str, int]:
    """Rows taken away, by table."""
    events = _events(database, now, now - settings.event_history_s)
    with database.change(actor="coordinator", now=now, after_move=True) as transaction:
        audited, upto = _audit(transaction, now - settings.audit_history_s)
        gone = {
            "used_nonces": _older(transaction, "used_nonces", "expires_at", now),
            "tokens": _older(transaction, "tokens", "expires_at", now - CLOCK_SKEW_S),
            "token_uses": _uses_of_none(transaction),
            "events": events,
            **audited,
            "changes": _changes(transaction, now - settings.audit_history_s),
            "documents": _documents(transaction, now, settings),
            "published": _prune_published(transaction, now, settings),
            "uploads": _uploads(transaction, now - UPLOADS_KEPT_S, now - settings.increment_history_s),
            "objects": _objects(transaction),
        }
        said = {} if upto is None else {"history": vars(upto)}
        transaction.audit(history_check.TRIM, "database", None, {**gone, **said})
        return gone


def _older(transaction: Transaction, name: str, column: str, limit: float) -> int:
    table = schema.metadata.tables[name]
    return transaction.run(delete(table).where(table.c[column] < limit))


def _audit(transaction: Transaction, limit: float) -> tuple[Mapping[str, int], LinkMark | None]:
    """Rows that no history proves, by their time. Of a history whole links from the oldest on, with all their rows; and
    up to which one, which the caller's audit row has to say. The newest link stays, whatever its age.
    """
    if transaction.link is None:
        return {"audit": _older(transaction, "audit", "at", limit)}, None
    table, links = schema.audit, schema.transitions
    first_kept = transaction.number(
        select(func.min(table.c.link)).where(table.c.link < transaction.link, table.c.at >= limit)
    )
    last = (first_kept or transaction.link - 1) - 1
    named = link_at(transaction, last)
    if named is None:
        return {"audit": 0, "links": 0}, None
    history.forget_links(transaction, last)
    gone = transaction.run(delete(table).where(table.c.link <= last))
    trimmed = transaction.run(delete(links).where(links.c.number <= last))
    return {"audit": gone, "links": trimmed}, LinkMark(last, named)


def _uses_of_none(transaction: Transaction) -> int:
    tokens, table = schema.tokens, schema.token_uses
    return transaction.run(delete(table).where(table.c.jti.not_in(select(tokens.c.jti))))


def _events(database: Database, now: float, limit: float) -> int:
    """Old ones, and those of nodes whose share has become smaller since they reported. A report trims a journal too: so
    what is known of a node is locked here as well, of a few nodes at a time, and reports do not wait for all the rest.
    """
    table, status = schema.events, schema.node_status
    with database.read() as transaction:
        most = journals.share(transaction)
        old = transaction.rows(select(table.c.node_id).where(table.c.received_at < limit).distinct())
        many = transaction.rows(select(table.c.node_id).group_by(table.c.node_id).having(func.count() > most))
    gone, own = 0, select(status.c.node_id).order_by(ByteOrder(status.c.node_id)).with_for_update()
    for chunk in documents.chunks(sorted({row.node_id for row in (*old, *many)})):
        with database.record(now=now) as transaction:
            transaction.rows(own.where(status.c.node_id.in_(chunk)))
            gone += transaction.run(delete(table).where(table.c.node_id.in_(chunk), table.c.received_at < limit))
            gone += journals.trim_events(transaction, {row.node_id for row in many}.intersection(chunk))
    return gone


def _changes(transaction: Transaction, limit: float) -> int:
    """Those that ended before, with their timelines and approvals, and are older than all that is not over or holds a
    node: so no row that stands in the place of another is missed, and numbers do not come again.
    """
    changes, nodes = schema.changes, schema.change_nodes
    is_open = changes.c.settled_at.is_(None)
    first = select(func.min(changes.c.change_id)).where(is_open).scalar_subquery()
    holds = select(func.min(nodes.c.change_id)).scalar_subquery()
    last = select(func.max(changes.c.change_id)).scalar_subquery()
    taken_back = select(changes.c.reverts).where(is_open, changes.c.reverts.is_not(None))
    ended = select(changes.c.change_id).where(changes.c.settled_at < limit, changes.c.change_id < last)
    before = ended.where(
        changes.c.change_id < func.coalesce(first, last), changes.c.change_id < func.coalesce(holds, last)
    )
    old = [row.change_id for row in transaction.rows(before.where(changes.c.change_id.not_in(taken_back)))]
    for chunk in documents.chunks(old):
        for table in (schema.change_events, schema.change_approvals, changes):
            transaction.run(delete(table).where(table.c.change_id.in_(chunk)))
    return len(old)


def _documents(transaction: Transaction, now: float, settings: CoordinatorSettings) -> int:
    """Snapshots that no head announces, and increments past 7 days or 64 versions, whichever is less. Of a scope that
    nodes share there are as many lines of versions as different documents are announced, and all have one counter.
    """
    announced = {
        entry.snapshot_id
        for heads in (documents.listings(transaction), documents.candidates(transaction))
        for entries in heads.values()
        for entry in entries.values()
    }
    table = schema.documents
    columns = (table.c.snapshot_id, table.c.kind, table.c.subject, table.c.scope)
    ordered = (table.c.authority_epoch.desc(), table.c.config_version.desc(), table.c.published_at.desc())
    chosen = select(*columns, table.c.published_at).where(
        table.c.kind.in_(("snapshot", "increment")), table.c.scope != documents.TRUST_BUNDLE
    )
    rows = transaction.rows(chosen.order_by(*ordered))
    lines = Counter((row.subject, row.scope) for row in rows if row.snapshot_id in announced)
    seen: dict[tuple[str, str, str], int] = defaultdict(int)
    gone: dict[str, set[str]] = defaultdict(set)  # by subject
    for row in rows:
        line = (row.subject, row.scope, row.kind)
        seen[line] += 1
        is_old = now - row.published_at > settings.increment_history_s
        is_far = seen[line] > settings.increment_history_versions * max(1, lines[row.subject, row.scope])
        if row.snapshot_id not in announced and (is_old or is_far):
            gone[row.subject].add(row.snapshot_id)
    left = set().union(*gone.values()) - _active(transaction, gone)
    documents.forget(transaction, sorted(left))
    return len(left)


def _active(transaction: Transaction, gone: Mapping[str, Collection[str]]) -> set[str]:
    """Those of the documents that a node has: of its own, and of everybody's."""
    shared = gone.get(documents.EVERYBODY, ())
    found: set[str] = set()
    for node_id, body in _reports(transaction, sorted(gone), everybody=bool(shared)):
        scopes = json.loads(body)["scopes"].values()  # only what `heartbeat_form.parse` took is kept
        active = {scope["active"].get("snapshot_id") for scope in scopes if scope["active"] is not None}
        found |= {*gone.get(node_id, ()), *shared} & active
    return found


def _reports(transaction: Transaction, node_ids: Sequence[str], *, everybody: bool) -> Iterator[tuple[str, str]]:
    table = schema.node_status
    chosen = select(table.c.node_id, table.c.body)
    parts = (
        [chosen] if everybody else [chosen.where(table.c.node_id.in_(chunk)) for chunk in documents.chunks(node_ids)]
    )
    for part in parts:
        yield from ((row.node_id, row.body) for row in transaction.rows(part))


def _prune_published(transaction: Transaction, now: float, settings: CoordinatorSettings) -> int:
    """Old rows whose document is gone, but never a scope's last version: numbers do not come again. Nor the last that
    was listed, where a candidate has a greater number: it is what a node may come back with.
    """
    table = schema.published
    last = (
        select(table.c.node_id, table.c.scope, func.max(table.c.config_version).label("version"))
        .group_by(table.c.node_id, table.c.scope, table.c.authority_epoch, table.c.is_candidate)
        .subquery()
    )
    is_last = (
        select(last.c.version)
        .where(last.c.node_id == table.c.node_id, last.c.scope == table.c.scope)
        .where(last.c.version == table.c.config_version)
        .exists()
    )
    is_kept = (
        select(schema.documents.c.snapshot_id).where(schema.documents.c.snapshot_id == table.c.snapshot_id).exists()
    )
    old = table.c.published_at < now - settings.increment_history_s
    return transaction.run(delete(table).where(old, ~is_last, ~is_kept))


def _uploads(transaction: Transaction, limit: float, settled_since: float) -> int:
    """Those that no Config names, nor did one before a change that stands or is over since then, and that nobody has
    asked for of late: who is about to apply has just asked.
    """
    table = schema.uploads
    old = {row.object_key for row in transaction.rows(select(table.c.object_key).where(table.c.asked_at < limit))}
    if old:
        named = {part for config in catalog.load(transaction).of(Config) for part in config.parts}
        old -= set(map(documents.section_key, named | undoing.parts_before(transaction, settled_since)))
    gone = 0
    for chunk in documents.chunks(sorted(old)):
        uploads.lock(transaction, chunk)
        gone += transaction.run(delete(table).where(table.c.object_key.in_(chunk), table.c.asked_at < limit))
    return gone


def _objects(transaction: Transaction) -> int:
    """Sections that no document and no upload refers to any more."""
    table = schema.objects
    is_used = [
        select(refers.c.object_key).where(refers.c.object_key == table.c.key).exists()
        for refers in (schema.document_sections, schema.uploads)
    ]
    is_section = table.c.key.like(f"{documents.SECTIONS}/%")
    return transaction.run(delete(table).where(is_section, *(~used for used in is_used)))

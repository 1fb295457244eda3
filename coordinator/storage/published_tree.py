"""What the published tree holds: which file is which document. static_tree.py writes it, others keep stores to it.

    trust/<version>.hfs                                      the trust bundles
    documents/<sha256 of the id>.hfs                         each document that a head announces, also as coming
    increments/<sha256 of the target's id, LF, base>.hfs     from that version of its scope to that document
    recoveries/<sha256 of the node's id, LF, scope>.hfs      the newest one for a node and scope
    heads/<sha256 of the node's id>.hfs                      each node's head

The names are hashes of ids, so that a listing tells nobody who the nodes are. An increment is named by what it leads
to, so that nodes which share a document share it, too, and no base stands for two of them.

What is read of a head is remembered by the head: a look costs what has changed since the one before, and one row for
each node. It is one view of the database: a head and all that it announces are of one moment.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from coordinator.database import cluster_state, documents, schema
from coordinator.database.database import Database, Transaction, is_in
from coordinator.database.documents import EVERYBODY, TRUST_BUNDLE, HeadEntry
from snapshot.envelope import INCREMENT
from snapshot.identifiers import HEAD
from snapshot.roles import ESTABLISHING

SUFFIX = ".hfs"
FOLDERS = (TRUST, DOCUMENTS, INCREMENTS, RECOVERIES, HEADS) = (
    *("trust", "documents", "increments", "recoveries"),
    "heads",
)
"""In the order in which they are written: what a head announces is there before it."""

NO_ORGANIZATIONS: frozenset[str] = frozenset()
Announced = tuple[str, HeadEntry]
"""A scope, and a version of it."""
LeadsTo = tuple[str, str, tuple[int, int], str]
"""A subject, a scope, a version of it, and the content."""


@dataclass(frozen=True)
class TreeFile:
    """`scope_type`: a snapshot's, also of what leads to it; `head` of a head. `organizations`: whose data is in it."""

    snapshot_id: str
    scope_type: str
    organizations: frozenset[str] = NO_ORGANIZATIONS


@dataclass(frozen=True)
class NodeFiles:
    """All that one node is given. `organizations`: those that it serves, as its own documents say."""

    head: TreeFile
    head_path: str
    organizations: frozenset[str]
    files: Mapping[str, TreeFile]


@dataclass(frozen=True)
class PublishedTree:
    """Of one moment."""

    nodes: Mapping[str, NodeFiles] = field(default_factory=dict)
    trust: Mapping[str, TreeFile] = field(default_factory=dict)


def name_of(identifier: str) -> str:
    """The file of a document or a node."""
    return hashlib.sha256(identifier.encode()).hexdigest() + SUFFIX


def document_path(snapshot_id: str) -> str:
    return f"{DOCUMENTS}/{name_of(snapshot_id)}"


def increment_path(target_id: str, base: int) -> str:
    return f"{INCREMENTS}/" + name_of(f"{target_id}\n{base}")


def head_path(node_id: str) -> str:
    return f"{HEADS}/{name_of(node_id)}"


def recovery_path(node_id: str, scope: str) -> str:
    return f"{RECOVERIES}/" + name_of(f"{node_id}\n{scope}")


class TreeReader:
    """Of one database; one look at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._nodes: dict[str, NodeFiles] = {}
        self._recoveries: dict[str, dict[str, TreeFile]] = {}
        self._known: dict[str, TreeFile] = {}  # snapshots that heads announce, by id

    def read(self) -> PublishedTree:
        """Refused `stale_state` where the database is known to be restored."""
        with self._database.read() as transaction:
            cluster_state.sound(transaction)
            heads = {
                row.node_id: row.snapshot_id
                for row in transaction.rows(select(schema.heads.c.node_id, schema.heads.c.snapshot_id))
            }
            recoveries = _recoveries(transaction)
            changed = [
                node_id
                for node_id, head_id in heads.items()
                if (known := self._nodes.get(node_id)) is None
                or known.head.snapshot_id != head_id
                or self._recoveries.get(node_id) != recoveries.get(node_id)
            ]
            nodes = {node_id: self._nodes[node_id] for node_id in heads if node_id in self._nodes}
            for chunk in documents.chunks(sorted(changed)):
                nodes |= self._read_nodes(transaction, chunk, heads, recoveries)
            trust = _trust(transaction)
        self._nodes, self._recoveries = nodes, recoveries
        names = {file.snapshot_id for node in nodes.values() for file in node.files.values()}
        self._known = {name: file for name, file in self._known.items() if name in names}
        return PublishedTree(nodes, trust)

    def _read_nodes(
        self,
        transaction: Transaction,
        node_ids: Sequence[str],
        heads: Mapping[str, str],
        recoveries: Mapping[str, Mapping[str, TreeFile]],
    ) -> dict[str, NodeFiles]:
        listed, coming = documents.listings(transaction, node_ids), documents.candidates(transaction, node_ids)
        entries = {
            node_id: [*_snapshots(listed.get(node_id, {})), *_snapshots(coming.get(node_id, {}))]
            for node_id in node_ids
        }
        wanted = {entry.snapshot_id for found in entries.values() for _, entry in found}
        self._known |= {
            name: TreeFile(name, envelope.scope_type, frozenset(envelope.organization_ids))
            for name, envelope in documents.envelopes(transaction, wanted - self._known.keys()).items()
        }
        increments = _increments(transaction, [announced for found in entries.values() for announced in found])
        return {
            node_id: self._files(node_id, entries[node_id], increments, heads[node_id], recoveries.get(node_id, {}))
            for node_id in node_ids
        }

    def _files(
        self,
        node_id: str,
        entries: Sequence[Announced],
        increments: Mapping[LeadsTo, Mapping[int, str]],
        head_id: str,
        recoveries: Mapping[str, TreeFile],
    ) -> NodeFiles:
        files: dict[str, TreeFile] = dict(recoveries)
        serves: frozenset[str] = NO_ORGANIZATIONS
        for scope, entry in entries:
            target = self._known[entry.snapshot_id]
            files[document_path(entry.snapshot_id)] = target
            if target.scope_type in ESTABLISHING:
                serves |= target.organizations
            for subject in (node_id, EVERYBODY):
                for base, name in increments.get((subject, scope, entry.pair, entry.content_hash), {}).items():
                    path = increment_path(entry.snapshot_id, base)
                    files[path] = TreeFile(name, target.scope_type, target.organizations)
        return NodeFiles(TreeFile(head_id, HEAD), head_path(node_id), serves, files)


def _snapshots(entries: Mapping[str, HeadEntry]) -> Iterator[Announced]:
    """Trust bundles have files of their own."""
    return ((scope, entry) for scope, entry in entries.items() if scope != TRUST_BUNDLE)


def _increments(transaction: Transaction, entries: Iterable[Announced]) -> dict[LeadsTo, dict[int, str]]:
    """Those that lead to what is announced: by subject, scope, version and content, and then by base."""
    table, found = schema.documents, defaultdict[LeadsTo, dict[int, str]](dict)
    by_scope: dict[str, set[str]] = defaultdict(set)
    for scope, entry in entries:
        by_scope[scope].add(entry.content_hash)
    columns = select(
        *(table.c.snapshot_id, table.c.subject, table.c.scope, table.c.base_config_version),
        *(table.c.authority_epoch, table.c.config_version, table.c.content_hash),
    ).where(table.c.kind == INCREMENT)
    for scope, hashes in by_scope.items():
        for chunk in documents.chunks(sorted(hashes)):
            mine = columns.where(table.c.scope == scope, is_in(table.c.content_hash, chunk))
            for row in transaction.rows(mine):
                key = row.subject, row.scope, (row.authority_epoch, row.config_version), row.content_hash
                found[key][row.base_config_version] = row.snapshot_id
    return found


def _recoveries(transaction: Transaction) -> dict[str, dict[str, TreeFile]]:
    """By node, the newest one for each scope: few, of days on which something had to go back."""
    table, kept = schema.recoveries, schema.documents
    joined = table.join(kept, table.c.snapshot_id == kept.c.snapshot_id)
    chosen = select(table.c.node_id, table.c.scope, table.c.snapshot_id).select_from(joined)
    found: dict[str, dict[str, TreeFile]] = defaultdict(dict)
    for row in transaction.rows(chosen.order_by(kept.c.published_at)):
        file = TreeFile(row.snapshot_id, row.scope.partition("/")[0])
        found[row.node_id][recovery_path(row.node_id, row.scope)] = file
    return found


def _trust(transaction: Transaction) -> dict[str, TreeFile]:
    table = schema.trust_bundles
    rows = transaction.rows(select(table.c.config_version, table.c.snapshot_id))
    return {f"{TRUST}/{row.config_version}{SUFFIX}": TreeFile(row.snapshot_id, TRUST_BUNDLE) for row in rows}

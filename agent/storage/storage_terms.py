"""What the signed, unexpired `storage_directory` says to this node as a store: read once for each version of it."""

from dataclasses import dataclass, field

from agent.state.node import RunningNode
from agent.storage import replication
from agent.storage.replication import ReplicationSource, parse_readers, parse_sources
from agent.storage.shard import StorageShard, parse_shards
from snapshot import canonical
from store.base.errors import StoreError

SCOPE, SHARDS = "storage_directory", "shards"


@dataclass(frozen=True)
class StorageTerms:
    """`readers`: of nodes that may list and copy, each certificate with the node's id."""

    shards: tuple[StorageShard, ...] = ()
    sources: tuple[ReplicationSource, ...] = ()
    readers: tuple[tuple[str, bytes], ...] = ()


@dataclass
class SignedTerms:
    node: RunningNode
    _read: tuple[str, StorageTerms] = field(default=("", StorageTerms()))

    def now(self) -> StorageTerms:
        """Nothing of a directory that has ended, or lies damaged here until it is fetched again."""
        document = self.node.holdings.kept.active.get(SCOPE)
        if document is None or self.node.now() >= document.envelope.expires_at:
            return StorageTerms()
        if self._read[0] != document.envelope_hash:
            names = (SHARDS, replication.SOURCES, replication.READERS)
            try:
                said = {name: canonical.loads(document.read(name)) for name in names if name in document.sections}
            except StoreError:
                return StorageTerms()
            terms = StorageTerms(
                parse_shards(said.get(SHARDS)),
                parse_sources(said.get(replication.SOURCES)),
                parse_readers(said.get(replication.READERS)),
            )
            self._read = document.envelope_hash, terms
        return self._read[1]

"""What one StorageEndpoint keeps of all that is published: its shard. Pure.

The nodes that are told of the endpoint: those that serve one of its organizations, or all. Of these the heads, and the
documents of its families, but none with data of another organization: a node that serves two of them finds at the
storage of one what is of that one alone, and the rest at another storage or a coordinator.

Left out, `organizations` and `families` leave nothing out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from coordinator.declared.kinds import StorageEndpoint
from coordinator.storage.published_tree import NodeFiles, PublishedTree, TreeFile
from coordinator.storage.upkeep import WantedFiles


@dataclass(frozen=True)
class Shard:
    """Empty: all of them."""

    organizations: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()

    @classmethod
    def of(cls, endpoint: StorageEndpoint) -> "Shard":
        return cls(frozenset(endpoint.organizations), frozenset(endpoint.families))

    def serves(self, node: NodeFiles) -> bool:
        return not self.organizations or not self.organizations.isdisjoint(node.organizations)

    def keeps(self, file: TreeFile) -> bool:
        is_of_family = not self.families or file.scope_type in self.families
        return is_of_family and (not self.organizations or file.organizations <= self.organizations)


def wanted_files(tree: PublishedTree, shard: Shard) -> WantedFiles:
    """Trust bundles are for all that verify anything."""
    files = {path: file.snapshot_id for path, file in tree.trust.items() if shard.keeps(file)}
    trust, needs = list(files), {}
    for node in filter(shard.serves, tree.nodes.values()):
        own = dict(_node_files(node, shard))
        needs[node.head_path] = [*trust, *own]
        files |= own
    files |= {node.head_path: node.head.snapshot_id for node in tree.nodes.values() if node.head_path in needs}
    return WantedFiles(files, needs)


def _node_files(node: NodeFiles, shard: Shard) -> Iterator[tuple[str, str]]:
    return ((path, file.snapshot_id) for path, file in node.files.items() if shard.keeps(file))

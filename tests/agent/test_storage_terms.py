"""What the signed directory says to a store, where it lies damaged on the disk."""

import pytest

from agent.storage.replication import SOURCES
from agent.storage.storage_terms import SCOPE, StorageTerms
from tests.agent.test_node import damage
from tests.agent.test_storage_listener import storage_lab

pytestmark = pytest.mark.usefixtures("mock_clock")


async def test_a_directory_that_cannot_be_read_says_nothing_and_ends_nothing(one, mock_clock):
    """threats D-26, rules J47: until it is fetched again nobody is copied from or let in by it, and files are served"""
    async with storage_lab(one) as made:
        section = {"replication_sources": {}, "shards": {"s1": {"url": "https://s.example:1"}}}
        document = made.bench.server.snapshot(section, SCOPE, roles=["core_mesh"])
        await made.bench.take(document)
        kept = made.bench.node.holdings.kept.active[SCOPE]
        terms = type(made.copier.taking.terms)(made.bench.node)
        name = f"sha256:{kept.sections[SOURCES].sha256}"
        whole = made.bench.node.store.get(name)
        damage(made.bench.node.store, name)
        assert terms.now() == StorageTerms()
        made.copier.taking.terms = terms
        await made.copier.round()
        assert await made.listing() == {}
        with made.bench.node.store._environment.write() as transaction:
            transaction.put("sections", bytes.fromhex(kept.sections[SOURCES].sha256), whole)
        assert len(terms.now().shards) == 1

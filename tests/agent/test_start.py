"""From the disk to a node that can be asked: what is damaged does not serve, and what serves has been verified."""

from pathlib import Path

import pytest
import trio

from store.base.disk import Disk
from store.base.environment import Environment
from store.base.errors import StoreError, StoreFault
from store.base.layout import Root
from tests.fakes.cluster import CLUSTER_ID
from tests.journeys.lab import lab

ROUTES = "route_policy"


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock) as made:
        async with made.agent():
            await made.until_active(ROUTES, 1)
            made.server.snapshot({"routes": {"south": {}}}, ROUTES)
            made.server.announce()
            await made.until_active(ROUTES, 2)
            await made.until(lambda: made.state == "active")
        yield made


def blob_of(one, scope, section):
    """The digest of an active section, and the store's folder."""
    entry = one.node.holdings.kept.active[scope].sections[section]
    return bytes.fromhex(entry.sha256), one.folder / "state" / "clusters" / CLUSTER_ID / "store"


def spoil(folder: Path, digest: bytes) -> None:
    """Other bytes under the same name, as bit rot leaves them (LMDB has no checksums)."""
    environment = Environment(folder, Disk(), 256 << 20)
    with environment.write() as transaction:
        for key, data in list(transaction.items("sections", digest)):
            transaction.put("sections", key, data[:-1] + bytes([data[-1] ^ 1]))
    environment.close()


async def test_a_damaged_active_falls_back_to_previous(one, mock_clock):
    """rules L34, L29, J47, A7, X18: previous serves, the mark stays, and the whole is fetched again"""
    digest, folder = blob_of(one, ROUTES, "routes")
    spoil(folder, digest)
    one.server.down = True
    async with one.agent():
        assert one.version(ROUTES) == 1
        assert one.mark(ROUTES) == (1, 2)
        assert (one.state, one.cause) == ("recovering", "running_on_previous")
        assert await one.get("v1", "scopes", ROUTES, "sections", "routes") == {"north": {"via": "a"}}
        one.server.down = False
        await one.until_active(ROUTES, 2)
        await one.until(lambda: one.state == "active")


async def test_a_damaged_bundle_is_fetched_again(one, mock_clock):
    """rules L34, S63: nothing is believed meanwhile that it does not vouch for"""
    digest, folder = blob_of(one, "trust_bundle", "keys")
    spoil(folder, digest)
    async with one.agent():
        await one.until(lambda: one.node.holdings.bundle is not None)
        await one.until(lambda: one.state == "active")
        assert one.version(ROUTES) == 2


async def test_damage_while_running_is_found_by_the_rounds(one, mock_clock):
    """rules S63; threats D-26: blobs are hashed again, and what is damaged does not serve"""
    async with one.agent():
        await one.until(lambda: one.state == "active")
        digest = bytes.fromhex(one.node.holdings.kept.active[ROUTES].sections["routes"].sha256)

        def rot() -> None:
            with one.node.store.garbage._environment.write() as transaction:
                for key, data in list(transaction.items("sections", digest)):
                    transaction.put("sections", key, data[:-1] + bytes([data[-1] ^ 1]))

        again, before = f"GET /v1/documents/{ROUTES}-2", len(one.server.requests)
        await one.node.threads.write(rot)
        await one.until(lambda: again in one.server.requests[before:])
        assert one.node.counters.of("sections_damaged") > 0
        await one.until_active(ROUTES, 2)
        await one.until(lambda: one.state == "active")
        assert await one.get("v1", "scopes", ROUTES, "sections", "routes") == {"south": {}}


async def test_a_second_agent_on_one_root_stops(one, mock_clock):
    """rules L25, P8, A14"""
    async with one.agent():
        with pytest.raises(StoreError) as caught:
            Root.open(one.settings.node.state_directory)
        assert caught.value.fault is StoreFault.STORE_LOCKED


async def test_a_root_that_is_open_to_others_is_not_started_on(one, mock_clock):
    """rules L23, A14"""
    one.settings.node.state_directory.chmod(0o755)
    with pytest.raises(BaseException) as caught:
        async with one.agent():
            await trio.sleep(1)
    errors = caught.value
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    assert errors.fault is StoreFault.BAD_PERMISSIONS
    one.settings.node.state_directory.chmod(0o700)


async def test_planted_records_give_nothing(one, mock_clock):
    """rules L3: tables are remembered things; a row can take away, and never give"""
    from store.base.tables import Name

    async with one.agent():
        await one.until(lambda: one.state == "active")
        for name in (Name.SERVICES, Name.PEERS, Name.HEALTH, Name.ROUTES):
            table = one.node.store.table(name)
            await one.node.threads.write(table.put, "roles", {"roles": ("egress_service",), "allow": True})
    async with one.agent():
        assert one.node.holdings.roles == {"core_mesh"}
        assert one.state == "active"

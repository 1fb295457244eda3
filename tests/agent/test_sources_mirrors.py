"""Mirrors that are no servers of the cluster's CA: any HTTPS file server, over its own chain or certificate."""

import base64
import time

import pytest

from agent.config.configuration import MapEntry
from agent.sources.source import Kind, head_place
from snapshot import codes
from tests.agent.bench import bench
from tests.agent.test_source import by_hand, until_error
from tests.fakes.cluster import NODE_ID
from tests.fakes.storage import own_address, serving_files, write_tree
from tests.journeys.lab import POLICY, ROUTES, lab
from wire.certificate import fingerprint, make_authority, make_identity
from wire.client import ClientError, ClientFault

STORAGE = "storage_directory"


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock) as made:
        yield made


def tree(one):
    folder = one.folder / "tree"
    write_tree(one.server, folder, NODE_ID)
    return folder


def pinned(*pairs):
    return {"certificates": [fingerprint(pair.der) for pair in pairs]}


def of_ca(*pairs):
    return {"authorities": [base64.b64encode(pair.der).decode() for pair in pairs]}


def name(one, url, tls):
    """A directory with this one mirror, which the next head lists."""
    return one.server.snapshot({"endpoints": {"cdn": {"url": url, "tls": tls}}}, STORAGE)


async def test_a_foreign_file_server_serves_while_no_coordinator_does(one, mock_clock):
    """rules S64, S55e, L14: what it shows is compared first; a wrong pin is said, with its code, and changes nothing"""
    shown = make_identity("files.example", time.time())
    one.server.snapshot({"policy": POLICY | {"allow": ["use_storage_endpoints"]}}, "degraded_mode_policy")
    async with serving_files(tree(one), one.server.authority, own_address(), shown) as url, one.agent():
        name(one, url, pinned(make_identity("files.example", time.time())))
        one.server.announce()
        await one.until_active(STORAGE, 1)
        before = one.server.spoil
        one.server.spoil = lambda path, data: b"" if path.startswith("/v1/documents") else data
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        tree(one)
        await until_error(one, "storage", "untrusted_mirror")
        assert one.version(ROUTES) == 1
        one.server.spoil = before
        name(one, url, pinned(shown))
        one.server.announce()
        await one.until_active(STORAGE, 2)
        await one.until_active(ROUTES, 2)
        one.server.down = True
        one.server.snapshot({"routes": {"west": {}}}, ROUTES)
        one.server.announce()
        tree(one)
        await one.until_active(ROUTES, 3)
        rows = {row["kind"]: row for row in (await one.status())["sources"]}
        assert rows["storage"]["error"] == ""


async def test_what_a_directory_says_no_more_ends_with_its_connections(one, mock_clock):
    """threats D-49: another pin, another client; what cannot be read is nobody"""
    shown = make_identity("files.example", time.time())
    async with bench(one) as made, serving_files(tree(one), one.server.authority, own_address(), shown) as url:
        await made.settle()
        sources = made.outside.sources

        async def told(tls):
            await made.take(name(one, url, tls))
            return [source for source in sources.all() if source.kind is Kind.STORAGE]

        (first,) = await told(pinned(shown))
        (same,) = await told(pinned(shown))
        assert same is first
        (other,) = await told(of_ca(make_authority("files", time.time())))
        assert other is not first
        assert first not in sources._known.values()
        assert await told({"system_roots": False}) == []
        assert other not in sources._known.values()


async def test_what_is_no_ca_is_said_and_asks_nobody(one, mock_clock):
    """A certificate that is listed as a CA would vouch for itself alone; it is a `certificates` that was meant."""
    leaf = make_identity("files.example", time.time())
    async with bench(one) as made:
        await made.settle()
        await made.take(name(one, f"https://{own_address()}:8443", of_ca(leaf)))
        (source,) = [source for source in made.outside.sources.all() if source.kind is Kind.STORAGE]
        with pytest.raises(ClientError) as caught:
            await source.fetch(head_place(NODE_ID, (0, 0), 0), limit=1 << 20)
        assert caught.value.reason is ClientFault.UNTRUSTED_MIRROR
        assert "no CA" in str(caught.value)
        assert "StorageEndpoint" in codes.explain("untrusted_mirror", codes.Area.SOURCE).meaning


async def test_a_manual_map_names_a_certificate_in_place_of_a_ca(one, mock_clock):
    """rules P22, K3, K5"""
    shown = make_identity("files.example", time.time())
    async with serving_files(tree(one), one.server.authority, "127.0.0.1", shown) as url:
        right = MapEntry(url=url, certificates=(fingerprint(shown.der),), automatic_refresh=True)
        async with one.agent(**by_hand(one, right)):
            await one.settled()
            assert one.server.requests == []

"""A storage node over real TLS: who may bring what, what it verifies before it keeps it, and who is given it."""

import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
import trio

from agent.config.configuration import StorageTable, StorageWriter
from agent.storage.replicating import Replicating
from snapshot.mirrors import MirrorTls
from store.relay import digest_of
from tests.agent.bench import Bench, bench
from tests.agent.peer_lab import PeerLab
from tests.fakes.cluster import HOUR
from tests.fakes.ports import held_port
from tests.wire.lab import write
from wire.certificate import fingerprint, make_identity
from wire.client import Call, ClientError, HttpClient, HttpsConnector
from wire.endpoint import Endpoint
from wire.peers.storage_messages import FileListing, KeptFile

pytestmark = pytest.mark.usefixtures("mock_clock")
MOST = 1 << 20


@dataclass
class StorageLab:
    bench: Bench
    writer: HttpClient[Endpoint]
    reader: HttpClient[Endpoint]
    stranger: HttpClient[Endpoint]
    to: Endpoint
    made: PeerLab
    copier: Replicating  # a round at a time, when a test asks for one

    @property
    def kept(self):
        return self.bench.outside.storage_listener.api.taking.kept

    async def shard(self, **members: object) -> None:
        entry = {"url": "https://s.example:1", "families": [], "organizations": [], "replicates": []} | members
        sections = {"endpoints": {}, "shards": {"s1": entry}}
        await self.bench.take(self.bench.server.snapshot(sections, "storage_directory", roles=["core_mesh"]))

    async def put(
        self, path: str, data: bytes | AsyncIterator[bytes], client: HttpClient[Endpoint] | None = None
    ) -> object:
        """What it says is kept, or status and code of the refusal."""
        try:
            answer = await (client or self.writer).fetch(self.to, Call("PUT", f"/{path}", body=data))
        except ClientError as error:
            return error.status, error.code
        if not isinstance(data, bytes):
            return True
        return KeptFile.read(answer.body).sha256 == hashlib.sha256(data).hexdigest()

    async def get(self, path: str) -> bytes | None:
        try:
            return (await self.reader.fetch(self.to, Call("GET", f"/{path}", limit=1 << 24))).body
        except ClientError as error:
            assert error.status == 404
            return None

    async def listing(self) -> dict[str, str]:
        answer = await self.writer.fetch(self.to, Call("GET", "/v1/files", limit=FileListing.MOST_BYTES))
        return dict(FileListing.read(answer.body).files)


@asynccontextmanager
async def storage_lab(one, **limits: int) -> AsyncIterator[StorageLab]:
    held = held_port()
    port = held.getsockname()[1]
    coordinator, other = make_identity("coord-1", time.time()), make_identity("coord-9", time.time())
    table = StorageTable(
        listen=f"127.0.0.1:{port}",
        writers=(StorageWriter(coordinator_id="coord-1", certificate=coordinator.der),),
        **{"most_bytes": 64 << 20, **limits},
    )
    one.settings = replace(one.settings, storage=table)
    async with bench(one) as made:
        await made.settle()
        pair = made.outside.joining.identity.present()
        copier = made.outside.storage_listener.copy.__self__
        made.outside.storage_listener.copy = trio.sleep_forever
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.outside.storage_listener.run)
            await made.outside.storage_listener.listening.wait()
            to = Endpoint.parse(f"https://127.0.0.1:{port}", configured=True)
            mirror = MirrorTls(certificates=frozenset({fingerprint(pair.der)}))
            clients = [
                HttpClient(HttpsConnector.to_node([pair.der], write(one.folder, "coord-1", coordinator))),
                HttpClient(HttpsConnector.to_mirror(mirror)),
                HttpClient(HttpsConnector.to_node([pair.der], write(one.folder, "coord-9", other))),
            ]
            peers = PeerLab(made, one.folder, to)
            try:
                yield StorageLab(made, *clients, to, peers, copier)
            finally:
                for client in (*clients, *(asker.client for asker in peers.askers.values())):
                    await client.aclose()
                nursery.cancel_scope.cancel()
        held.close()


@pytest.fixture
async def made(one, mock_clock):
    async with storage_lab(one) as found:
        await found.shard()
        yield found


def document_path(document) -> str:
    return f"documents/{digest_of(document.envelope.snapshot_id)}.hfs"


def leading(cluster, **members: object):
    """An increment of a node's routes, and the document that it leads to."""
    given = {"roles": ["core_mesh"], "organization_ids": ["acme"]} | members
    increment = cluster.increment(sets={"routes": {"south": {}}}, **given)
    version, state = increment.envelope.next_config_version, cluster.states["route_policy"]
    return increment, cluster.snapshot(dict(state.sections), config_version=version, **given)


def increment_path(increment, target) -> str:
    named_by = f"{target.envelope.snapshot_id}\n{increment.envelope.base_config_version}"
    return f"increments/{digest_of(named_by)}.hfs"


def head_path(node_id: str) -> str:
    return f"heads/{digest_of(node_id)}.hfs"


async def test_what_a_coordinator_brings_is_served_to_whoever_knows_its_name(made, mock_clock):
    """rules S2, L19: head, document and trust bundle of another node, byte for byte, with no certificate shown"""
    document = made.made.document("route_policy", "node-b", {"routes": {"north": {}}})
    head = made.made.head("node-b", document, config_version=4)
    bundle = made.bench.server.cluster.first_bundle.to_bytes()
    brought = {
        document_path(document): document.to_bytes(),
        head_path("node-b"): head.to_bytes(),
        "trust/1.hfs": bundle,
    }
    for path, data in brought.items():
        assert await made.put(path, data) is True
        assert await made.get(path) == data
    assert await made.listing() == {path: hashlib.sha256(data).hexdigest() for path, data in brought.items()}
    assert made.bench.node.holdings.kept.active.keys().isdisjoint({"heads"})
    await made.writer.fetch(made.to, Call("DELETE", f"/{head_path('node-b')}"))
    assert await made.get(head_path("node-b")) is None


async def test_only_a_pinned_coordinator_changes_anything(made, mock_clock):
    """threats D-31: one that shows nothing is told that there is nothing; one of another certificate is not let in"""
    document = made.made.document("route_policy", "node-b", {"routes": {}})
    path, data = document_path(document), document.to_bytes()
    assert await made.put(path, data, made.reader) == (404, "not_found")
    with pytest.raises(ClientError) as caught:
        await made.stranger.fetch(made.to, Call("PUT", f"/{path}", body=data))
    assert caught.value.status is None
    for call in (Call("DELETE", f"/{path}"), Call("GET", "/v1/files")):
        with pytest.raises(ClientError) as caught:
            await made.reader.fetch(made.to, call)
        assert caught.value.status == 404
    assert not made.kept.files
    assert await made.put(path, data) is True


async def test_what_nobody_has_signed_so_is_refused_and_the_next_is_kept(made, mock_clock):
    """threats D-46: damaged, of another cluster, under another's name, expired, of a stranger's key; nothing of it
    remains
    """
    good = made.made.document("route_policy", "node-b", {"routes": {"north": {}}})
    data, path = good.to_bytes(), document_path(good)
    other = made.made.document("qos_policy", "node-b", {"classes": {}})
    flipped = bytearray(data)
    flipped[-2] ^= 1
    now = int(made.bench.node.now())
    old = {"issued_at": now - 9 * HOUR, "valid_from": now - 9 * HOUR, "refresh_after": now - 8 * HOUR}
    expired = made.made.document("route_policy", "node-b", {"routes": {}}, **old, expires_at=now - HOUR)
    foreign = made.made.document("route_policy", "node-b", {"routes": {}}, cluster_id="another")
    refusals = {
        "damaged": (path, bytes(flipped)),
        "short": (path, data[:-9]),
        "nonsense": (path, b"nonsense"),
        "another's name": (document_path(other), data),
        "no head": (head_path("node-b"), data),
        "no bundle": ("trust/1.hfs", data),
        "expired": (document_path(expired), expired.to_bytes()),
        "another cluster's": (document_path(foreign), foreign.to_bytes()),
    }
    for name, (where, bad) in refusals.items():
        status, code = await made.put(where, bad)
        assert status == 422, (name, code)
    for where in ("documents/short.hfs", "elsewhere/x.hfs", f"heads/{'A' * 64}.hfs"):
        assert await made.put(where, data) == (404, "not_found")
    assert not made.kept.files and not list(made.bench.outside.storage_listener.api.taking.temporary.glob("published*"))
    assert await made.put(path, data) is True


async def test_an_increment_is_what_was_signed_to_its_last_byte(made, mock_clock):
    """threats D-46: what it makes of a state only its node can say; all that comes with it was signed"""
    cluster, times = made.bench.server.cluster, made.bench.server.times()
    increment, target = leading(cluster, **times, subject_node_id="node-b")
    good, path = increment.to_bytes(), increment_path(increment, target)
    assert await made.put(document_path(target), target.to_bytes()) is True
    for bad in (good + b"x" * 300_000, good[:-3], good[:-2] + b"zz"):
        status, _ = await made.put(path, bad)
        assert status == 422
    assert list(made.kept.files) == [document_path(target)]
    assert await made.put(path, good) is True and await made.get(path) == good


async def test_an_increment_lies_under_the_name_that_its_target_gives_it(made, mock_clock):
    """rules S20: of a document that lies here, also after a start; under any other name it would fill the disk"""
    cluster, times = made.bench.server.cluster, made.bench.server.times()
    increment, target = leading(cluster, **times, subject_node_id="node-b")
    other = made.made.document("route_policy", "node-b", {"routes": {"other": {}}})
    good, path = increment.to_bytes(), increment_path(increment, target)
    assert await made.put(path, good) == (422, "wrong_node"), "what it leads to is not here"
    for document in (target, other):
        assert await made.put(document_path(document), document.to_bytes()) is True
    for wrong in (f"increments/{'a' * 64}.hfs", increment_path(increment, other), document_path(target)):
        status, _ = await made.put(wrong, good)
        assert status == 422
    assert set(made.kept.files) == {document_path(target), document_path(other)}
    await made.bench.node.threads.read(made.kept.load, made.bench.node.now())
    assert await made.put(path, good) is True
    for each in (path, document_path(target)):
        await made.writer.fetch(made.to, Call("DELETE", f"/{each}"))
    assert await made.put(path, good) == (422, "wrong_node")


async def test_a_document_that_the_disk_does_not_give_is_the_fault_of_its_own_increments(made, mock_clock):
    """rules L35: a bad sector is no reason for a coordinator to let the whole store rest"""
    cluster, times = made.bench.server.cluster, made.bench.server.times()
    increment, target = leading(cluster, **times, subject_node_id="node-b")
    assert await made.put(document_path(target), target.to_bytes()) is True
    place = made.kept.place(document_path(target))
    place.rename(place.with_suffix(".was"))
    place.mkdir()
    assert await made.put(increment_path(increment, target), increment.to_bytes()) == (422, "wrong_node")
    place.rmdir()
    place.with_suffix(".was").rename(place)
    assert await made.put(increment_path(increment, target), increment.to_bytes()) is True


async def test_who_brings_a_file_slowly_holds_up_nobody(made, mock_clock):
    """Another coordinator's files, and this one's others, come meanwhile; then it comes whole."""
    slow, other = (made.made.document("route_policy", name, {"routes": {"n": {}}}) for name in ("node-b", "node-c"))
    data, begun, goes_on = slow.to_bytes(), trio.Event(), trio.Event()

    async def pieces():
        yield data[:100]
        begun.set()
        await goes_on.wait()
        yield data[100:]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.put, document_path(slow), pieces())
        await begun.wait()
        await until_some(made.bench.outside.storage_listener.api.taking.temporary)
        with trio.fail_after(60):
            assert await made.put(document_path(other), other.to_bytes()) is True
        assert list(made.kept.files) == [document_path(other)]
        goes_on.set()
    assert await made.get(document_path(slow)) == data


async def until_some(folder) -> None:
    """What a server has begun to write is looked at, and tells nobody."""
    while not list(folder.glob("published*")):
        await trio.lowlevel.checkpoint()


async def test_a_head_never_goes_back(made, mock_clock):
    """rules K32: though an older one is signed as well"""
    newer, older = (made.made.head("node-b", config_version=version) for version in (7, 6))
    assert await made.put(head_path("node-b"), newer.to_bytes()) is True
    assert await made.put(head_path("node-b"), older.to_bytes()) == (409, "older")
    assert await made.get(head_path("node-b")) == newer.to_bytes()


async def test_only_what_the_shard_is_for_is_kept(made, mock_clock):
    """rules S20: families and organizations of the signed scope; without a shard nothing at all"""
    acme = made.made.document("route_policy", "node-b", {"routes": {}}, organization_ids=["acme"])
    both = made.made.document("route_policy", "node-c", {"routes": {}}, organization_ids=["acme", "globex"])
    qos = made.made.document("qos_policy", "node-b", {"classes": {}}, organization_ids=["acme"])
    await made.shard(families=["route_policy"], organizations=["acme"])
    outside = (422, "unrelated_organization")
    assert await made.put(document_path(acme), acme.to_bytes()) is True
    assert await made.put(document_path(both), both.to_bytes()) == outside
    assert await made.put(document_path(qos), qos.to_bytes()) == outside
    await made.bench.take(made.bench.server.snapshot({"endpoints": {}}, "storage_directory", roles=["core_mesh"]))
    assert await made.put(document_path(both), both.to_bytes()) == (409, "no_shard")


async def test_more_than_it_may_keep_is_refused_and_room_is_used_again(one, mock_clock):
    """rules L35: 507, nothing is lost; what goes makes room"""
    async with storage_lab(one, most_bytes=MOST, most_files=16) as made:
        await made.shard()
        big = [
            made.made.document(
                "route_policy", f"node-{number}", {"routes": {str(each): {"t": "y" * 3_000} for each in range(200)}}
            )
            for number in range(2)
        ]
        assert await made.put(document_path(big[0]), big[0].to_bytes()) is True
        assert await made.put(document_path(big[1]), big[1].to_bytes()) == (507, "store_full")
        assert await made.get(document_path(big[0])) == big[0].to_bytes()
        await made.writer.fetch(made.to, Call("DELETE", f"/{document_path(big[0])}"))
        assert made.kept.used_bytes == 0
        assert await made.put(document_path(big[1]), big[1].to_bytes()) is True
        assert await made.put(document_path(big[1]), big[1].to_bytes()) is True, "in its own place there is room"
        assert made.kept.used_bytes == len(big[1].to_bytes())


async def test_what_is_kept_is_there_after_a_restart(made, mock_clock):
    """A head's version too; what is none of ours goes."""
    head = made.made.head("node-b", config_version=7)
    await made.put(head_path("node-b"), head.to_bytes())
    before = dict(made.kept.files)
    (made.kept._folder / "heads" / "nonsense").write_text("")
    made.kept._files = {}
    await made.bench.node.threads.read(made.kept.load, made.bench.node.now())
    assert dict(made.kept.files) == before and made.kept.used_bytes == len(head.to_bytes())
    older = made.made.head("node-b", config_version=6)
    assert await made.put(head_path("node-b"), older.to_bytes()) == (409, "older")

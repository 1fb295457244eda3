"""Stores that are kept up with what is published: a directory, and a real S3 server that checks signatures."""

import os
import time
from pathlib import Path

import pytest
import trio
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.database.documents import container_of
from coordinator.storage import static_tree, upkeep
from coordinator.storage.directory_store import DirectoryStore
from coordinator.storage.node_store import open_node
from coordinator.storage.payload import snapshot_id_of
from coordinator.storage.published_tree import head_path
from coordinator.storage.s3_store import S3Store
from coordinator.storage.shards import Shard
from coordinator.storage.storage_error import StorageError, StorageFault
from coordinator.storage.upkeep import KnownFile, RepeatedHead
from tests.coordinator.publishing import STATE, Press
from tests.coordinator.stores import Kept, answering, bucket, listed, saying
from tests.coordinator.test_static_tree import announced, files
from tests.fakes.s3 import S3, write_credentials
from wire.certificate import make_identity
from wire.limits import REMOTE
from wire.peers.storage_messages import FileListing
from wire.request import Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.tls import ServerAuthTransport

PREFIX = "prod/"
CODECS = ("zlib_codec", "rot13", "hex_codec", "undefined", "idna")  # that are no text of ours, or none at all
POLICY = "kind: DegradedModePolicy\nid: standard\nspec: {allow: [preserve_routes]}"


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def whole(press: Press, folder: Path) -> dict[str, bytes]:
    """What `publish --to` writes of the same."""
    static_tree.publish(press.database, folder)
    return files(folder)


def in_bucket(s3: S3) -> dict[str, bytes]:
    return {name.removeprefix(PREFIX): data for name, data in s3.keys().items() if name.startswith(PREFIX)}


def directory(path: Path):
    return DirectoryStore(path, trio.CapacityLimiter(1)).open


async def test_a_directory_holds_what_publish_writes(press: Press, tmp_path: Path) -> None:
    """rules S2"""
    kept = Kept(press, directory(tmp_path / "kept"))
    assert await kept.round()
    assert files(tmp_path / "kept") == whole(press, tmp_path / "whole")
    written = kept.upkeep.written
    assert await kept.round() and kept.upkeep.written == written


async def test_a_bucket_holds_the_same_and_a_change_costs_what_changed(press: Press, s3: S3, tmp_path: Path) -> None:
    """rules S2: each object was signed for, byte for byte what a coordinator hands out"""
    kept = Kept(press, bucket(s3.bucket, s3.good, time.time))
    assert await kept.round()
    before = in_bucket(s3)
    assert before == whole(press, tmp_path / "whole")
    first = kept.upkeep.written
    press.apply(POLICY)
    press.publish()
    assert await kept.round()
    after = whole(press, tmp_path / "whole")
    new = {name for name, data in after.items() if before.get(name) != data}
    assert kept.upkeep.written - first == len(new) < len(after)
    assert {name: data for name, data in in_bucket(s3).items() if name in after} == after


async def test_what_was_lost_changed_or_emptied_at_the_store_is_mended(press: Press, s3: S3) -> None:
    """By a process that has put it, and by one that finds it: only what differs is sent."""
    kept = Kept(press, bucket(s3.bucket, s3.good, time.time))
    await kept.round()
    good = in_bucket(s3)
    names = sorted(good)
    for found in (kept, Kept(press, kept.open)):
        s3.remove(PREFIX + names[0])
        s3.put(PREFIX + names[1], b"x" * len(good[names[1]]))
        s3.put(PREFIX + names[2], b"cut off")
        written = found.upkeep.written
        assert await found.round()
        assert found.upkeep.written - written == 3 and in_bucket(s3) == good
    s3.remove(*(PREFIX + name for name in names))
    assert await kept.round() and in_bucket(s3) == good


async def test_a_directory_is_mended_as_well(press: Press, tmp_path: Path) -> None:
    kept = Kept(press, directory(tmp_path))
    await kept.round()
    good = files(tmp_path)
    names = sorted(good)
    for found in (kept, Kept(press, kept.open)):
        (tmp_path / names[0]).unlink()
        (tmp_path / names[1]).write_bytes(b"x" * len(good[names[1]]))
        (tmp_path / names[2]).write_bytes(b"")
        assert await found.round() and files(tmp_path) == good


async def test_what_nobody_announces_goes_later_and_foreign_names_stay(
    press: Press, s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A node that has just read the head before still finds what that lists."""
    for key in ("notes.txt", f"{PREFIX}documents/thesis.odt", f"{PREFIX}heads/7.hfs", f"{'a' * 64}.hfs"):
        s3.put(key, b"mine")
    kept = Kept(press, bucket(s3.bucket, s3.good, time.time))
    await kept.round()
    before = in_bucket(s3)
    press.apply(POLICY)
    press.publish()
    await kept.round()
    assert before.keys() <= in_bucket(s3).keys()
    monkeypatch.setattr(upkeep, "REMOVAL_S", 0.0)
    await kept.round()
    left = in_bucket(s3)
    assert {name: data for name, data in left.items() if data != b"mine"} == whole(press, tmp_path / "whole")
    assert sorted(name for name, data in s3.keys().items() if data == b"mine") == sorted(
        ["notes.txt", f"{PREFIX}documents/thesis.odt", f"{PREFIX}heads/7.hfs", f"{'a' * 64}.hfs"]
    )


class Breaking(S3Store):
    """Ends at its n-th file, as a process that is killed, or a line that is cut."""

    left = 0

    async def put(self, path, payload, present):
        if present != f"{payload.size}:{payload.md5}":
            if Breaking.left == 0:
                raise StorageError(StorageFault.UNREACHABLE, "cut")
            Breaking.left -= 1
        return await super().put(path, payload, present)


async def test_cut_off_anywhere_every_head_finds_what_it_announces(
    press: Press, s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """rules S2: order at the store, and a round that goes on where the one before ended, also in a new process"""
    kept = Kept(press, bucket(s3.bucket, s3.good, time.time))
    await kept.round()
    press.apply(POLICY)
    press.add_bundle()
    press.publish()
    monkeypatch.setattr("coordinator.storage.s3_store.S3Store", Breaking)
    for number in range(12):
        Breaking.left = 1
        kept = Kept(press, kept.open) if number % 2 else kept
        try:
            is_whole = await kept.round()
        except StorageError as error:
            assert error.fault is StorageFault.UNREACHABLE
            is_whole = False
        found = in_bucket(s3)
        for name, data in found.items():
            assert not name.startswith("heads/") or announced(data) <= found.keys()
        if is_whole:
            break
    assert is_whole
    assert whole(press, tmp_path / "whole").items() <= in_bucket(s3).items()


def head_of(press: Press, node_id: str = "node-a") -> bytes:
    return container_of(documents.head(press.database, node_id))


def repeated(press: Press, words: bytes = b"again") -> list[RepeatedHead]:
    """Of each node, some bytes in the place of a head that was signed again."""
    return [RepeatedHead(node_id, head_of(press, node_id), words) for node_id in ("node-a", "node-b")]


class Overtaken(S3Store):
    """When the first file is about to be sent, another coordinator has sent newer ones."""

    others: Kept | None = None

    async def _send(self, path, payload, condition=None, **given):
        others, Overtaken.others = Overtaken.others, None
        if others is not None:
            await others.round()
        return await super()._send(path, payload, condition or {}, **given)


async def test_a_head_that_is_signed_again_takes_the_place_of_no_newer_one(
    press: Press, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rules P5: two coordinators, of which one has lost the database; the other one publishes and writes there just
    before it, or while it does. Where nobody has, both heads are put.
    """
    one = Kept(press, bucket(s3.bucket, s3.good, time.time))
    other = Kept(press, one.open)
    assert await one.round()
    async with one.open() as store:
        assert await one.upkeep.bring_repeated(store, repeated(press)) == 2
    assert in_bucket(s3)[head_path("node-a")] == in_bucket(s3)[head_path("node-b")] == b"again"

    again = repeated(press, b"once more")
    press.apply(POLICY)
    press.publish()
    monkeypatch.setattr("coordinator.storage.s3_store.S3Store", Overtaken)
    Overtaken.others = other
    async with one.open() as store:
        assert await one.upkeep.bring_repeated(store, again) == 0
        assert await one.upkeep.bring_repeated(store, again) == 0
    found = in_bucket(s3)
    assert all(found[head_path(node_id)] == head_of(press, node_id) for node_id in ("node-a", "node-b"))
    assert await one.round(), "once the database is there it is known what lies there"


@pytest.mark.parametrize(("status", "count"), [("501 Not Implemented", 1), ("403 Forbidden", 1), ("412 No", 0)])
async def test_a_store_that_knows_no_conditions_is_written_all_the_same(
    press: Press, tmp_path: Path, status: str, count: int
) -> None:
    asked: list[bytes] = []

    def answer(head: bytes) -> bytes:
        asked.append(head)
        if head.startswith(b"GET"):
            key = f"{PREFIX}{head_path('node-a')}"
            entry = f"<Contents><Key>{key}</Key><Size>5</Size><ETag>e</ETag></Contents>"
            return listed(f"<ListBucketResult>{entry}</ListBucketResult>")
        if b"if-match" in head.lower():
            return saying(status)
        return saying("200 OK", headers='ETag: "e"\r\n')

    first, credentials = head_of(press), write_credentials(tmp_path / "credentials", "AKIA", "secret")
    async with answering(answer) as url:
        kept = Kept(press, bucket(url, credentials, time.time))
        kept.upkeep._known[head_path("node-a")] = KnownFile(snapshot_id_of(first), "5:e")
        async with kept.open() as store:
            assert await kept.upkeep.bring_repeated(store, [RepeatedHead("node-a", first, b"again")]) == count
    assert [head.split(b" ")[0] for head in asked] == [b"GET", b"PUT", *([b"PUT"] * count)]


async def test_a_head_that_a_store_refuses_keeps_no_other_back(press: Press, tmp_path: Path) -> None:
    """rules P5: while the database is away; a fault of one file is no store's."""
    heads, credentials = repeated(press), write_credentials(tmp_path / "credentials", "AKIA", "secret")
    refused = head_path("node-a").partition("/")[2].encode()

    def answer(head: bytes) -> bytes:
        name = "node-a" if refused in head.partition(b"\r\n")[0] else "node-b"
        if head.startswith(b"GET"):
            key = f"{PREFIX}{head_path(name)}"
            entry = f"<Contents><Key>{key}</Key><Size>5</Size><ETag>e</ETag></Contents>"
            return listed(f"<ListBucketResult>{entry}</ListBucketResult>")
        return saying("413 Too Large") if name == "node-a" else saying("200 OK", headers='ETag: "e"\r\n')

    async with answering(answer) as url:
        kept = Kept(press, bucket(url, credentials, time.time))
        for head in heads:
            kept.upkeep._known[head_path(head.node_id)] = KnownFile(snapshot_id_of(head.first), "5:e")
        async with kept.open() as store:
            assert await kept.upkeep.bring_repeated(store, heads) == 1
    assert kept.upkeep._repeated.keys() == {head_path("node-b")}


async def test_a_large_document_is_sent_in_pieces(press: Press, s3: S3, tmp_path: Path) -> None:
    part = "".join(f"{number:08}" for number in range(100_000))
    named = ", ".join(f"part-{number}: {{text: '{number}{part}'}}" for number in range(3))
    press.apply(f"{{kind: Config, id: edge, spec: {{to: {{nodes: [node-a]}}, files: {{{named}}}}}}}")
    press.publish()
    kept, other = (
        Kept(press, bucket(s3.bucket, s3.good, time.time)),
        Kept(press, directory(tmp_path / "kept")),
    )
    assert await kept.round() and await other.round()
    expected = whole(press, tmp_path / "whole")
    assert max(map(len, expected.values())) > 2_000_000
    assert in_bucket(s3) == files(tmp_path / "kept") == expected


# ---- faults


async def fault_of(kept: Kept) -> StorageError:
    with pytest.raises(StorageError) as caught:
        await kept.round()
    return caught.value


async def test_wrong_credentials_are_named_and_nothing_of_them_is_shown(press: Press, s3: S3, tmp_path: Path) -> None:
    """A key that nobody knows, one of another secret, one that may not write; then the right one goes through."""
    key_id = s3.good.read_text().split()[3]
    secret = "wrongwrongwrong"
    for credentials in (
        write_credentials(tmp_path / "unknown", "AKIAUNKNOWN", secret),
        write_credentials(tmp_path / "secret", key_id, secret),
        s3.denied,
    ):
        error = await fault_of(Kept(press, bucket(s3.bucket, credentials, time.time)))
        assert error.fault is StorageFault.DENIED and not error.is_of_file
        assert secret not in str(error)
    assert not in_bucket(s3)
    assert await Kept(press, bucket(s3.bucket, s3.good, time.time)).round()


async def test_a_file_of_credentials_that_is_none_is_named(press: Press, s3: S3, tmp_path: Path) -> None:
    missing, broken = tmp_path / "missing", tmp_path / "broken"
    broken.write_text("aws_secret_access_key = swordfish\n")
    for path in (missing, broken):
        error = await fault_of(Kept(press, bucket(s3.bucket, path, time.time)))
        assert error.fault is StorageFault.UNUSABLE and path.name in error.detail and "swordfish" not in str(error)


async def test_a_bucket_that_is_not_there(press: Press, s3: S3) -> None:
    error = await fault_of(Kept(press, bucket(f"{s3.url}/nowhere", s3.good, time.time)))
    assert error.fault in (StorageFault.NO_SUCH_BUCKET, StorageFault.DENIED)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (saying("403 Forbidden", "RequestTimeTooSkewed", "date: Fri, 24 May 2013 00:00:00 GMT\r\n"), "clock_apart"),
        (saying("403 Forbidden", "SignatureDoesNotMatch"), "denied"),
        (saying("404 Not Found", "NoSuchBucket"), "no_such_bucket"),
        (saying("503 Slow Down", "SlowDown", "retry-after: 40\r\n"), "busy"),
        (saying("507 Insufficient Storage", "XMinioStorageFull"), "full"),
        (saying("507 Insufficient Storage"), "full"),
        (saying("301 Moved Permanently", "", "location: https://elsewhere.example/\r\n"), "refused"),
        (saying("200 OK"), "bad_answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n<ListBucketResult>", "unreachable"),
        (b"not http at all\r\n\r\n", "unreachable"),
    ],
)
async def test_what_a_store_says_is_told_by_a_slug(press: Press, s3: S3, said: bytes, fault: str) -> None:
    """rules P10; also a redirect, which is not followed, and nonsense."""
    async with answering(lambda _: said) as url:
        error = await fault_of(Kept(press, bucket(url, s3.good, time.time)))
    assert error.fault == fault
    if fault == "busy":
        assert error.retry_after_s == 40
    if fault == "clock_apart":
        assert "our clock is +" in error.detail


ENDLESS = "<ListBucketResult>" + "<Contents>" * 100_000  # an entry that never ends, as often as fits


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        *((saying("200 OK", "x", f"content-type: text/x; charset={name}\r\n"), "bad_answer") for name in CODECS),
        (
            saying("403 Forbidden", "RequestTimeTooSkewed", f"date: Fri, 24 May 2013 00:00:00 +{9:020}\r\n"),
            "clock_apart",
        ),
        (
            saying("403 Forbidden", "RequestTimeTooSkewed", f"date: Fri, 24 May 2013 00:00:00 +{'9' * 20}\r\n"),
            "clock_apart",
        ),
        (
            listed(ENDLESS + "<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"),
            "bad_answer",
        ),
    ],
    ids=(*CODECS, "date", "far date", "endless"),
)
async def test_a_store_that_means_harm_ends_the_round_and_nothing_else(
    press: Press, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, fault: str
) -> None:
    """threats D-46: whatever a store answers, it is a fault of the store, and read at once."""
    monkeypatch.setattr("coordinator.storage.s3_store.MOST_PAGES", 2)
    credentials = write_credentials(tmp_path / "credentials", "AKIA", "secret")
    async with answering(lambda _: said) as url:
        error = await fault_of(Kept(press, bucket(url, credentials, time.time)))
    assert error.fault == fault


class Losing(DirectoryStore):
    """After its first file the database is away."""

    database: Database

    async def put(self, path, payload, present):
        mark = await super().put(path, payload, present)
        with self.database.record() as transaction:
            transaction.run(text("ALTER TABLE documents RENAME TO away"))
        return mark


async def test_a_database_that_goes_away_in_a_round_ends_the_round(press: Press, tmp_path: Path) -> None:
    """By its own error, which the keeper of stores waits for, not in a group, which ends the coordinator."""
    store = Losing(tmp_path / "tree", trio.CapacityLimiter(1))
    store.database = press.database
    kept = Kept(press, store.open)
    wanted = kept.wanted()
    async with store.open():
        with pytest.raises(SQLAlchemyError):
            await kept.upkeep.bring(store, wanted)
    with press.database.record() as transaction:
        transaction.run(text("ALTER TABLE away RENAME TO documents"))
    assert await Kept(press, directory(tmp_path / "tree")).round()


async def test_a_document_that_goes_while_it_is_sent_ends_nothing(press: Press, tmp_path: Path) -> None:
    class Overtaken(DirectoryStore):
        async def put(self, path, payload, present):
            raise Refused(Code.NOT_FOUND, "no such section")

    kept = Kept(press, Overtaken(tmp_path / "tree", trio.CapacityLimiter(1)).open)
    assert not await kept.round() and not files(tmp_path / "tree")
    kept.open = directory(tmp_path / "tree")
    assert await kept.round()


class Small(DirectoryStore):
    """Has room for so many files."""

    most = 0

    async def put(self, path, payload, present):
        if len(await self.listing()) >= self.most and path not in await self.listing():
            raise StorageError(StorageFault.FULL, "no room")
        return await super().put(path, payload, present)


async def test_a_full_store_lets_go_what_nobody_announces_and_goes_on(
    press: Press, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is old and what is new do not both fit: the old one stays its time, and then makes room."""
    store = Small(tmp_path / "small", trio.CapacityLimiter(1))
    store.most = 1_000
    kept = Kept(press, store.open)
    assert await kept.round()
    store.most = len(files(tmp_path / "small"))
    press.apply(POLICY)
    press.publish()
    before = files(tmp_path / "small").keys()
    assert (await fault_of(kept)).fault is StorageFault.FULL
    assert before == files(tmp_path / "small").keys(), "who has just read the head before still finds all of it"
    monkeypatch.setattr(upkeep, "REMOVAL_S", 0.0)
    assert (await fault_of(kept)).fault is StorageFault.FULL
    assert await kept.round()
    assert files(tmp_path / "small") == whole(press, tmp_path / "whole")


@pytest.mark.parametrize("named", ["../../etc/passwd", "heads/x.hfs", f"heads/{'a' * 64}.hfs"])
async def test_a_node_that_lists_without_an_end_or_what_is_not_ours(tmp_path: Path, named: str) -> None:
    """threats D-46: a storage node that somebody else has taken: no name of its making is asked for or removed"""
    shown, own = make_identity("node-s", time.time()), make_identity("coord-1", time.time())

    async def files(_: Request) -> Response:
        return Response.json(FileListing({named: "a" * 64}, True).to_value())

    server = Server("storage", Routes(HttpRoute("GET", "/v1/files", files)), ServerAuthTransport(shown, REMOTE), REMOTE)
    identity = tmp_path / "identity.pem"
    identity.write_bytes(own.certificate_pem + own.key_pem)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}"
        with trio.fail_after(30):
            async with open_node(url, [shown.der], lambda: identity) as store:
                with pytest.raises(StorageError) as caught:
                    await store.listing()
        nursery.cancel_scope.cancel()
    assert caught.value.fault is StorageFault.BAD_ANSWER


async def test_a_store_that_is_full_for_one_file_takes_the_others(press: Press, s3: S3) -> None:
    """400 and 413 are of the file: the others go on, and the heads that announce it wait."""
    listing = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    put: list[str] = []

    def answer(head: bytes) -> bytes:
        if head.startswith(b"GET"):
            return f"HTTP/1.1 200 OK\r\ncontent-length: {len(listing)}\r\nconnection: close\r\n\r\n{listing}".encode()
        name = head.split()[1].decode().partition(PREFIX)[2]
        put.append(name)
        if name.startswith("trust/"):
            return saying("413 Content Too Large", "EntityTooLarge")
        return saying("200 OK", headers='etag: "abc"\r\n')

    async with answering(answer) as url:
        kept = Kept(press, bucket(url, s3.good, time.time))
        assert not await kept.round()
    assert list(kept.upkeep.refused) == ["trust/1.hfs"]
    assert any(name.startswith("documents/") for name in put) and not any(name.startswith("heads/") for name in put)


async def test_one_that_is_not_there_and_one_that_says_nothing(
    press: Press, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await fault_of(Kept(press, bucket("http://127.0.0.1:1/holdfast", s3.good, time.time)))
    assert error.fault is StorageFault.UNREACHABLE
    monkeypatch.setattr("coordinator.storage.s3_store.REQUEST_S", 0.05)
    async with answering(lambda _: None) as url:
        error = await fault_of(Kept(press, bucket(url, s3.good, time.time)))
    assert error.fault is StorageFault.TIMED_OUT


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_directory_that_cannot_be_written(press: Press, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = await fault_of(Kept(press, directory(tmp_path / "file" / "tree")))
    assert error.fault is StorageFault.UNUSABLE and "file" in error.detail


async def test_a_directory_where_another_publish_writes(press: Press, tmp_path: Path) -> None:
    async with directory(tmp_path)():
        error = await fault_of(Kept(press, directory(tmp_path)))
    assert error.fault is StorageFault.BUSY
    assert await Kept(press, directory(tmp_path)).round()


# ---- shards


async def test_a_shard_has_its_families_and_no_data_of_others(database: Database, tmp_path: Path) -> None:
    """rules S20: of a node of two organizations, what is of the one alone"""
    press = Press.founded(database, "node-a", "node-b")
    press.apply(STATE.replace("roles: [ingress], organizations: [acme]", "roles: [ingress], organizations: [wayne]"))
    press.publish()
    kept = Kept(press, directory(tmp_path / "acme"), Shard(organizations=frozenset({"acme"})))
    await kept.round()
    found, everything = files(tmp_path / "acme"), whole(press, tmp_path / "whole")
    reader = kept.wanted()
    assert found.items() < everything.items()
    assert sum(name.startswith("heads/") for name in found) == 1 and reader.needs
    families = Kept(press, directory(tmp_path / "some"), Shard(families=frozenset({"trust_bundle", "route_policy"})))
    await families.round()
    kinds = {name.partition("/")[0] for name in files(tmp_path / "some")}
    assert kinds == {"trust", "documents", "heads"}
    assert len([name for name in files(tmp_path / "some") if name.startswith("documents/")]) == 2

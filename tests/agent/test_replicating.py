"""A storage node that copies from others: what it takes, from whom, in which order, and what a hostile source costs."""

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio

from agent.storage import replicating
from agent.storage.copy_state import FAILED_REST_S, MOST_REFUSED
from agent.storage.replicating import EVERY_S, GRACE_S, QUIET_S, REFUSED_REST_S
from snapshot.identifiers import format_time
from tests.agent.test_storage_listener import (
    StorageLab,
    document_path,
    head_path,
    increment_path,
    leading,
    storage_lab,
)
from tests.fakes.cluster import HOUR
from tests.fakes.copied_store import CopiedStore
from tests.world import elapsed
from wire.backoff import CAP_S
from wire.client import Call, ClientError
from wire.peers.storage_messages import FileListing

pytestmark = pytest.mark.usefixtures("mock_clock")


def entry(store: CopiedStore) -> dict[str, object]:
    return {"url": store.url, "certificates": [base64.b64encode(store.pair.der).decode()]}


async def name(made: StorageLab, *stores: CopiedStore, readers: dict | None = None, **shard: object) -> None:
    """By the signed directory."""
    own = {"url": "https://s.example:1", "families": [], "organizations": [], "replicates": []} | shard
    sections = {"endpoints": {}, "shards": {"s1": own}}
    sections["replication_sources"] = {store.node_id: entry(store) for store in stores}
    sections["replication_readers"] = readers or {}
    await made.bench.take(made.bench.server.snapshot(sections, "storage_directory", roles=["core_mesh"]))


@asynccontextmanager
async def copying(one, *names: str, **limits: int) -> AsyncIterator[tuple[StorageLab, list[CopiedStore]]]:
    async with storage_lab(one, **limits) as made, AsyncExitStack() as stack:
        own = made.bench.outside.joining.identity.present().der
        stores = [await stack.enter_async_context(CopiedStore(each, own).running()) for each in names]
        await name(made, *stores)
        yield made, stores


def published(made: StorageLab, node_id: str = "node-b", version: int = 7) -> dict[str, bytes]:
    """A bundle, a document, an increment and a head of one node."""
    cluster, times = made.bench.server.cluster, made.bench.server.times()
    ends_at = int(made.bench.node.now()) + 24 * HOUR
    made.made.document("route_policy", node_id, {"routes": {"north": {}}})
    increment, document = leading(cluster, **times, subject_node_id=node_id)
    return {
        "trust/1.hfs": cluster.first_bundle.to_bytes(),
        document_path(document): document.to_bytes(),
        increment_path(increment, document): increment.to_bytes(),
        head_path(node_id): made.made.head(node_id, document, config_version=version, expires_at=ends_at).to_bytes(),
    }


def kept(made: StorageLab) -> dict[str, bytes]:
    return {path: made.kept.place(path).read_bytes() for path in made.kept.files}


async def test_an_empty_store_fills_from_another_one(one, mock_clock):
    """rules P1, K32: byte for byte, what a head announces before it; nothing is fetched twice, what is new is"""
    async with copying(one, "sibling") as (made, (sibling,)):
        sibling.files = published(made)
        await made.copier.round()
        assert kept(made) == sibling.files
        assert sibling.asked == list(sibling.files), "in this order"
        assert await made.get(head_path("node-b")) == sibling.files[head_path("node-b")]
        await made.copier.round()
        assert len(sibling.asked) == len(sibling.files)
        newer = made.made.head("node-b", config_version=8)
        sibling.files[head_path("node-b")] = newer.to_bytes()
        await made.copier.round()
        assert sibling.asked[len(sibling.files) :] == [head_path("node-b")] and kept(made) == sibling.files


async def test_while_a_coordinator_keeps_it_up_nothing_is_copied(one, mock_clock):
    """It brings everything itself; once it has been silent for long, the others are asked."""
    async with copying(one, "sibling") as (made, (sibling,)):
        sibling.files = published(made)
        await made.listing()
        await made.copier.round()
        assert not sibling.listings and not made.kept.files
        mock_clock.jump(QUIET_S + 1)
        await made.copier.round()
        assert kept(made) == sibling.files


async def test_what_a_hostile_source_gives_is_refused_and_the_next_is_kept(one, mock_clock):
    """threats D-46, rules S20, K32: nothing unsigned, of another cluster, node, name, shard or time, and no older head;
    it is not asked for again; what is good comes all the same
    """
    async with copying(one, "liar") as (made, (liar,)):
        await name(made, liar, organizations=["acme"])
        document = made.made.document
        good = document("route_policy", "node-b", {"routes": {"n": {}}}, organization_ids=["acme"])
        flipped = bytearray(good.to_bytes())
        flipped[-2] ^= 1
        now = int(made.bench.node.now())
        old = {"issued_at": now - 9 * HOUR, "valid_from": now - 9 * HOUR, "refresh_after": now - 8 * HOUR}
        expired = document("route_policy", "node-c", {"routes": {}}, **old, expires_at=now - HOUR)
        foreign = document("route_policy", "node-d", {"routes": {}}, cluster_id="another")
        theirs = document("route_policy", "node-e", {"routes": {"x" * 400: {}}}, organization_ids=["globex"])
        newer, older = (made.made.head("node-b", config_version=version) for version in (7, 6))
        assert await made.put(head_path("node-b"), newer.to_bytes()) is True
        mock_clock.jump(QUIET_S + 1)
        bad = {
            document_path(good): bytes(flipped),
            document_path(expired): expired.to_bytes(),
            document_path(foreign): foreign.to_bytes(),
            document_path(theirs): theirs.to_bytes(),
            f"documents/{'a' * 64}.hfs": good.to_bytes(),
            f"documents/{'b' * 64}.hfs": b"nonsense",
            head_path("node-c"): newer.to_bytes(),
            head_path("node-b"): older.to_bytes(),
            "trust/9.hfs": made.bench.server.cluster.first_bundle.to_bytes(),
        }
        liar.files = dict(bad)
        await made.copier.round()
        assert kept(made) == {head_path("node-b"): newer.to_bytes()}
        assert sorted(liar.asked) == sorted(bad)
        assert made.bench.node.counters.of("storage_copies_refused") == len(bad) - 1  # the older head is no lie
        assert not list(made.bench.outside.storage_listener.api.taking.temporary.glob("published*"))
        liar.asked.clear()
        await made.copier.round()
        assert liar.asked == [], "it rests"
        liar.files[document_path(good)] = good.to_bytes()
        await made.copier.round()
        assert liar.asked == [document_path(good)] and await made.get(document_path(good)) == good.to_bytes()
        mock_clock.jump(REFUSED_REST_S + 1)
        await made.copier.round()
        assert sorted(liar.asked[1:]) == sorted(path for path in bad if path != document_path(good))


async def test_the_status_has_a_line_for_each_source(one, mock_clock):
    """Nothing of one that was never asked; then what came, what was refused and does not lie here, and what is wrong"""
    async with copying(one, "sibling", "away") as (made, (sibling, away)):
        reported = made.bench.outside.storage_listener.report
        assert made.bench.inside.front.report().storage == reported(), "that is what a status shows"
        before = reported()
        assert [(each.storage, each.worked_s_ago, each.copied) for each in before.sources] == [
            ("away", None, 0),
            ("sibling", None, 0),
        ]
        good = published(made)
        sibling.files = {**good, f"documents/{'b' * 64}.hfs": b"nonsense"}
        away.listed = lambda _after: FileListing({"not/ours": "0" * 64}, False)
        await made.copier.round()
        mock_clock.jump(7)
        now = reported()
        assert (now.files, now.bytes, now.most_bytes) == (4, sum(map(len, good.values())), 64 << 20)
        of = {each.storage: each for each in now.sources}
        assert of["sibling"] == replace(
            before.sources[1], worked_s_ago=of["sibling"].worked_s_ago, lacking=1, copied=4, refused=1
        )
        assert of["sibling"].worked_s_ago >= 7 and of["sibling"].error == ""
        assert (of["away"].failures, of["away"].worked_s_ago) == (1, None)
        assert "no file of ours" in of["away"].error
        assert not now.has_coordinator
        await made.listing()
        assert reported().has_coordinator


async def test_of_what_is_not_for_it_only_the_beginning_is_read(one, mock_clock):
    """A document of another organization costs what says so, not all of it."""
    async with copying(one, "sibling") as (made, (sibling,)):
        await name(made, sibling, organizations=["acme"])
        text = {str(number): {"t": "y" * 3_000} for number in range(1_500)}
        theirs = made.made.document("route_policy", "node-e", {"routes": text}, organization_ids=["globex"])
        sibling.files = {document_path(theirs): theirs.to_bytes()}
        await made.copier.round()
        assert not made.kept.files and sibling.sent < len(theirs.to_bytes()) / 2


def endless(after: str) -> FileListing:
    start = int(after[10:74], 16) + 1 if after else 0
    return FileListing({f"documents/{start + number:064x}.hfs": "0" * 64 for number in range(100)}, True)


LISTINGS = {
    "without an end": (endless, "lists more than 256 files"),
    "the same again": (lambda _: FileListing({f"documents/{'1' * 64}.hfs": "0" * 64}, True), "the same again"),
    "what is none of ours": (lambda _: FileListing({"../../etc/passwd": "0" * 64}, False), "no file of ours"),
}


@pytest.mark.parametrize("how", LISTINGS)
async def test_a_source_that_lists_nonsense_rests_and_the_other_one_is_asked(one, mock_clock, how):
    """rules P1: a bounded time; and nothing that lies here goes for it"""
    async with copying(one, "liar", "sibling", most_files=256) as (made, (liar, sibling)):
        liar.listed, said = LISTINGS[how]
        sibling.files = published(made)
        await made.copier.round()
        assert kept(made) == sibling.files
        state = made.copier._states["liar"]
        assert said in state.fault and state.not_before > trio.current_time()
        asked = liar.listings
        await made.copier.round()
        assert liar.listings == asked, "it rests"
        liar.listed, liar.files = None, published(made, "node-c")
        mock_clock.jump(EVERY_S)
        await made.copier.round()
        assert kept(made).items() >= liar.files.items() and not state.fault


async def test_one_that_gives_too_much_that_is_refused_rests(one, mock_clock):
    async with copying(one, "liar") as (made, (liar,)):
        liar.files = {f"documents/{number:064x}.hfs": b"nonsense" for number in range(MOST_REFUSED * 3)}
        await made.copier.round()
        assert len(liar.asked) == MOST_REFUSED
        assert "were refused" in made.copier._states["liar"].fault


async def test_one_that_stalls_costs_a_bounded_time(one, mock_clock, monkeypatch):
    """rules P1: the listing, and a file in the middle; the other one is asked in the same round"""
    async with copying(one, "slow", "sibling") as (made, (slow, sibling)):
        sibling.files = published(made)
        slow.files = {f"documents/{'c' * 64}.hfs": b"x" * 1_000}

        async def stalled(data):
            yield data[:10]
            await trio.sleep_forever()

        slow._send = stalled
        begun = trio.current_time()
        await made.copier.round()
        assert elapsed.since(begun) < replicating.ROUND_S
        assert kept(made) == sibling.files
        assert made.copier._states["slow"].fault


@pytest.mark.parametrize("how", ["cut off", "500"])
async def test_what_a_source_cannot_read_any_more_keeps_nothing_else_from_being_copied(one, mock_clock, how):
    """rules P1: a bad sector there, under what would come first; two in a row cost a round, and no more"""
    async with copying(one, "sibling") as (made, (sibling,)):
        good = published(made)
        bad = {f"documents/{digit * 64}.hfs": b"x" * 1_000 for digit in "013"}
        sibling.files = dict(sorted({**good, **bad}.items(), key=lambda named: named[0] in good))

        async def unreadable(data):
            if data in bad.values():
                raise OSError("Input/output error")
            yield data

        sibling._send = unreadable
        sibling.refused = set(bad) if how == "500" else set()
        for _ in range(2):
            await made.copier.round()
            assert made.copier._states["sibling"].fault
            mock_clock.jump(CAP_S)
        assert kept(made) == good
        sibling._send, sibling.refused = CopiedStore._send.__get__(sibling), set()
        mock_clock.jump(FAILED_REST_S)
        await made.copier.round()
        assert set(bad) <= set(sibling.asked)


async def test_it_is_fetched_no_faster_than_is_configured(one, mock_clock):
    async with copying(one, "sibling", copy_bytes_per_s=256 << 10) as (made, (sibling,)):
        text = {str(number): {"t": "y" * 3_000} for number in range(300)}
        document = made.made.document("route_policy", "node-b", {"routes": text})
        sibling.files = {document_path(document): document.to_bytes()}
        begun = trio.current_time()
        await made.copier.round()
        assert kept(made) == sibling.files
        assert elapsed.since(begun) >= len(document.to_bytes()) / (256 << 10) * 0.9


async def test_what_has_no_room_waits_and_loses_nothing(one, mock_clock):
    """rules L35"""
    async with copying(one, "sibling", most_bytes=1 << 20) as (made, (sibling,)):
        text = {str(number): {"t": "y" * 3_000} for number in range(200)}
        both = [made.made.document("route_policy", node_id, {"routes": text}) for node_id in ("node-b", "node-c")]
        sibling.files = {document_path(document): document.to_bytes() for document in both}
        await made.copier.round()
        assert len(kept(made)) == 1 and "store_full" in made.copier._states["sibling"].fault
        (there,) = made.kept.files
        await made.writer.fetch(made.to, Call("DELETE", f"/{there}"))
        del sibling.files[there]
        mock_clock.jump(QUIET_S + 1)
        await made.copier.round()
        assert kept(made) == sibling.files


async def test_what_no_source_lists_makes_room_for_what_they_list(one, mock_clock):
    """rules L35, P1: a store that is full of what was replaced does not stay so, and asks no more often for it"""
    async with copying(one, "sibling", most_bytes=1 << 20) as (made, (sibling,)):
        text = {str(number): {"t": "y" * 3_000} for number in range(200)}
        both = [made.made.document("route_policy", node_id, {"routes": text}) for node_id in ("node-b", "node-c")]
        old, new = ({document_path(document): document.to_bytes()} for document in both)
        sibling.files = old
        await made.copier.round()
        sibling.files = new
        await made.copier.round()
        assert kept(made) == old and "store_full" in made.copier._states["sibling"].fault
        asked = list(sibling.asked)
        await made.copier.round()
        assert sibling.asked == asked, "it rests"
        for _ in range(2):
            mock_clock.jump(GRACE_S + 1)
            await made.copier.round()
        assert kept(made) == new and not made.copier._states["sibling"].fault


async def test_what_is_damaged_here_is_fetched_again(one, mock_clock):
    async with copying(one, "sibling") as (made, (sibling,)):
        sibling.files = published(made)
        await made.copier.round()
        (path,) = (path for path in sibling.files if path.startswith("documents/"))
        place = made.kept.place(path)
        place.write_bytes(place.read_bytes()[:-3] + b"zzz")
        await made.bench.node.threads.read(made.kept.load, made.bench.node.now())
        await made.copier.round()
        assert kept(made) == sibling.files
        sibling.files[path] = b"another one, of which the source alone says that it is right"
        sibling.asked.clear()
        await made.copier.round()
        assert sibling.asked == []


async def test_what_no_source_lists_goes_after_the_grace_but_for_what_is_needed(one, mock_clock):
    """A source that was emptied, or taken over, empties nobody: heads in their time stay, and what these list."""
    async with copying(one, "sibling", "other") as (made, (sibling, other)):
        files = published(made)
        (increment,) = (path for path in files if path.startswith("increments/"))
        loose = made.made.document("route_policy", "node-z", {"routes": {}})
        sibling.files = files | {document_path(loose): loose.to_bytes()}
        await made.copier.round()
        assert kept(made) == sibling.files
        both = dict(sibling.files)
        sibling.files = {}
        other.files = {increment: files[increment]}
        await made.copier.round()
        assert kept(made) == both
        mock_clock.jump(GRACE_S + 1)
        await made.copier.round()
        assert set(kept(made)) == set(files), "the loose one has gone; the other source has the increment still"
        other.listed = LISTINGS["what is none of ours"][0]
        mock_clock.jump(GRACE_S + 1)
        await made.copier.round()
        assert kept(made) == files, "not all have answered"
        other.listed, other.files = None, {}
        mock_clock.jump(GRACE_S + 1)
        await made.copier.round()
        mock_clock.jump(GRACE_S + 1)
        await made.copier.round()
        assert kept(made) == {path: data for path, data in files.items() if path != increment}
        mock_clock.jump(24 * HOUR)
        for _ in range(2):
            await made.copier.round()
            assert set(kept(made)) == {"trust/1.hfs"}, "no head is in its time"


async def test_a_disk_that_lets_nothing_go_keeps_nobody_from_being_served(one, mock_clock):
    """rules L35: what is to be remembered has no room; it goes once it has"""
    async with copying(one, "sibling") as (made, (sibling,)):
        sibling.files = published(made)
        await made.copier.round()
        (made.kept.place("removed")).mkdir()
        before, sibling.files = kept(made), {}
        mock_clock.jump(25 * HOUR)
        await made.copier.round()
        mock_clock.jump(GRACE_S + 1)
        await made.copier.round()
        assert kept(made) == before
        made.kept.place("removed").rmdir()
        for _ in range(2):
            await made.copier.round()
        assert set(kept(made)) == {"trust/1.hfs"}


async def test_nothing_goes_once_a_coordinator_is_there_again(one, mock_clock):
    """rules K32: it comes while a source is asked, has seen what lies here, and does not bring that again"""
    async with copying(one, "sibling") as (made, (sibling,)):
        loose = made.made.document("route_policy", "node-z", {"routes": {}})
        sibling.files = {document_path(loose): loose.to_bytes()}
        await made.copier.round()
        both, sibling.files = kept(made), {}
        await made.copier.round()
        mock_clock.jump(GRACE_S + 1)

        def meanwhile(_: str) -> FileListing:
            made.bench.outside.storage_listener.api.brought_at = trio.current_time()
            return FileListing({}, False)

        sibling.listed = meanwhile
        await made.copier.round()
        assert kept(made) == both
        sibling.listed = None
        for wait_s in (QUIET_S + 1, GRACE_S - 1):
            mock_clock.jump(wait_s)
            await made.copier.round()
            assert kept(made) == both, "the grace begins anew"
        mock_clock.jump(2)
        await made.copier.round()
        assert not kept(made)


async def test_who_is_named_may_list_and_nothing_else(one, mock_clock):
    """threats D-31: by the certificate in the signed directory; taken out of it, no more over an open connection"""
    async with copying(one) as (made, _):
        await made.put("trust/1.hfs", made.bench.server.cluster.first_bundle.to_bytes())
        asker = made.made.asker("store-2")
        call = Call("GET", "/v1/files", limit=FileListing.MOST_BYTES)

        async def refused(call: Call) -> int | None:
            with pytest.raises(ClientError) as caught:
                await asker.client.fetch(made.to, call)
            return caught.value.status

        assert await refused(call) is None, "not even let in"
        pins = {"store-2": {"certificates": [base64.b64encode(asker.pair.der).decode()]}}
        await name(made, readers=pins)
        await trio.testing.wait_all_tasks_blocked()
        answer = FileListing.read((await asker.client.fetch(made.to, call)).body)
        assert set(answer.files) == {"trust/1.hfs"}
        assert (await asker.client.fetch(made.to, Call("GET", "/trust/1.hfs", limit=1 << 20))).body
        for other in (Call("PUT", "/trust/1.hfs", body=b"x"), Call("DELETE", "/trust/1.hfs")):
            assert await refused(other) == 404
        assert hashlib.sha256(await made.get("trust/1.hfs")).hexdigest() == answer.files["trust/1.hfs"]
        await name(made)
        assert await refused(call) in (404, None)
        assert await made.listing()


async def test_a_head_that_was_taken_away_makes_no_room_for_an_older_one(one, mock_clock):
    """rules K32, threats D-46: by whoever may write here, also after a restart; the next newer one comes."""
    async with copying(one, "liar") as (made, (liar,)):
        heads = {version: made.made.head("node-b", config_version=version).to_bytes() for version in (6, 7, 8)}
        path = head_path("node-b")
        assert await made.put(path, heads[7]) is True
        await made.writer.fetch(made.to, Call("DELETE", f"/{path}"))
        assert await made.put(path, heads[6]) == (409, "older")
        made.kept._files, made.kept._gone = {}, {}
        await made.bench.node.threads.read(made.kept.load, made.bench.node.now())
        assert await made.put(path, heads[6]) == (409, "older")
        liar.files = {path: heads[6]}
        mock_clock.jump(QUIET_S + 1)
        await made.copier.round()
        assert not made.kept.files and liar.asked == [path]
        assert await made.put(path, heads[8]) is True


async def test_a_bundle_that_was_followed_is_the_one_that_was_followed(one, mock_clock):
    """threats D-46: not merely one that says that it is of long ago"""
    async with copying(one, "liar") as (made, (liar,)):
        cluster = made.bench.server.cluster
        good, end = cluster.first_bundle.to_bytes(), cluster.first_bundle.envelope.expires_at
        made.bench.outside.relay.take_bundle(1, good)
        bad = cluster.forge(cluster.first_bundle, expires_at=format_time(end - 1)).to_bytes()
        assert await made.put("trust/1.hfs", bad) == (422, "version_conflict")
        liar.files = {"trust/1.hfs": bad}
        mock_clock.jump(QUIET_S + 1)
        await made.copier.round()
        assert not made.kept.files
        assert await made.put("trust/1.hfs", good) is True

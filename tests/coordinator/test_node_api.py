"""What nodes ask over real TLS: who may, what they get, and what they are told (protocol 1, 3)."""

import json
import ssl
import threading
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from sqlalchemy import delete

from coordinator.api.node_api import LARGE_REPORT_BYTES, PROOFS_PER_MINUTE, REPORTS_PER_MINUTE, WHOLE_BYTES
from coordinator.database import documents, schema, uploads
from coordinator.database.documents import StoredObject, container_of
from coordinator.declared import contents
from coordinator.publishing import heads, newcomers
from coordinator.publishing.handouts import Handouts
from coordinator.reports import heartbeat_form
from snapshot import envelope
from snapshot.container import ChunkParts
from snapshot.identifiers import format_time
from tests.coordinator import reports
from tests.coordinator.daemon import Follower, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.fakes.binary import random_bytes
from tests.fakes.resigned import unreadable_for_tls
from wire import messages
from wire.client import Call, ClientError, ClientFault
from wire.messages import HeadAnswer

STATE = """
kind: Node
id: node-a
spec: {roles: [core_mesh]}
---
kind: DegradedModePolicy
id: standard
spec: {allow: [continue_services]}
"""


@pytest.fixture
def founded(tmp_path: Path, database_url: str) -> Founded:
    """On SQLite and on PostgreSQL."""
    return Founded(tmp_path, database_url, settings="joins_per_minute = 1000")


def _id_of(document: bytes) -> str:
    return envelope.parse(ChunkParts([document]).opening().envelope, "snapshot").snapshot_id


def report(node: TlsNode, **other: object) -> bytes:
    at = format_time(int(node.at.founded.now))
    return reports.body(node.node_id, {"node_runtime": 1}, sent_at=at, **other)


# ---- joining


async def test_a_join_and_again(founded: Founded) -> None:
    """rules X19, J12, J9, J10, K31: admitted first, then already_member, each with a full grant."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        first = node.grant
        again = await node.join(None)
        assert again.outcome == "already_member" and again.coordinator_id == "coord-1"
        assert again.documents == first.documents and len(again.documents) == 2
        follower = Follower(node)
        follower.take(again.documents[1], "snapshot")
        assert set(follower.holder.active) == {"trust_bundle", "node_bootstrap"}


PAIR = "\n---\n".join(
    f"{{kind: Node, id: {id_}, spec: {{roles: [core_mesh], addresses: ['h:1']}}}}" for id_ in ("node-a", "node-b")
)


def _is_behind(at: Running, node_id: str) -> bool:
    with at.daemon.coordinator.database.read() as transaction:
        basis = heads.bases(transaction)[node_id]
    return basis.published < basis.generation


async def test_a_grant_waits_for_nobody_who_joins_later(founded: Founded, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules J9, J12: what others are told of newcomers may wait, and who asks again for its own grant does not; what is
    in no memory is read.
    """
    monkeypatch.setattr(newcomers, "QUIET_S", 3_600.0)
    monkeypatch.setattr(newcomers, "MOST_S", 3_600.0)
    async with running(founded) as at:
        await at.declare(PAIR)
        node = await at.admit("node-a")
        other = await at.admit("node-b")
        assert _is_behind(at, "node-a")
        again = await node.join(None)
        assert again.outcome == "already_member" and again.documents[:-1] == node.grant.documents[:-1]
        assert not _is_behind(at, "node-a")
        at.daemon.coordinator.publisher.handouts = Handouts(0)
        first = other.grant.documents
        assert (await other.join(None)).documents == first and first[:-1] == again.documents[:-1]


async def test_a_refused_join_gets_the_code_alone(founded: Founded) -> None:
    """rules J20, H-000-4, X20, J16: the details are in the audit log."""
    async with running(founded) as at:
        stranger = TlsNode(at, "stranger")
        token = await at.token()
        with pytest.raises(ClientError) as found:
            await stranger.join(token)
        assert found.value.code == "unauthorized_peer" and "stranger" not in found.value.detail
        entries = (await at.ask("GET", "/v1/audit?action=join"))["entries"]
        assert entries[0]["outcome"] == "unauthorized_peer"
        assert "peer stranger is not an authorized cluster member" in entries[0]["after"]["detail"]
        assert await refusal(stranger.join(token, cluster_id="elsewhere")) == "wrong_cluster"
        assert await refusal(stranger.join(None)) == "bad_token"
        await at.ask("POST", "/v1/allowlist/stranger", {"kind": "witness"})
        assert await refusal(stranger.join(token)) == "kind_mismatch"
        assert (await at.ask("GET", "/v1/nodes"))["nodes"] == []


async def test_a_certificate_that_tls_cannot_read_joins_nobody(founded: Founded) -> None:
    """rules J26, threats M07: it would be one of those that the next context of the listener is made of, which is when
    a pin goes.
    """
    async with running(founded) as at:
        node, eve = await at.admit("node-a"), TlsNode(at, "eve")
        await at.ask("POST", "/v1/allowlist/eve", {})
        token, key = await at.token(), load_pem_private_key(eve.pair.key_pem, None)
        assert await refusal(eve.join(token, certificate=unreadable_for_tls(eve.pair.der, key, "eve"))) == "bad_proof"
        renewed = TlsNode(at, "node-a")
        await renewed.join(None, over=node)
        assert (await renewed.head()).status == 200
        await at.daemon.transports.fleet.wait_settled()
        assert (await eve.join(token)).outcome == "admitted"
        assert (await eve.head()).status == 200


async def test_a_proof_for_something_else_is_refused(founded: Founded) -> None:
    """rules J3, J26"""
    async with running(founded) as at:
        await at.ask("POST", "/v1/allowlist/node-a", {})
        node, other = TlsNode(at, "node-a"), TlsNode(at, "node-b")
        token = await at.token()
        assert await refusal(node.join(token, certificate=other.pair.der)) == "bad_proof"
        assert await refusal(node.join(token, server="sha256:" + "0" * 64)) == "bad_proof"
        assert await refusal(node.join(token, nonce="1800000000." + "0" * 32 + "." + "0" * 64)) == "bad_proof"
        assert (await node.join(token)).outcome == "admitted"


async def test_a_certificate_is_renewed_over_the_old_one_and_both_hold_until_then(founded: Founded) -> None:
    """protocol 1; rules X8, K54"""
    async with running(founded) as at:
        old = await at.admit("node-a")
        new = TlsNode(at, "node-a")
        assert (await new.join(None, over=old)).outcome == "already_member"
        assert (await old.head()).status == 200
        assert (await new.head()).status == 200
        with pytest.raises(ClientError):
            await TlsNode(at, "node-a", pair=old.pair).head()
        assert (await new.head()).status == 200


async def test_a_new_incarnation_of_a_known_node_is_given_all_of_it(founded: Founded) -> None:
    """rules K40, K39: its store is another one; the name and what it is to have stay, and a base of before is none"""
    async with running(founded) as at:
        first = Follower(await at.admit("node-a"))
        await first.sync(wait=10)
        await at.declare(STATE)
        await first.sync(wait=60)
        anew = TlsNode(at, "node-a")
        await anew.join(await at.token("node-a"), incarnation="i-2")
        follower = Follower(anew)
        await follower.sync(wait=10)
        assert {kind for kind, _ in follower.fetched} == {"head", "snapshot"}
        for scope, mark in follower.holder.marks.items():
            assert scope == "head" or mark.content_hash == first.holder.marks[scope].content_hash
        assert await refusal(anew.increment("node_runtime", 999)) == "not_found"
        assert [entry["node_id"] for entry in (await at.ask("GET", "/v1/nodes"))["nodes"]] == ["node-a"]


async def test_joins_from_one_address_are_limited(tmp_path: Path) -> None:
    """rules, Numbers: join rate; the answer says when to come again."""
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", settings="joins_per_minute = 2")
    async with running(founded) as at:
        node = TlsNode(at, "node-a")
        for _ in range(2):
            await refusal(node.stranger.fetch(at.joining, Call("POST", "/v1/join", (), b"{}")))
        with pytest.raises(ClientError) as found:
            await node.stranger.fetch(at.joining, Call("POST", "/v1/join", (), b"{}"))
        assert (found.value.status, found.value.code) == (429, "too_many_requests")
        assert found.value.retry_after_s >= 1


async def test_the_limit_of_joins_counts_joins(tmp_path: Path) -> None:
    """rules, Numbers: join rate; the nonce that each of them needs takes none of it, and has a limit of its own."""
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", settings="joins_per_minute = 4")
    async with running(founded) as at:
        for number in range(4):
            await at.admit(f"n{number}")
        codes = []
        for _ in range(9):
            try:
                await TlsNode(at, "n9").stranger.fetch(at.joining, Call("GET", "/v1/join/nonce"))
            except ClientError as error:
                codes.append(error.code)
        assert codes and set(codes) == {"too_many_requests"}


async def test_reports_and_proofs_of_one_node_are_limited(founded: Founded) -> None:
    """rules P23: a member that never stops keeps nobody else from being heard, who has the same address."""
    async with running(founded) as at:
        node, other = await at.admit("node-a"), await at.admit("node-b")
        kinds = {
            "/v1/heartbeat": (REPORTS_PER_MINUTE, b"{}", "bad_request"),
            "/v1/head": (PROOFS_PER_MINUTE, b"", "bad_proof"),
        }
        for path, (most, body, verdict) in kinds.items():
            told = [verdict]
            while told[-1] == verdict:  # the bucket fills again, slowly, while this goes on
                told.append(await refusal(node.client.fetch(at.fleet, Call("POST", path, (), body))))
            assert told[-1] == "too_many_requests"
            assert len(told) - 2 >= most
            assert await refusal(other.client.fetch(at.fleet, Call("POST", path, (), body))) == verdict
        assert (await other.report(report(other)))["generation"] >= 1
        assert (await node.head(wait=10)).status == 200


# ---- who is let in


async def test_a_certificate_that_is_not_pinned_does_not_get_in(founded: Founded) -> None:
    """rules X3; threats M01; rules J46: on the fleet listener there is nothing without a proven identity."""
    async with running(founded) as at:
        await at.admit("node-a")
        forged = TlsNode(at, "node-a")
        with pytest.raises(ClientError) as found:
            await forged.head()
        assert found.value.reason in (ClientFault.TLS_FAILED, ClientFault.CONNECT_FAILED, ClientFault.TRUNCATED)
        nobody = TlsNode(at, "node-c")
        with pytest.raises(ClientError):
            await nobody.stranger.fetch(at.fleet, Call("GET", "/v1/head"))
        assert await refusal(nobody.stranger.fetch(at.joining, Call("GET", "/v1/head"))) == "not_found"


async def test_tls_older_than_1_3_is_refused(founded: Founded) -> None:
    """threats D-30"""
    async with running(founded) as at:
        context = ssl.create_default_context(cafile=str(founded.folder / "ca.pem"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        for port in (at.ports.fleet, at.ports.join):
            raw = await trio.open_tcp_stream("127.0.0.1", port)
            stream = trio.SSLStream(raw, context, server_hostname="localhost")
            with pytest.raises(trio.BrokenResourceError):
                await stream.do_handshake()
            await trio.aclose_forcefully(stream)


async def test_a_revoked_node_is_told_and_gets_its_last_head(founded: Founded) -> None:
    """rules K22, K33, K54; threats M07: what is open ends, what comes again is answered `revoked`."""
    async with running(founded) as at:
        node, other = await at.admit("node-a"), await at.admit("node-b")
        follower = Follower(node)
        await follower.sync()
        await at.ask("POST", "/v1/nodes/node-a/revoke", {"reason": "stolen"})
        beside = Follower(other)
        while not beside.holder.revocations.node_ids:
            await beside.sync(wait=10)
        assert beside.holder.revocations.node_ids == {"node-a"}
        while await_head := await _head_or_code(node, follower.generation):
            follower.take(await_head, "head")
        assert follower.holder.revocations.node_ids == {"node-a"}
        assert set(follower.holder.active) <= {"trust_bundle", "head"}
        assert await refusal(node.report(report(node))) == "revoked"
        assert await refusal(node.get("/v1/documents/anything")) == "revoked"
        assert (await node.get("/v1/trust?from=0")).status == 200
        assert await refusal(node.join(None)) == "revoked"


async def _head_or_code(node: TlsNode, generation: int) -> bytes | None:
    try:
        return (await node.head(generation, 1)).body
    except ClientError as error:
        assert error.code == "revoked", error
        return None


async def test_a_removed_node_is_told_so_also_after_a_restart(founded: Founded) -> None:
    """rules H-000-2, K33, P29"""
    async with running(founded) as at:
        node = await at.admit("node-a")
        await at.ask("POST", "/v1/nodes/node-a/drain")
        await at.ask("POST", "/v1/nodes/node-a/remove", {"reason": "gone"})
        assert await refusal(node.head()) == "removed"
        assert await refusal(node.report(report(node))) == "removed"
        assert await refusal(node.join(await at.token())) == "removed"
    async with running(founded) as at:
        again = TlsNode(at, "node-a", pair=node.pair)
        assert await refusal(again.head()) == "removed"
        await at.ask("POST", "/v1/nodes/node-a/readmit", {"kind": "data"})
        assert (await again.join(await at.token("node-a"))).outcome == "admitted"
        assert (await again.head()).status == 200


async def test_a_revoked_node_that_was_readmitted_reports_with_its_new_key(founded: Founded) -> None:
    """rules H-000-2, K22, K33: its former certificate stays known as revoked, and speaks for nobody."""
    async with running(founded) as at:
        former = await at.admit("node-a")
        await at.ask("POST", "/v1/nodes/node-a/revoke", {"reason": "lent out"})
        await at.ask("POST", "/v1/nodes/node-a/readmit", {"kind": "data"})
        node = await at.admit("node-a")
        assert (await node.head()).status == 200
        await node.report(report(node))
        assert await refusal(former.report(report(former))) == "revoked"
        await node.report(report(node))
        assert (await at.ask("GET", "/v1/fleet"))["members"] == 1


async def test_a_node_that_was_readmitted_twice_still_renews_its_certificate(founded: Founded) -> None:
    """rules H-000-2, X8: what is kept of former certificates takes no place of those in use"""
    async with running(founded) as at:
        for _ in range(2):
            await at.admit("node-a")
            await at.ask("POST", "/v1/nodes/node-a/revoke", {"reason": "lent out"})
            await at.ask("POST", "/v1/nodes/node-a/readmit", {"kind": "data"})
        node = await at.admit("node-a")
        renewed = TlsNode(at, "node-a")
        assert (await renewed.join(None, over=node)).outcome == "already_member"
        assert (await renewed.head()).status == 200
        await renewed.report(report(renewed))


# ---- the head


async def test_a_long_poll_is_answered_by_the_next_publication(founded: Founded) -> None:
    """rules K20, K21, J42"""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follower.sync, 30)
            await at.polls_held(1)
            await at.declare(STATE)
        assert follower.holder.roles == {"core_mesh"}
        assert "degraded_mode_policy" in follower.holder.active


async def test_small_documents_come_with_the_head_for_who_asks_for_them(founded: Founded) -> None:
    """protocol 1, rules L17: what the head lists anew, to who holds the one before it, within what it takes"""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        held = follower.generation
        await at.declare(STATE)
        target = f"/v1/head?generation={held}&epoch=1&wait=9"
        answer = await follower.node.get(f"{target}&inline={1 << 30}", wait_s=9)
        said = HeadAnswer.parse(answer.headers["content-type"], answer.body)
        assert answer.headers["content-type"] == "application/vnd.holdfast.documents"
        head = follower.take(said.head, "head").head
        brought = set(map(_id_of, said.documents))
        assert brought and brought <= {listed.snapshot_id for listed in head.scopes.values()}
        for each in said.documents:
            assert (await follower.node.get(f"/v1/documents/{_id_of(each)}")).body == each
        for more in ("", "&inline=0", "&inline=10"):
            alone = await follower.node.get(f"{target}{more}")
            assert (alone.headers["content-type"], alone.body) == ("application/vnd.holdfast.document", said.head)
        behind = await follower.node.get("/v1/head?generation=0&epoch=0&inline=32768")
        assert behind.body == said.head, "whoever holds another head than the one before it asks by itself"
        assert await refusal(follower.node.get(f"{target}&inline=-1")) == "bad_request"


async def test_without_news_the_poll_ends_and_the_head_stays(founded: Founded) -> None:
    """rules K20: 204 leaves the held map as it is."""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        answer = await follower.node.head(follower.generation, 1, wait=1)
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["holdfast-coordinator"] == "coord-1"


async def test_who_holds_a_lower_pair_gets_the_head_at_once(founded: Founded) -> None:
    """rules K20, K32: the epoch counts first, then the generation; seed 002's 'unchanged or the new documents'"""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        await at.declare(STATE)
        await follower.sync(30)
        assert follower.generation > 1
        lower = ((0, 0), (0, follower.generation + 1), (1, 1))  # nothing, an older epoch, an older head
        for epoch, generation in lower:
            assert (await follower.node.head(generation, epoch)).status == 200
        assert (await follower.node.head(follower.generation, 1)).status == 204


async def test_a_node_that_is_ahead_gets_nothing_and_an_alarm(founded: Founded) -> None:
    """rules K37, K41"""
    async with running(founded) as at:
        node = await at.admit("node-a")
        assert (await node.head(generation=1_000, epoch=9)).status == 204
        assert (await at.ask("GET", "/v1/status"))["alarms"] == {"node_ahead": 1}


async def test_a_head_request_out_of_form_is_refused(founded: Founded) -> None:
    async with running(founded) as at:
        node = await at.admit("node-a")
        for query in ("generation=x", "generation=-1", "wait=301", "wait=1&wait=2", "epoch=9007199254740992"):
            assert await refusal(node.get(f"/v1/head?{query}")) == "bad_request", query


async def test_a_protocol_that_is_not_served_is_refused_before_any_change(founded: Founded) -> None:
    """rules K45: and the next request, in the one that is, goes through"""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        assert (await follower.node.get("/v1/head?protocol=1")).status == 200
        before = await at.ask("GET", "/v1/nodes/node-a")
        assert await refusal(follower.node.get("/v1/head?protocol=2&generation=1&epoch=9")) == "unsupported_protocol"
        assert (await at.ask("GET", "/v1/status"))["alarms"] == {}
        after = await at.ask("GET", "/v1/nodes/node-a")
        for scope in (*before["scopes"], *after["scopes"]):
            del scope["behind_s"]  # time goes by
        assert after == before
        assert await follower.sync()


# ---- documents


FOLDER = "{kind: Config, id: edge, spec: {to: {nodes: [node-a]}, files: {big: {file: big}}}}"


async def test_a_large_folder_is_sent_as_it_is_read(founded: Founded) -> None:
    """Byte for byte what it is as a whole; what names its sections alone has none of them in memory."""
    big = random_bytes(WHOLE_BYTES + 1)
    async with running(founded) as at:
        mine, database = Follower(await at.admit("node-a")), at.daemon.coordinator.database
        await mine.sync()
        parts = contents.split(big)
        uploads.add_all(database, parts, now=at.founded.now)
        uploaded = contents.UploadedFile(len(big), tuple(map(contents.digest, parts)))
        await at.declare(f"{STATE}---\n{FOLDER}", {"big": uploaded})
        while "config/edge" not in mine.holder.active:
            assert await mine.sync(wait=30)
        with database.read() as transaction:
            entry = documents.listing(transaction, "node-a")["config/edge"]
        named = documents.document(database, "node-a", entry.snapshot_id, most=WHOLE_BYTES)
        assert all(isinstance(section, StoredObject) for section in named.sections)
        answer = await mine.node.get(f"/v1/documents/{entry.snapshot_id}")
        whole = container_of(documents.document(database, "node-a", entry.snapshot_id))
        assert answer.body == whole and answer.headers["content-length"] == str(len(whole))
        with database.record() as transaction:
            transaction.run(delete(schema.objects).where(schema.objects.c.key == named.sections[-1].key))
        assert await refusal(mine.node.get(f"/v1/documents/{entry.snapshot_id}")) == "not_found"  # and no part of it
        uploads.add_all(database, parts, now=at.founded.now)
        assert (await mine.node.get(f"/v1/documents/{entry.snapshot_id}")).body == whole


async def test_a_node_is_served_only_what_is_for_it(founded: Founded) -> None:
    """rules L17; protocol 1; rules L19: everything else does not exist."""
    async with running(founded) as at:
        mine, other = Follower(await at.admit("node-a")), await at.admit("node-b")
        await mine.sync()
        listed = at.daemon.coordinator
        with listed.database.read() as transaction:
            entry = documents.listing(transaction, "node-a")["node_runtime"]
            bundle = documents.listing(transaction, "node-a")["trust_bundle"]
        assert await refusal(other.get(f"/v1/documents/{entry.snapshot_id}")) == "not_found"
        assert (await other.get(f"/v1/documents/{bundle.snapshot_id}")).status == 200
        answer = await mine.node.get(f"/v1/documents/{entry.snapshot_id}")
        assert answer.headers["content-type"] == "application/vnd.holdfast.document"
        tag = answer.headers["etag"]
        again = await mine.node.get(f"/v1/documents/{entry.snapshot_id}", headers=(("if-none-match", tag),))
        assert (again.status, again.body) == (304, b"")
        for path in (
            "/v1/documents/0123", "/v1/documents/..%2Fetc", "/v1/increments/node_runtime?base=1",
            "/v1/increments/route_policy%2Fa,b?base=1", "/v1/increments/Not%20a%20scope?base=1",
            "/v1/recoveries/node_runtime", "/v1/nothing",
        ):  # fmt: skip
            assert await refusal(mine.node.get(path)) == "not_found"


async def test_trust_bundles_come_in_order_from_the_one_that_is_held(founded: Founded) -> None:
    """rules S35, S36"""
    import base64

    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        for _ in range(2):
            document = base64.b64encode(founded.bundles.next()).decode()
            await at.ask("POST", "/v1/trust", {"document": document})
        while follower.holder.bundle.version < 3:
            await follower.sync(wait=10)
        assert json.loads((await follower.node.get("/v1/trust?from=3")).body) == {"documents": []}


# ---- heartbeats


async def test_a_heartbeat_is_answered_after_it_is_kept(founded: Founded) -> None:
    """rules K30, S70, S30: it is recorded, and changes nothing that is published."""
    async with running(founded) as at:
        follower = Follower(node := await at.admit("node-a"))
        await follower.sync()
        content = follower.holder.marks["node_runtime"].content_hash
        held = reports.scope({**reports.mark(1), "content_hash": content})
        head = (await node.head()).body
        answer = await node.report(report(node, scopes={"node_runtime": held}, journal=reports.events(1, 2)))
        assert answer["acknowledged_event"] == 2 and answer["directives"] == []
        assert answer["recorded"] == {"node_runtime": {"authority_epoch": 1, "config_version": 1}}
        fleet = await at.ask("GET", "/v1/fleet")
        assert fleet["states"] == {"active": 1} and fleet["baseline_shortfall"] == 2
        assert (await at.ask("GET", "/v1/status"))["alarms"] == {}
        assert (await node.head()).body == head


async def test_a_heartbeat_that_is_out_of_form_or_not_the_nodes_own_is_refused(founded: Founded) -> None:
    """rules K33, K53, P23: `bad_request`, never a 500; and nothing of it is kept."""
    founded.settings += "\nheartbeat_bytes = 65536"
    async with running(founded) as at:
        node, other = await at.admit("node-a"), await at.admit("node-b")
        good = report(node)
        texts = (b"{}", b"[]", b"{", good.replace(b"active", b"ac\\u0000ive"))
        encodings = (good.decode().encode(name) for name in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig"))
        for bad in (*texts, *encodings, good.replace(b"active", b"BANANA")):
            assert await refusal(node.report(bad)) == "bad_request"
        assert await refusal(node.report(report(other))) == "identity_conflict"
        assert await refusal(node.report(good.replace(b'"node-a"', b'"node-z"'))) == "removed"
        assert await refusal(node.report(good.replace(b'"prod"', b'"stage"'))) == "wrong_cluster"
        assert await refusal(node.report(b" " * (65 << 10))) == "too_large"
        assert (await at.ask("GET", "/v1/fleet"))["states"] == {"unseen": 2}
        assert (await node.report(good))["generation"] >= 1
        later = good[:-1] + b',"x":[{"y":"\\u001b[2J"}]}'  # of a later release: it is passed over, and counted
        assert (await node.report(later))["generation"] >= 1
        assert at.daemon.coordinator.collector.newer == 1
        assert (await at.ask("GET", "/v1/fleet"))["states"] == {"active": 1, "unseen": 1}
        assert b"holdfast_coordinator_newer_reports_total 1.0" in (await at.probe("/metrics"))[1]


async def test_a_large_report_is_not_read_by_the_event_loop(founded: Founded, monkeypatch) -> None:
    """rules P23: nobody waits behind a thousand scopes, of a later release or of this one; a small one is read at
    once. It comes to the same.
    """
    read, loop = [], threading.get_ident()

    def look(name: str, function):
        def watched(*arguments, **named):
            read.append((name, threading.get_ident() == loop))
            return function(*arguments, **named)

        return watched

    monkeypatch.setattr(heartbeat_form, "_parse", look("parsed", heartbeat_form._parse))
    async with running(founded) as at:
        node = await at.admit("node-a")
        scopes = {f"route_policy/org{number}": reports.scope(reports.mark(1)) for number in range(1_000)}
        body = report(node, scopes=scopes)
        assert LARGE_REPORT_BYTES < len(body) < 1 << 20
        for said, times, newer in ((body, 1, 0), (body[:-1] + b',"x":1}', 2, 2)):
            for _ in range(2):
                assert (await node.report(said))["generation"] >= 1
            assert read == [("parsed", False)] * times
            assert at.daemon.coordinator.collector.newer == newer
            read.clear()
        assert (await at.ask("GET", "/v1/fleet"))["states"] == {"active": 1}
        assert await refusal(node.report(body[:-1])) == "bad_request"
        read.clear()
        assert (await node.report(report(node)))["generation"] >= 1
        assert read == [("parsed", True)]


# ---- storms


async def test_the_least_urgent_is_turned_away_first(founded: Founded) -> None:
    """What keeps nodes out of degraded mode goes last; everybody is told when to come again."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        gate = at.daemon.servers["fleet"]._service.gate
        asks = {
            "document": lambda: node.get("/v1/trust?from=0"),
            "join": lambda: node.join(None),
            "heartbeat": lambda: node.report(report(node)),
            "head": node.head,
        }
        for busy, served in ((0.4, 4), (0.6, 3), (0.75, 2), (0.9, 1), (1.0, 0)):
            gate.occupy(slots := int(gate.capacity * busy))
            turned_away = []
            for name, ask in asks.items():
                try:
                    await ask()
                except ClientError as error:
                    assert (error.status, error.code) == (503, "overloaded")
                    assert error.retry_after_s >= 2
                    turned_away.append(name)
            assert turned_away == list(asks)[: 4 - served]
            gate.occupy(-slots)


async def test_a_heartbeat_as_the_agent_writes_it_is_taken(founded: Founded) -> None:
    """Both ends read one message alike (protocol 3)."""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        now = int(founded.now)
        held = follower.holder.active["node_runtime"].envelope
        active = messages.Active(
            held.authority_epoch, held.config_version, follower.holder.marks["node_runtime"].content_hash,
            held.snapshot_id, held.signer_key_id, now, held.expires_at, "fresh",
        )  # fmt: skip
        rejected = messages.LastRejected(None, None, "too_large", 0, now)
        sent = messages.Heartbeat(
            node_id="node-a",
            cluster_id="prod",
            incarnation="i-1",
            boot_id="boot-1",
            agent_version="0.1.0",
            sent_at=now,
            uptime_s=5,
            state="active",
            mode="normal",
            degraded_since=None,
            clock=messages.ClockReport(None, 0),
            head=messages.HeadReport(follower.generation, 1, 3, "fresh"),
            scopes={
                "node_runtime": messages.ScopeReport(
                    active, None, None, rejected, {"web": messages.NotifiedVersion(1, True)}
                )
            },
            trust_bundle_version=1,
            counters={"rejections": 1},
            journal=(messages.HeartbeatEvent(1, now, "activated", "node_runtime", "ok"),),
        )
        answer = messages.HeartbeatAnswer.parse(json.dumps(await follower.node.report(sent.to_bytes())).encode())
        assert answer.generation == follower.generation and answer.acknowledged_event == 1
        assert answer.recorded["node_runtime"].config_version == held.config_version


async def test_one_node_has_two_documents_on_the_way_and_the_others_are_served(founded: Founded) -> None:
    """Occupy: a third one is refused to that node alone, for as long as the two last."""
    async with running(founded) as at:
        nodes = [await at.admit("node-a"), await at.admit("node-b")]
        followers = [Follower(node) for node in nodes]
        paths = []
        for follower in followers:
            head = follower.take((await follower.node.head()).body, "head").head
            paths.append(f"/v1/documents/{head.scopes['node_bootstrap'].snapshot_id}")
        routes = at.daemon.servers["fleet"]._service.routes
        (share,) = {route.each for same in routes._by_length.values() for route in same if route.each is not None}
        assert share.take("node:node-a") and share.take("node:node-a")
        with pytest.raises(ClientError) as found:
            await nodes[0].get(paths[0])
        assert (found.value.status, found.value.code, found.value.retry_after_s) == (429, "too_many_requests", 5)
        assert (await nodes[1].get(paths[1])).status == 200
        assert (await nodes[0].head()).status == 200
        share.give_back("node:node-a")
        assert (await nodes[0].get(paths[0])).status == 200
        with trio.fail_after(60):
            while len(share) > 1:
                await trio.testing.wait_all_tasks_blocked(0.01)

"""A database that was restored from an old backup, proven by the head that a node holds (rules K41, P30, X12)."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing
from sqlalchemy import select, update

from coordinator.changes.records import ChangeNode
from coordinator.changes.states import ChangeState
from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.keys import server_certificate
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import ca_exchange
from tests.coordinator import reports
from tests.coordinator.begun_changes import begin
from tests.coordinator.daemon import Follower, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from wire.certificate import fingerprint, make_authority
from wire.client import Call, ClientError, Reply
from wire.messages import TrustList

STATE = "{kind: Node, id: node-a, spec: {roles: [core_mesh]}}"
OTHERWISE = "{kind: Node, id: node-a, spec: {roles: [ingress]}}"
LATER = "{kind: Node, id: node-b, spec: {roles: [core_mesh]}}"

Backup = Mapping[str, Sequence[Mapping[str, object]]]


@pytest.fixture
def founded(tmp_path: Path, database_url: str) -> Founded:
    """On SQLite and on PostgreSQL."""
    return Founded(tmp_path, database_url, settings="joins_per_minute = 1000")


def back_up(url: str) -> Backup:
    database = Database(url)
    with database.read() as transaction:
        rows = {
            table.name: [dict(row._mapping) for row in transaction.rows(select(table))]
            for table in schema.metadata.sorted_tables
        }
    database.close()
    return rows


def put_back(url: str, rows: Backup) -> None:
    database = Database(url)
    with database.record() as transaction:
        for table in schema.metadata.sorted_tables:
            transaction.run(table.delete())
            transaction.run(table.insert(), rows[table.name])
    database.close()


async def show(node: TlsNode, head: bytes) -> Reply:
    return await node.client.fetch(node.at.fleet, Call("POST", "/v1/head", (), head))


async def nodes_of_tomorrow(
    founded: Founded, changes: Sequence[str] = (STATE,)
) -> tuple[Backup, Follower, bytes, Follower]:
    """Two nodes; the backup is of before these changes, each of which is a head of node-a; then it is put back."""
    async with running(founded) as at:
        first, other = Follower(await at.admit("node-a")), Follower(await at.admit("node-b"))
        await first.sync(wait=10)
        await other.sync(wait=10)
        backup = back_up(founded.url)
        for change in changes:
            await at.declare(change)
            await first.sync(wait=60)
        assert first.holder.roles == {"core_mesh"}
        head = (await first.node.head()).body
    put_back(founded.url, backup)
    return backup, first, head, other


def again(at: Running, follower: Follower) -> Follower:
    """The same node before the coordinator that runs now."""
    old = follower.node
    follower.node = TlsNode(at, old.node_id, pair=old.pair, grant=old.grant)
    return follower


async def is_ready(at: Running) -> bool:
    return (await at.probe("/probe/readiness"))[0] == 200


async def test_an_unproven_claim_alarms_and_is_asked_for_proof(founded: Founded) -> None:
    """rules K37, K41: it gets nothing, and nobody else notices."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        answer = await node.head(generation=1_000, epoch=9, wait=30)
        assert (answer.status, answer.body, answer.headers["holdfast-prove"]) == (204, b"", "head")
        assert (await node.head(generation=1_000, epoch=9)).status == 204
        assert (await at.ask("GET", "/v1/status"))["alarms"] == {"node_ahead": 2}
        assert "holdfast-prove" not in (await node.head()).headers
        assert await is_ready(at)
        (entry,) = await audited(at, "restored_backup.unproven")  # who claims without end does not fill the audit log
        assert (entry["subject"], entry["outcome"]) == ("node-a", "node_ahead")
        assert entry["after"] == {"scope": "head", "authority_epoch": 9, "version": 1_000}


async def test_what_proves_nothing_changes_nothing(founded: Founded) -> None:
    """rules K41: garbage, a stranger's head, another kind, a head that is on record."""
    async with running(founded) as at:
        node, other = await at.admit("node-a"), await at.admit("node-b")
        theirs, mine = (await other.head(wait=10)).body, (await node.head(wait=10)).body
        bundle = node.grant.documents[0]
        for wrong in (b"", b"no container", theirs, bundle, mine[:-1], mine.replace(b"node-a", b"node-x")):
            assert await refusal(show(node, wrong)) == "bad_proof"
        assert (await show(node, mine)).status == 204
        assert (await at.ask("GET", "/v1/status"))["restored_backup"] == ""
        assert await is_ready(at)
        assert await audited(at, "restored_backup") == []
        assert [entry["outcome"] for entry in await audited(at, "restored_backup.unproven")] == ["bad_proof"]
        assert (await at.ask("GET", "/v1/status"))["alarms"] == {"node_ahead": 6}
        await at.declare(STATE)
        assert (await node.head(generation=1, epoch=1, wait=60)).status == 200


async def test_a_head_that_keys_of_somebody_else_signed_proves_nothing(founded: Founded, tmp_path: Path) -> None:
    """rules K41: a cluster of the same name with other keys."""
    (tmp_path / "elsewhere").mkdir()
    elsewhere = Founded(tmp_path / "elsewhere", f"sqlite:///{tmp_path}/elsewhere.db")
    async with running(elsewhere) as at:
        forged = (await (await at.admit("node-a")).head(wait=10)).body
    async with running(founded) as at:
        node = await at.admit("node-a")
        assert await refusal(show(node, forged)) == "bad_proof"
        assert await is_ready(at)


async def test_a_proven_claim_stops_everything_until_the_epoch_is_raised(founded: Founded) -> None:
    """rules K41, P30, X12, H37: also after a restart; then nodes follow from above what they hold."""
    _, ahead, head, other = await nodes_of_tomorrow(founded)
    async with running(founded) as at:
        node, beside = again(at, ahead).node, again(at, other).node
        assert await is_ready(at)
        assert (await node.head(ahead.generation, 1)).headers["holdfast-prove"] == "head"
        assert await refusal(show(node, head)) == "not_ready"
        await assert_stopped(at, beside)
    async with running(founded) as at:
        node, beside = again(at, ahead).node, again(at, other).node
        await assert_stopped(at, beside)
        published = back_up(founded.url)["heads"]
        await at.declare(LATER)
        with trio.fail_after(60):
            while "holdfastctl epoch raise" not in (await at.ask("GET", "/v1/status"))["publishing"]["fault"]:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert back_up(founded.url)["heads"] == published
        await raise_epoch(at)
        assert await is_ready(at)
        assert (await at.ask("GET", "/v1/status"))["restored_backup"] == ""
        for follower in (ahead, other):
            trust = await follower.node.get(f"/v1/trust?from={follower.holder.bundle.version}")
            for bundle in TrustList.parse(trust.body).documents:
                follower.take(bundle, "snapshot")
            with trio.fail_after(60):
                while follower.holder.marks["head"].authority_epoch < 2:
                    await follower.sync()
        assert await refusal(show(node, b"")) == "bad_proof"
        assert (await show(node, head)).status == 204
        assert await is_ready(at)
        assert (await at.admit("node-c")).grant.outcome == "admitted"


async def test_changes_that_were_under_way_are_halted(founded: Founded) -> None:
    """What nodes or people have said of them since the backup is not known: a person looks, and lets them go on. What
    waits for approvals, or is over, is as it was. Heads of these changes come out meanwhile, and the node's is above.
    """
    _, ahead, head, _ = await nodes_of_tomorrow(founded, (STATE, OTHERWISE, STATE))
    database = Database(founded.url)
    held = ChangeNode(0, ahead.node.node_id, ("node_runtime",))
    begin(database, held, state=ChangeState.ROLLING)
    begin(database, held, approvals=1)
    begin(database, state=ChangeState.DONE, settled_at=founded.now)
    database.close()
    async with running(founded) as at:
        assert await refusal(show(again(at, ahead).node, head)) == "not_ready"
        found = {each["change"]: each for each in (await at.ask("GET", "/v1/changes"))["changes"]}
        assert {name: each["state"] for name, each in found.items()} == {
            "c-1": "halted",
            "c-2": "proposed",
            "c-3": "done",
        }
        assert "restored from a backup" in found["c-1"]["why"] and found["c-1"]["counts"]["given"] == 0
        await raise_epoch(at)
        assert (await at.ask("GET", "/v1/changes/c-1"))["state"] == "halted"
        assert (await at.ask("POST", "/v1/changes/c-1/resume", {"reason": "looked at it"}))["state"] != "halted"


async def assert_stopped(at: Running, node: TlsNode) -> None:
    status, body = await at.probe("/probe/readiness")
    assert status == 503 and b"holdfastctl epoch raise" in body
    assert (await at.probe("/probe/liveness"))[0] == 200
    for asked in (
        node.head(), node.get("/v1/trust?from=0"), node.report(reports.body(node.node_id, {})),
        node.join(None), TlsNode(at, "node-z").join("token"),
    ):  # fmt: skip
        assert await refusal(asked) == "not_ready"
    assert await refusal(at.token()) == "stale_state"
    assert "restored from an old backup" in (await at.ask("GET", "/v1/fleet"))["restored_backup"]
    (entry,) = await audited(at, "restored_backup")
    assert (entry["actor"], entry["subject"], entry["outcome"]) == ("node:node-a", "node-a", "restored_backup")


async def audited(at: Running, action: str) -> list[dict]:
    return (await at.ask("GET", f"/v1/audit?action={action}"))["entries"]


async def raise_epoch(at: Running) -> None:
    await add_bundle(at, at.founded.bundles.next(epoch=2))


async def add_bundle(at: Running, bundle: bytes) -> None:
    await at.ask("POST", "/v1/trust", {"document": base64.b64encode(bundle).decode()})


async def published(at: Running, node_id: str, least: tuple[int, int]) -> bytes:
    """The first head of at least that pair."""
    with trio.fail_after(60):
        while (news := at.daemon.coordinator.board.latest(node_id)) is None or news.pair < least:
            await trio.testing.wait_all_tasks_blocked(0.01)
    return news.container


async def test_a_head_of_a_later_bundle_and_epoch_proves_it_too(founded: Founded) -> None:
    """rules K41: of what came after the backup the database knows nothing, but the key that signed it is its own."""
    async with running(founded) as at:
        node = Follower(await at.admit("node-a"))
        await node.sync(wait=10)
        backup = back_up(founded.url)
        second = founded.bundles.next(epoch=2)
        await add_bundle(at, second)
        await published(at, "node-a", (2, 2))
        await at.declare(STATE)
        head = await published(at, "node-a", (2, 3))
    put_back(founded.url, backup)
    async with running(founded) as at:
        node = again(at, node).node
        assert await refusal(show(node, head)) == "not_ready"
        await add_bundle(at, second)  # the one that nodes hold, so it does not lead above them
        assert not await is_ready(at)
        before = back_up(founded.url)["heads"]
        assert "holdfastctl epoch raise --to 3" in (await at.ask("GET", "/v1/status"))["restored_backup"]
        assert await refusal(show(node, head)) == "not_ready"
        assert back_up(founded.url)["heads"] == before
        await add_bundle(at, founded.bundles.next(epoch=3))
        assert await is_ready(at)
        await published(at, "node-a", (3, 1))
        assert (await show(node, head)).status == 204


async def test_a_key_that_has_gone_still_proves_it_unless_it_was_revoked(founded: Founded) -> None:
    """rules K41: judged by the bundle of its day; a revoked key may be in other hands."""
    _, ahead, head, _ = await nodes_of_tomorrow(founded)
    key, other = founded.config, SigningKey.generate()
    backup = back_up(founded.url)
    async with running(founded) as at:
        node = again(at, ahead).node
        await add_bundle(at, founded.bundles.next(keys=(key, other), statuses={key.key_id: "revoked"}))
        assert await refusal(show(node, head)) == "bad_proof"
        await add_bundle(at, founded.bundles.next(keys=(other,)))
        assert await refusal(show(node, head)) == "bad_proof"
        assert at.daemon.coordinator.standstill.reason == ""
    put_back(founded.url, backup)
    founded.bundles.version = 1
    async with running(founded) as at:
        node = again(at, ahead).node
        await add_bundle(at, founded.bundles.next(keys=(other,)))
        assert await refusal(show(node, head)) == "not_ready"


async def test_a_node_that_joins_again_is_not_ahead(founded: Founded) -> None:
    """rules K41, J29: its generations go on, so the head that it still holds proves nothing."""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync(wait=10)
        head = (await follower.node.head()).body
        await at.ask("POST", "/v1/nodes/node-a/drain")
        await at.ask("POST", "/v1/nodes/node-a/remove", {"reason": "repair"})
        await at.ask("POST", "/v1/nodes/node-a/readmit", {"kind": "data"})
        assert (await follower.node.join(await at.token("node-a"))).outcome == "admitted"
        assert (await show(follower.node, head)).status == 204
        assert (await follower.node.head(follower.generation, 1, wait=60)).status == 200
        assert await is_ready(at)


async def test_a_conflict_shown_again_and_again_is_noted_once(founded: Founded) -> None:
    """rules X16, K41: it alarms and stops nothing, and whoever shows it without end does not fill the audit log."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        head = (await node.head(wait=10)).body
        heads = schema.documents.c.kind == "head"
        with at.daemon.coordinator.database.record() as transaction:
            transaction.run(update(schema.documents).where(heads).values(content_hash="sha256:" + "ab" * 32))
        for _ in range(3):
            assert (await show(node, head)).status == 204
        assert [entry["outcome"] for entry in await audited(at, "restored_backup")] == ["conflict"]
        assert await is_ready(at)
        await at.declare(STATE)
        assert (await node.head(generation=1, epoch=1, wait=60)).status == 200


async def test_who_waits_is_told_too(founded: Founded) -> None:
    """rules K41: a poll that is held when it comes out ends as not_ready, with no head."""
    _, ahead, head, other = await nodes_of_tomorrow(founded)
    async with running(founded) as at:
        node, beside = again(at, ahead).node, again(at, other).node
        told: list[str] = []

        async def wait() -> None:
            told.append(await refusal(beside.head(other.generation, 1, wait=300)))

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await at.polls_held(1)
                with pytest.raises(ClientError) as found:
                    await show(node, head)
        assert found.value.retry_after_s >= 1
        assert told == ["not_ready"]


@pytest.mark.parametrize("is_seen", [True, False], ids=["that was looked at", "that came after the last look"])
async def test_a_running_coordinator_lists_its_ca_in_a_database_from_before_the_exchange(
    founded: Founded, is_seen: bool
) -> None:
    """rules K15, K41, L15: nodes would be led to the CA of before, while every coordinator shows the next one."""
    founded.settings = "store_polling_s = 300"  # the keeper looks when this says so
    following = make_authority("next", founded.now)
    async with running(founded) as at:
        database = at.daemon.coordinator.database
        follower = Follower(await at.admit("node-a"))
        await follower.sync(wait=10)
        before = back_up(founded.url)
        ca_exchange.begin(
            database, at.daemon.coordinator.shown.authorities, following.der, (), actor="a", now=founded.now
        )
        server_certificate.exchange(
            founded.folder / "server.crt", founded.folder / "server.key", following, founded.now
        )
        await at.daemon._reload()
        ca_exchange.finish(database, despite_unconfirmed=True, actor="a", now=founded.now)
        await at.daemon.keeper.look()
        put_back(founded.url, before)
        if is_seen:
            await at.daemon.keeper.look()
            assert not await is_ready(at)
        await raise_epoch(at)
        at.daemon.coordinator.publisher.wake()
        with trio.fail_after(60):
            while not is_seen and "does not list" not in at.daemon.coordinator.publisher.health.fault:
                await trio.testing.wait_all_tasks_blocked(0.01)
        await at.daemon.keeper.look()
        assert await is_ready(at)
        follower = again(at, follower)
        trust = await follower.node.get(f"/v1/trust?from={follower.holder.bundle.version}")
        for bundle in TrustList.parse(trust.body).documents:
            follower.take(bundle, "snapshot")
        with trio.fail_after(60):
            while follower.holder.marks["head"].authority_epoch < 2:
                try:
                    await follower.sync(wait=10)
                except ClientError as error:  # of a head that has been replaced meanwhile: the next one is asked for
                    assert error.code == "not_found"
        assert fingerprint(following.der) in follower.section("node_bootstrap", "authorities")
        assert len(await audited(at, "ca.found")) == 1

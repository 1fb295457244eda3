"""A coordinator from which the cluster was exported, over real TLS: it answers check-ins, and nothing else."""

from dataclasses import replace
from pathlib import Path

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.keys import signer
from coordinator.membership import moving
from coordinator.membership.moving import OtherCoordinator
from coordinator.replicas.signed_again import OpenedHead
from snapshot.identifiers import format_time
from tests.coordinator import reports
from tests.coordinator.daemon import Follower, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_restored_backup import show

TO = OtherCoordinator("coord-b", "https://b.example:7443", "sha256:" + "b" * 64)


async def export(at: Running) -> None:
    """As the command does beside the daemon."""
    moving.begin(at.daemon.coordinator.database, TO, actor="uid:0", now=at.founded.now)
    await at.daemon.keeper.look()


async def move(at: Running, within_s: int = 86_400) -> dict:
    return (await at.ask("GET", f"/v1/coordinators/status?within={within_s}"))["move"]


async def test_it_answers_check_ins_and_every_change_is_moved(founded: Founded):
    """rules K24: an operator is told where to, a node the code alone; nothing is changed by any of it."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        token = await at.token()
        await at.ask("POST", "/v1/allowlist/node-b", {})
        await export(at)
        before = (await at.ask("GET", "/v1/status"))["revision"]
        assert await refusal(TlsNode(at, "node-b").join(token)) == "moved"
        for method, path, body in (
            ("POST", "/v1/tokens", {}),
            ("POST", "/v1/allowlist/node-c", {}),
            ("POST", "/v1/revocations", {"category": "roles", "value": "egress", "reason": "x"}),
            ("DELETE", "/v1/coordinators/coord-2", None),
        ):
            assert await refusal(at.ask(method, path, body)) in ("moved", "not_found", "bad_request"), path
        assert await refusal(at.apply("kind: Node\nid: node-a\nspec: {roles: [core_mesh]}\n")) == "moved"
        status = await at.ask("GET", "/v1/status")
        assert (status["revision"], status["moved"]) == (before, f"{TO.coordinator_id}, {TO.url}")
        assert (await at.probe("/probe/readiness"))[0] == 200
        assert (await node.head()).status == 200
        body = reports.body("node-a", {"node_runtime": 1}, sent_at=format_time(int(founded.now)))
        assert "acknowledged_event" in await node.report(body)


async def test_heads_are_renewed_as_they_are(tmp_path: Path):
    """rules K24: a node that has not gone over is not degraded, however long that takes; it is told nothing new."""
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")
    later = [0.0]
    async with running(founded, now=lambda: founded.now + later[0]) as at:
        follower = Follower(await at.admit("node-a"))
        while await follower.sync():
            pass
        await export(at)
        held = marks(follower)
        first = follower.generation
        later[0] = 1_000.0  # its time of renewal has come
        at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=founded.now + later[0])
        assert follower.generation > first
        assert marks(follower) == held


def marks(follower: Follower) -> dict[str, str]:
    """What each scope says."""
    return {scope: mark.content_hash for scope, mark in follower.holder.marks.items() if scope != "head"}


async def test_a_node_that_has_gone_over_is_no_alarm_and_counts_no_more(founded: Founded):
    """rules K24, K41: it holds an epoch that is above; who else asks, is named until it has been quiet for long."""
    async with running(founded) as at:
        for node_id in ("node-a", "node-b"):
            node = await at.admit(node_id)
        await export(at)
        stayed = await TlsNode(at, "node-b", pair=node.pair).head()
        assert stayed.status == 200
        gone = TlsNode(at, "node-b", pair=node.pair)
        answer = await gone.head(generation=7_000, epoch=2, wait=30)
        assert (answer.status, answer.body, answer.headers["holdfast-prove"]) == (204, b"", "head")
        assert "holdfast-prove" not in (await gone.head(generation=7_000, epoch=2)).headers
        status = await at.ask("GET", "/v1/status")
        assert (status["alarms"], status["restored_backup"]) == ({}, "")
        assert (await move(at))["count"] == 1 and (await move(at))["nodes"][0]["node_id"] == "node-b"
        assert (await move(at))["ahead_at"] is None, "a claim alone takes the way back from nobody"
        assert await refusal(show(gone, b"no head")) == "bad_proof"


async def test_a_proven_head_of_the_other_one_is_kept(tmp_path: Path):
    """rules K24, K41: the same keys have signed it there; so there is no way back, and nothing stops here."""
    one, two = (tmp_path / name for name in ("one", "two"))
    for folder in (one, two):
        folder.mkdir()
    founded = Founded(one, f"sqlite:///{one}/state.db")
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync(wait=10)
        await export(at)
        theirs = await _of_the_other_one(at, follower)
        assert (await show(follower.node, theirs)).status == 204
        assert (await move(at))["ahead_at"] is not None
        assert (await at.ask("GET", "/v1/status"))["restored_backup"] == ""
        assert (await follower.node.head()).status == 200


async def _of_the_other_one(at: Running, follower: Follower) -> bytes:
    """A head of this node that this cluster's keys have signed under the next epoch."""

    opened = OpenedHead.of((await follower.node.head()).body)
    envelope = replace(opened.envelope, authority_epoch=2, snapshot_id="0" * 32)
    return signer.sign(envelope, opened.manifest, (), at.daemon.coordinator.publisher.keys).to_bytes()


def test_an_export_of_before_this_program_has_no_row(cluster: Database):
    """The table is there after the migration, empty."""
    assert moving.exported_to(cluster) is None
    with cluster.read() as transaction:
        assert transaction.rows(schema.moves.select()) == []

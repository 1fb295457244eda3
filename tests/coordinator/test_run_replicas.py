"""Several coordinators over one PostgreSQL: whoever compiles, one content under one version (rules X16, K21)."""

from pathlib import Path

import pytest
import trio

from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.keys import signer, signing_key
from coordinator.keys.signing_key import SigningKey
from tests.coordinator import entered
from tests.coordinator.daemon import Follower, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_restored_backup import again, nodes_of_tomorrow, raise_epoch, show


def text(follower: Follower, scope: str) -> bytes:
    held = follower.holder.active[scope]
    return b"".join(held.read(name) for name in held.sections)


@pytest.fixture
def pair(tmp_path: Path, postgresql_url: str) -> tuple[Founded, Founded]:
    """Two coordinators over one PostgreSQL, each with certificate and token key of its own, one config key."""
    (tmp_path / "one").mkdir()
    one = Founded(tmp_path / "one", postgresql_url, settings="joins_per_minute = 1000\nstore_polling_s = 1")
    two = second(one, tmp_path / "two")
    return one, two


def second(first: Founded, folder: Path) -> Founded:
    """What a second machine has, and a certificate that two machines show."""
    folder.mkdir()
    for name in ("ca.pem", "server.crt", "server.key", "keys"):
        (folder / name).symlink_to(first.folder / name)
    token_key = SigningKey.generate()
    signing_key.write_file(folder / "token.pem", token_key)
    other = object.__new__(Founded)
    other.__dict__.update(first.__dict__, folder=folder, coordinator_id="coord-2")
    database = Database(first.url)
    fingerprint = signer.content_hash(first.certificate.der)
    founding = Founding("prod", "coord-2", "https://localhost:7444", fingerprint, token_key.public_key)
    entered.add(database, founding, actor="root", now=first.now)
    database.close()
    return other


async def test_two_coordinators_over_one_database(pair: tuple[Founded, Founded]) -> None:
    """rules K21, X16, H10, H38: one content under one version; each serves what the other publishes."""
    one, two = pair
    async with running(one) as first, running(two) as other:
        nodes = [Follower(await first.admit(f"n{number}")) for number in range(2)]
        for follower in nodes:
            await follower.sync()
        await other.daemon.keeper.look()
        for follower in nodes[1:]:
            follower.node = TlsNode(other, follower.node.node_id, pair=follower.node.pair)
        for number in range(6):
            at: Running = (first, other)[number % 2]
            await at.declare(
                "\n---\n".join(
                    f"{{kind: Node, id: n{index}, spec: {{roles: [core_mesh], labels: {{round: r{number}}}}}}}"
                    for index in range(2)
                )
            )
        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for follower in nodes:
                    nursery.start_soon(_until_round, follower, "r5")
        conflicts = [each.daemon.coordinator.publisher.health.conflicts for each in (first, other)]
        published = [each.daemon.coordinator.publisher.health.published_heads for each in (first, other)]
        assert sum(published) >= 2, conflicts


async def _until_round(follower: Follower, wanted: str) -> None:
    """Every head on the way is taken: a second content under a version would be `version_conflict`."""
    while wanted.encode() not in text(follower, "node_runtime"):
        await follower.sync(wait=10)


async def test_all_stop_once_one_was_shown_the_proof(pair: tuple[Founded, Founded]) -> None:
    """rules K41, P30, X12: what one of them knows is in the database, and the others look there."""
    one, two = pair
    _, ahead, head, beside = await nodes_of_tomorrow(one)
    async with running(one) as first, running(two) as other:
        assert await refusal(show(again(first, ahead).node, head)) == "not_ready"
        await other.daemon.keeper.look()
        assert (await other.probe("/probe/readiness"))[0] == 503
        assert await refusal(again(other, beside).node.head()) == "not_ready"
        await raise_epoch(other)
        assert (await other.probe("/probe/readiness"))[0] == 200
        await first.daemon.keeper.look()
        assert (await first.probe("/probe/readiness"))[0] == 200

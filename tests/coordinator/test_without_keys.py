"""A replica without the config keys that nodes believe: it is not ready, says what it lacks, and gives out nothing."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from coordinator.base.settings import CoordinatorSettings
from coordinator.database.database import Database
from coordinator.keys import keystore
from coordinator.keys.signing_key import SigningKey
from coordinator.runtime import maintenance
from snapshot.bundle import CONFIG
from tests.coordinator.candidates import contents
from tests.coordinator.daemon import Follower, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_restored_backup import is_ready
from tests.coordinator.test_run_replicas import second
from wire.client import ClientError

YEAR = 365 * 86_400


async def lose_the_keys(at: Running) -> None:
    """As after a restart of a machine whose keys are gone, or once the bundle lists others."""
    at.daemon.coordinator.publisher.sign_with(())
    await at.daemon.keeper.look()


async def bring_the_keys(at: Running) -> None:
    at.daemon.coordinator.publisher.sign_with((at.founded.config,))
    await at.daemon.keeper.look()


async def operators_refusal(asking: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        await asking
    return caught.value.code, str(caught.value)


async def test_it_gives_out_nothing(founded: Founded) -> None:
    """rules H21, X20: no join, no token, no head, no document, and nothing changes; with its keys all goes on."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        follower = Follower(node)
        await follower.sync(wait=10)
        token, stranger = await at.token(), TlsNode(at, "node-b")
        await at.ask("POST", "/v1/allowlist/node-b", {})
        database = at.daemon.coordinator.database
        (held, *_) = at.daemon.coordinator.board.latest("node-a").names
        await at.daemon.coordinator.seen.write()
        before = contents(database, "nodes", "tokens", "heads", "documents", "published", "head_requests")

        async with trio.open_nursery() as nursery:
            waiting: list[str] = []
            nursery.start_soon(_poll, node, follower, waiting)
            await at.polls_held(1)
            await lose_the_keys(at)

        assert waiting == ["not_ready"], "who waits is told, too"
        status, said = await at.probe("/probe/readiness")
        missing = founded.config.key_id[7:19]
        assert status == 503 and f"it holds 0; missing: {missing} (put them into".encode() in said
        code, words = await operators_refusal(at.token())
        assert code == "no_signer" and missing in words and "systemctl reload" in words
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "join": lambda: stranger.join(token),
            "head": node.head,
            "document": lambda: node.get(f"/v1/documents/{held}"),
            "increment": lambda: node.get("/v1/increments/node_runtime?base=1"),
            "recovery": lambda: node.get("/v1/recoveries/node_runtime"),
            "trust": lambda: node.get("/v1/trust"),
        }
        told = {name: await refusal(ask()) for name, ask in asked.items()}
        assert told == dict.fromkeys(asked, "not_ready")
        assert contents(database, *before) == before
        assert (await at.probe("/probe/liveness"))[0] == 200
        fault = (await at.ask("GET", "/v1/status"))["publishing"]["fault"]
        await at.daemon.own_report.note()
        (told_of_itself,) = (await at.ask("GET", "/v1/coordinators/status"))["coordinators"]
        assert fault.startswith("no_signer") and told_of_itself["state"] == "not_ready"
        assert missing in told_of_itself["faults"][0]

        await bring_the_keys(at)
        assert await is_ready(at)
        assert (await stranger.join(token)).outcome == "admitted"
        assert (await node.head()).status == 200


async def _poll(node: TlsNode, follower: Follower, said: list[str]) -> None:
    epoch, generation = follower.holder.marks["head"].version
    said.append(await refusal(node.head(epoch=epoch, generation=generation, wait=60)))


def test_where_nobody_could_sign_nodes_are_given_what_there_is(founded: Founded) -> None:
    """rules H21: there is no other replica that they could go to: the key is over for all of them."""
    database = Database(founded.url)
    own, later = (founded.config,), founded.now + 20 * YEAR
    for keys, now, lacks in (((), founded.now, True), (own, founded.now, False), ((), later, False)):
        _, unable, missing, _ = maintenance._look_at_keys(database, keys, CoordinatorSettings(), now)
        assert bool(missing) is lacks
        assert bool(unable) is (not keys)
    database.close()


async def test_beside_a_healthy_one(tmp_path: Path, postgresql_url: str) -> None:
    """rules H21, K34: each tells what the other is; the healthy one goes on with all of the work."""
    (tmp_path / "one").mkdir()
    one = Founded(tmp_path / "one", postgresql_url, settings="joins_per_minute = 1000")
    two = second(one, tmp_path / "two")
    (two.folder / "keys").unlink()
    keystore.keep(two.folder / "keys", CONFIG, SigningKey.generate())
    async with running(one) as first, running(two) as other:
        assert not await is_ready(other) and await is_ready(first)
        code, words = await operators_refusal(other.token())
        assert code == "no_signer" and one.config.key_id[7:19] in words
        stranger = TlsNode(other, "node-a")
        await other.ask("POST", "/v1/allowlist/node-a", {})
        token = await first.token("node-a")
        assert await refusal(stranger.join(token)) == "not_ready"
        listed = (await first.ask("GET", "/v1/coordinators/status"))["coordinators"]
        known = {each["coordinator_id"]: each for each in listed}
        assert (known["coord-1"]["state"], known["coord-2"]["state"]) == ("ready", "not_ready")
        assert "missing" in known["coord-2"]["faults"][0]
        node = TlsNode(first, "node-a", pair=stranger.pair)
        assert (await node.join(token)).outcome == "admitted"
        await other.ask("POST", "/v1/allowlist/node-b", {})
        assert (await node.head()).status == 200

"""Every key but the roots' stolen for an hour, and all that the thief can fill filled: the documented repair works.

By the network, by storage, by file; in the agent that went through it, after a restart, and killed again and again in
between (docs/keys.md, "Every key but the roots"). Nobody visits the node, and nothing on it is touched by hand.
"""

import itertools
import random
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
import trio

from holdfast.node.import_order import ESTABLISHING
from store.base.pending import MOST_SLOTS
from store.fsck.check import check
from tests.fakes.cluster import CLUSTER_ID, DAY, HOUR, NODE_ID, key
from tests.fakes.storage import StorageServer
from tests.fakes.thief import HIGHEST, MADE_ANEW, STOLEN, Thief, repair
from tests.journeys import agent_process
from tests.journeys.lab import ROUTES, SELDOM, Lab, agent_toml, lab
from tests.store.filling import fill_slots
from wire.client import Call, ClientError, HttpClient, UnixConnector

MAP_BYTES = 4 << 20
WIDE = 4
KILLS = 2
LISTED_BY_BOTH = (ROUTES, "degraded_mode_policy", "storage_directory")


@dataclass
class Scene:
    """One node, its coordinator, the storage that both know, the thief and a coordinator of his own."""

    lab: Lab
    storage: StorageServer
    his: StorageServer
    thief: Thief
    kept: dict[str, object]  # what he leaves as it was, by scope
    chance: random.Random = field(default_factory=lambda: random.Random(13))

    @property
    def server(self):
        return self.lab.server


@asynccontextmanager
async def scene(folder, mock):
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(lab(folder, mock, text=SELDOM, for_hours=True))
        one.settings = replace(one.settings, limits=replace(one.settings.limits, map_bytes=MAP_BYTES))
        storage = await stack.enter_async_context(StorageServer(one.server, folder / "storage").running())
        his = await stack.enter_async_context(StorageServer(one.server, folder / "his").running())
        endpoints = {"endpoints": {"s1": {"url": storage.url}}}
        one.server.snapshot(endpoints, "storage_directory")
        one.server.announce()
        storage.server.down = True
        his.server.bundles = list(one.server.bundles)
        yield Scene(one, storage, his, Thief(one.server), {"storage_directory": endpoints})


# ---- the hour


async def an_hour(at: Scene) -> None:
    """All that he can: run up, fill, lead away. The node follows him, as it must."""
    thief, node = at.thief, at.lab.node
    leading_away(at)
    for scope in LISTED_BY_BOTH:
        await to_the_brim(at, scope)
    assert node.store.fill_level() > 0.9
    at.lab.clock.base += HOUR
    at.lab.clock.boot_base += HOUR
    await told(at)
    later = int(node.now()) + DAY
    waiting = thief.snapshot({"s": {}}, "service_assignment/s", valid_from=later, refresh_after=later)
    del thief.cluster.published["service_assignment/s"]
    fill_slots(node.store, waiting)
    assert len(node.store.pending()) == MOST_SLOTS


async def to_the_brim(at: Scene, scope: str) -> None:
    """The scope's active and previous document are as large as there is room for: the coordinator lists it too."""
    size, step, taken = 0, MAP_BYTES // 8, at.thief.cluster.published[scope]
    while step > 8000:
        made = at.thief.snapshot(content(scope, size + step) | at.kept.get(scope, {}), scope)
        await told(at)
        if await is_taken(at, scope, made.envelope.config_version):
            size, taken = size + step, made
        else:
            step //= 2
    at.thief.cluster.published[scope] = taken
    await told(at)


async def is_taken(at: Scene, scope: str, version: int) -> bool:
    """Or put off, since the store does not take it."""
    with trio.fail_after(HOUR):
        while at.lab.version(scope) != version:
            one = (await at.lab.status())["awaited"].get(scope)
            if one is not None and one["config_version"] == version and one["again_in_s"]:
                return False
            await trio.sleep(0.1)
    return True


def content(scope: str, size: int) -> dict[str, object]:
    """Of any scope of free JSON; about so many bytes, of which none are elsewhere, or in another version."""
    bulk = {f"bulk.{at}": [f"{scope} {size} {at} ".ljust(min(60_000, size - at), "x")] for at in range(0, size, 60_000)}
    return {**bulk, "size": {"bytes": size}}


def leading_away(at: Scene) -> None:
    """A coordinator of his own, a policy that allows nothing, very many scopes that are nowhere."""
    thief = at.thief
    cluster = {"cluster_id": CLUSTER_ID, "coordinators": [at.his.url]}
    thief.snapshot({"cluster": cluster, "node": {"site": "default"}}, "node_bootstrap")
    for number in range(WIDE):
        nowhere = thief.snapshot({"s": {}}, f"service_assignment/w{number}")
        del at.server.documents[nowhere.envelope.snapshot_id]


async def told(at: Scene, **members) -> None:
    """A head of his, from all that he has; its revocations and its polling at the end of what there is."""
    revocations = at.thief.revoking(key_ids=[key(STOLEN[1]).key_id], role_assignments=[f"{NODE_ID}/thin"])
    made = at.thief.head(revocations=revocations, poll_after_s=HIGHEST, **members)
    for server in (at.server, at.his.server):
        server.say(made)
    at.his.server.documents = dict(at.server.documents)
    await at.lab.until(lambda: at.lab.node.holdings.held_head == made.envelope.version)


# ---- the repair


def carried(at: Scene, way: str):
    """What the roots and the new key sign; where it can be had from then on. The thief's own coordinator still answers,
    but where storage alone has it: that is looked at 15 minutes later.
    """
    at.thief.leave()
    made = repair(at.server)
    at.server.down = way != "network"
    at.storage.server.down = way != "storage"
    at.his.server.down = way == "storage"
    if way == "storage":
        at.storage.server.say(made[2])
    return in_order(made)


def in_order(documents):
    """As `holdfast import` hands them in."""
    first, second, head, *others = documents
    return [first, second, head, *sorted(others, key=lambda one: one.envelope.scope_type not in ESTABLISHING)]


async def hand_in(at: Scene, document) -> bool:
    """Whether somebody looked at it; not where nobody answers, or the agent starts: what follows would lack it."""
    client = HttpClient(UnixConnector())
    try:
        call = Call("POST", "/v1/import", body=document.to_bytes(), wait_s=60)
        answer = await client.fetch(at.lab.settings.local.socket_path, call)
    except ClientError as error:
        assert error.code in ("", "not_ready"), error
        return False
    finally:
        await client.aclose()
    return answer.status == 200


def is_held(document, status) -> bool:
    """A bundle of before, which `holdfast import` passes over."""
    one = document.envelope
    return one.scope == "trust_bundle" and one.config_version <= status["trust_bundle_version"]


def is_repaired(status) -> bool:
    """Everything that the new head lists is active: nothing else is awaited, and that is of the new epoch."""
    head, scopes = status["head"] or {}, status["scopes"]
    listed = status["awaited"] == {} and set(MADE_ANEW) <= set(scopes)
    return listed and (status["trust_bundle_version"], head.get("authority_epoch")) == (3, 2)


@asynccontextmanager
async def process(at: Scene):
    """The agent as a process, on the same disk; killed with the block."""
    folder = at.lab.folder
    (folder / "agent.toml").write_text(agent_toml(folder, at.server))
    ahead_s = str(at.lab.clock.true - time.time())
    running = agent_process.start(folder, ahead_s, MAP_BYTES)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()


async def status(at: Scene):
    try:
        return await at.lab.status()
    except ClientError:
        return None


async def repaired_with_kills(at: Scene, way: str) -> None:
    documents = carried(at, way)
    for kill in range(KILLS + 1):
        async with process(at):
            if kill == KILLS:
                await repaired(at, way, documents, 1)
                return
            with trio.move_on_after(at.chance.uniform(0.5, 4.0)):
                await repaired(at, way, documents, 0.2)
        assert list(check(at.lab.folder / "state", CLUSTER_ID)) == []


async def repaired(at: Scene, way: str, documents, pause_s: float = 30) -> None:
    with trio.fail_after(HOUR):
        while (found := await status(at)) is None or not is_repaired(found):
            if way == "file" and found is not None:
                for document in documents:
                    if not is_held(document, found) and not await hand_in(at, document):
                        break
            await trio.sleep(pause_s)


def cases():
    """Each way and each end of the hour once in every run, all of them together with the faults."""
    fast = {("network", "as it is"), ("storage", "restarted"), ("file", "killed")}
    for one in itertools.product(("network", "storage", "file"), ("as it is", "restarted", "killed")):
        yield pytest.param(*one, marks=() if one in fast else pytest.mark.slow)


@pytest.mark.parametrize(("way", "then"), list(cases()))
async def test_the_repair_works_after_an_hour_of_a_thief(tmp_path, mock_clock, way, then):
    """rules L35, L39, X26, S44, S60, S64, S67; threats T16"""
    async with scene(tmp_path, mock_clock) as at:
        async with at.lab.agent():
            await at.lab.settled()
            await an_hour(at)
            if then == "as it is":
                await repaired(at, way, carried(at, way))
        if then == "restarted":
            async with at.lab.agent():
                await repaired(at, way, carried(at, way))
        if then == "killed":
            mock_clock.autojump_threshold, mock_clock.rate = float("inf"), 1.0
            await repaired_with_kills(at, way)

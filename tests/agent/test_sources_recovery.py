"""The whole order of recovery (seed 001 section 12), everything dead but the last: each step costs a bounded time."""

import base64
import socket
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import trio

from agent.config.configuration import PeersTable
from agent.update.importing import PATIENCE_S
from snapshot import canonical
from tests.agent.test_addresses import Dns
from tests.agent.test_source_peers import neighbours, nothing, peer_rows, told
from tests.fakes.storage import StorageServer, own_address
from tests.journeys.lab import ROUTES
from tests.world import elapsed
from wire.certificate import make_identity
from wire.client import Call, HttpClient, UnixConnector

LISTED = 17  # one more than are active or warm
STEPS = 1 + 1 + LISTED  # a coordinator, a storage endpoint, and these


@contextmanager
def silence(count):
    """URLs. Whoever connects there waits: nobody takes the connection."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_server((own_address(), 0))) for _ in range(count)]
        yield [f"https://{own_address()}:{each.getsockname()[1]}" for each in made]


async def hand_in(one, data):
    client = HttpClient(UnixConnector())
    try:
        answer = await client.fetch(one.settings.local.socket_path, Call("POST", "/v1/import", body=data))
    finally:
        await client.aclose()
    return canonical.loads(answer.body)


def entry(one, name, url):
    """Of a peer at this site."""
    pin = base64.b64encode(make_identity(name, one.clock.true).der).decode()
    return {"url": url, "certificates": [pin], "site_id": "here"}


async def test_everything_is_dead_but_the_last(one, mock_clock):
    """rules S64, L14, L21, K50; seed 001 section 12: a start without DNS and coordinator. The coordinator's name is not
    resolved, storage and seventeen peers say nothing; a bootstrap peer gives it. Then that one is gone, too, and a file
    is taken at once, while the others are waited for.
    """
    names = [f"peer-{number}" for number in range(LISTED)]
    dns = Dns()
    trio.socket.set_custom_hostname_resolver(dns)
    async with neighbours(one, "seed-1") as (seed,):
        with silence(1 + LISTED) as (url, *urls):
            peers = PeersTable(bootstrap=(seed.as_bootstrap(),))
            one.settings = replace(one.settings, peers=peers)
            async with StorageServer(one.server, one.folder / "storage").running(), one.agent():
                await one.settled()
                one.server.snapshot({"endpoints": {"s1": {"url": url}}}, "storage_directory")
                await told(one, {name: entry(one, name, at) for name, at in zip(names, urls, strict=True)})
                one.server.spoil = nothing
                seed.storage.server.down = True
                one.server.snapshot({"routes": {"way-2": {}}}, ROUTES)
                one.server.announce()
                await one.until(lambda: one.node.holdings.head.scopes[ROUTES].config_version == 2)
            seed.storage.server.down, dns.hangs = False, True
            one.server.down = True
            by_name = (f"https://localhost:{one.server.fleet_port}",)
            one.settings = replace(one.settings, coordinator=replace(one.settings.coordinator, urls=by_name))
            begun = trio.current_time()
            async with one.agent():
                await one.until_active(ROUTES, 2)
                took = elapsed.since(begun)
                connect_s = one.settings.intervals.connect_s
                assert took <= STEPS * connect_s + 30, took
                status = await one.status()
                assert status["origins"][ROUTES]["source"] == seed.storage.url
                failed = {row["url"]: row["failures"] for row in status["sources"] if row["failures"]}
                assert {by_name[0], url} <= failed.keys()
                rows = await peer_rows(one)
                assert all(rows[name]["peer_set"] == "cold" for name in names)
                assert rows["seed-1"]["peer_set"] == "active"

                seed.storage.server.down = True
                made = one.server.snapshot({"routes": {"way-3": {}}}, ROUTES)
                head = one.server.announce()
                begun = trio.current_time()
                for document in (head, made):
                    await hand_in(one, document.to_bytes())
                await one.until_active(ROUTES, 3)
                assert elapsed.since(begun) <= PATIENCE_S + 5
                found = (await one.status())["origins"][ROUTES]["source"]
                assert found == "import"

"""The admin listener over TLS: who comes in, who does not, what stays on the machine (protocol 2; threats M01, M07)."""

import base64
import json
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog.testing
import trio
import trio.testing

from coordinator.api.listeners import admin_routes
from coordinator.database.database import Database
from coordinator.membership import operators
from coordinator.runtime.remote_admin import LOCAL_ONLY
from tests.coordinator.daemon import PATIENT, Running, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.readings import held_reading
from wire.certificate import KeyPair, make_authority, make_identity
from wire.client import Call, ClientError, HttpClient, HttpsConnector
from wire.endpoint import Endpoint
from wire.tls_contexts import TlsIdentity


@pytest.fixture
def founded(tmp_path: Path) -> Founded:
    return Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", listen='admin = "127.0.0.1:0"')


@dataclass
class Afar:
    """Somebody with a key and a certificate who asks over TLS."""

    at: Running
    name: str
    pair: KeyPair = None
    authority: Path = None

    def __post_init__(self) -> None:
        folder = self.at.founded.folder
        self.pair = self.pair or make_identity(self.name, self.at.founded.now)
        self.identity = TlsIdentity(folder / f"{self.name}.crt", folder / f"{self.name}.key")
        self.identity.certificate.write_bytes(self.pair.certificate_pem)
        self.identity.key.write_bytes(self.pair.key_pem)
        authority = self.authority or folder / "ca.pem"
        self.client = HttpClient(HttpsConnector.to_authority(authority, self.identity), PATIENT)
        self.at.clients.append(self.client)

    @property
    def place(self) -> Endpoint:
        return Endpoint("localhost", self.at.ports.operators, configured=True)

    async def ask(self, method: str, path: str, body: object = None) -> dict:
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.client.fetch(self.place, Call(method, path, body=data, limit=16 << 20))
        return json.loads(answer.body)

    async def is_unknown(self) -> None:
        """Once TLS has followed the table, it refuses the handshake itself."""
        await self.client.aclose()
        await self.at.daemon.transports.operators.wait_settled()
        assert await refusal(self.ask("GET", "/v1/status")) == "tls_failed"

    async def added(self) -> "Afar":
        await add(self.at, self.name, self.pair)
        return self


async def add(at: Running, name: str, pair: KeyPair) -> dict:
    body = {"certificate": base64.b64encode(pair.der).decode()}
    return await at.ask("POST", f"/v1/operators/{name}", body)


async def test_an_operator_does_from_afar_what_is_done_on_the_socket(founded: Founded) -> None:
    """protocol 2: the same routes, and the audit log says who."""
    async with running(founded) as at:
        alice = await Afar(at, "alice").added()
        done = await alice.ask("POST", "/v1/apply", {"files": {"a.yaml": "{kind: Organization, id: acme}"}})
        assert done["outcome"] == "applied"
        assert (await alice.ask("GET", "/v1/resources")) == (await at.ask("GET", "/v1/resources"))
        assert [each["name"] for each in (await alice.ask("GET", "/v1/operators"))["operators"]] == ["alice"]
        token = await alice.ask("POST", "/v1/tokens", {})
        rows = (await at.ask("GET", "/v1/audit"))["entries"]
        actors = {each["action"]: each["actor"] for each in rows}
        assert actors["apply"] == actors["token.issue"] == "operator:alice"
        assert actors["operator.add"].startswith("uid:") and token["jti"]


async def test_nobody_comes_in_who_was_not_added(founded: Founded) -> None:
    """threats M01: a stranger, a member, and a caller without a certificate; then one who was added does."""
    async with running(founded) as at:
        stranger = Afar(at, "stranger")
        assert await refusal(stranger.ask("GET", "/v1/nodes")) == "tls_failed"
        node = await at.admit("node-a")
        as_node = Afar(at, "node-a", node.pair)
        assert await refusal(as_node.ask("GET", "/v1/nodes")) == "tls_failed"
        nobody = HttpClient(HttpsConnector.to_authority(at.founded.folder / "ca.pem"), PATIENT)
        at.clients.append(nobody)
        assert await refusal(nobody.fetch(stranger.place, Call("GET", "/v1/nodes"))) == "tls_failed"
        assert (await stranger.added()) and (await stranger.ask("GET", "/v1/nodes"))["nodes"]


async def test_strangers_in_their_handshake_keep_no_operator_out(founded: Founded) -> None:
    """threats M13, D-51: a hundred of them, from four addresses, one of them the operator's own"""
    async with running(founded) as at:
        alice = await Afar(at, "alice").added()
        strangers = []
        try:
            for number in range(100):
                source = (f"127.0.0.{number % 4 + 1}", 0)
                strangers.append(socket.create_connection(("127.0.0.1", at.ports.operators), 60, source))
                await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                await alice.client.aclose()  # so that each request needs a handshake of its own
                assert (await alice.ask("GET", "/v1/status"))["cluster_id"] == "prod"
        finally:
            for each in strangers:
                each.close()


async def test_an_operator_is_no_node(founded: Founded) -> None:
    """rules K34, J3: the certificate of an operator opens neither the fleet's listener nor a join."""
    async with running(founded) as at:
        alice = await Afar(at, "alice").added()
        as_node = TlsNode(at, "alice", pair=alice.pair)
        assert await refusal(as_node.head()) == "tls_failed"
        await at.ask("POST", "/v1/allowlist/alice", {})
        assert await refusal(as_node.join(await at.token("alice"))) == "identity_conflict"
        assert (await at.ask("GET", "/v1/nodes"))["nodes"] == []
        assert (await alice.ask("GET", "/v1/status"))["cluster_id"] == "prod"
        node = await at.admit("node-b")
        assert (await node.head()).status == 200


async def test_whoever_was_removed_is_out_at_once(founded: Founded) -> None:
    """threats M07, M08: the open connection ends, long before it would for idleness, and a new handshake fails."""
    async with running(founded) as at:
        alice = await Afar(at, "alice").added()
        context = ssl.create_default_context(cafile=at.founded.folder / "ca.pem")
        context.load_cert_chain(alice.identity.certificate, alice.identity.key)
        bob = await Afar(at, "bob").added()
        stream = await trio.open_ssl_over_tcp_stream("localhost", at.ports.operators, ssl_context=context)
        await stream.send_all(b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        await at.ask("DELETE", "/v1/operators/alice")
        with trio.fail_after(30):
            assert await said_at_the_end(stream) == b""
        await trio.aclose_forcefully(stream)
        await alice.is_unknown()
        assert (await bob.ask("GET", "/v1/status"))["cluster_id"] == "prod"
        await alice.added()
        assert (await alice.ask("GET", "/v1/status"))["cluster_id"] == "prod"


async def said_at_the_end(stream: trio.SSLStream) -> bytes:
    """What comes before the connection is over, in whatever way it ends."""
    try:
        return bytes(await stream.receive_some())
    except trio.BrokenResourceError:
        return b""


async def test_another_replicas_removal_holds_for_the_next_request(founded: Founded) -> None:
    """Each request is held against the database, over whatever connection it comes."""
    async with running(founded) as at:
        alice = await Afar(at, "alice").added()
        await alice.ask("GET", "/v1/status")
        operators.remove(at.daemon.coordinator.database, "alice", actor="another", now=founded.now)
        with pytest.raises(ClientError) as found:
            await alice.ask("GET", "/v1/status")
        assert found.value.code == "permission_denied"
        assert "operators add" in found.value.remedy  # and not to become root
        await at.daemon.door.look()
        await alice.is_unknown()


async def test_an_older_reading_undoes_nothing(founded: Founded) -> None:
    """threats M07: who was added, or removed, while the table was read is not removed, or let in, by that reading."""
    async with running(founded) as at:
        database, door = at.daemon.coordinator.database, at.daemon.door
        elsewhere = Database(founded.url)
        alice = Afar(at, "alice")
        for change, expected in (
            (lambda: operators.add(elsewhere, "alice", alice.pair.der, actor="uid:0", now=founded.now), ["alice"]),
            (lambda: operators.remove(elsewhere, "alice", actor="uid:0", now=founded.now), []),
        ):
            async with trio.open_nursery() as nursery:
                with held_reading(database, "operators") as reading:
                    nursery.start_soon(door.load)
                    await trio.to_thread.run_sync(reading.wait)
                    change()
                    nursery.start_soon(door.load)
                    await trio.testing.wait_all_tasks_blocked(0.1)
            assert [pin.node_id for pin in door.table] == expected
        elsewhere.close()


async def test_an_expired_certificate_is_told_so(founded: Founded) -> None:
    """Also over a connection that was opened before; the next one who was added is answered."""
    clock = {"now": founded.now}
    async with running(founded, now=lambda: clock["now"]) as at:
        alice = await Afar(at, "alice", make_identity("alice", founded.now, lifetime_s=600)).added()
        assert (await alice.ask("GET", "/v1/status"))["cluster_id"] == "prod"
        clock["now"] += 600
        assert await refusal(alice.ask("GET", "/v1/status")) == "certificate_expired"
        await alice.client.aclose()
        assert await refusal(alice.ask("GET", "/v1/status")) == "certificate_expired"
        assert (await (await Afar(at, "bob").added()).ask("GET", "/v1/nodes"))["nodes"] == []


async def test_the_coordinator_proves_itself_first(founded: Founded) -> None:
    """rules K15, threats J14: with another CA the operator's tool sends nothing."""
    other = founded.folder / "other.pem"
    other.write_bytes(make_authority("somebody else's", time.time()).certificate_pem)
    async with running(founded) as at:
        alice = await Afar(at, "alice", authority=other).added()
        assert await refusal(alice.ask("GET", "/v1/status")) == "tls_failed"
        assert at.daemon.servers["operators"].statistics().answered == 0


async def test_what_stays_on_the_machine(founded: Founded) -> None:
    """`local_only`: who may come in, and files of the machine."""
    async with running(founded) as at:
        alice = await Afar(at, "alice").added()
        body = {"certificate": base64.b64encode(make_identity("bob", founded.now).der).decode()}
        assert await refusal(alice.ask("POST", "/v1/operators/bob", body)) == "local_only"
        with structlog.testing.capture_logs() as logs:
            assert await refusal(alice.ask("DELETE", "/v1/operators/alice")) == "local_only"
        (said,) = [each for each in logs if each.get("operator") == "alice"]  # who tries is known
        assert (said["method"], said["route"]) == ("DELETE", "/v1/operators/{name}")
        assert await refusal(alice.ask("POST", "/v1/publish", {"to": str(founded.folder / "tree")})) == "local_only"
        assert not (founded.folder / "tree").exists()
        assert [each["name"] for each in (await alice.ask("GET", "/v1/operators"))["operators"]] == ["alice"]
        daemon = at.daemon
        routes = admin_routes(daemon.coordinator, daemon.door, daemon.reminder)
        known = {(route.method, route.template) for route in routes}
        assert known >= LOCAL_ONLY


async def test_without_a_place_there_is_no_such_listener(tmp_path: Path) -> None:
    async with running(Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")) as at:
        assert at.ports.operators is None

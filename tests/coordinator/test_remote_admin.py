"""The admin listener over TLS: who comes in, who does not, what stays on the machine (protocol 2; threats M01, M07)."""

import base64
import socket
import ssl
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from coordinator.api.listeners import admin_routes
from coordinator.database.database import Database
from coordinator.membership import operators
from coordinator.runtime import route_roles
from coordinator.runtime.remote_admin import LOCAL_ONLY
from coordinator.runtime.route_roles import NEEDED
from tests.coordinator.afar import Afar
from tests.coordinator.candidates import contents
from tests.coordinator.daemon import PATIENT, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.readings import held_reading
from tests.logs import capture_logs
from wire.certificate import make_authority, make_identity
from wire.client import Call, ClientError, HttpClient, HttpsConnector
from wire.operators.operator_roles import OperatorRole
from wire.routes import HttpRoute


@pytest.fixture
def founded(tmp_path: Path) -> Founded:
    return Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", listen='admin = "127.0.0.1:0"')


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
        assert await refusal(alice.ask("GET", "/v1/status")) == "unknown_ca"
        assert at.daemon.servers["operators"].statistics().answered == 0


async def test_what_stays_on_the_machine(founded: Founded) -> None:
    """`local_only`: who may come in, and files of the machine."""
    async with running(founded) as at:
        alice = await Afar(at, "alice").added()
        body = {"certificate": base64.b64encode(make_identity("bob", founded.now).der).decode()}
        assert await refusal(alice.ask("POST", "/v1/operators/bob", body)) == "local_only"
        with capture_logs() as logs:
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


ASKED = {
    OperatorRole.VIEWER: ("GET", "/v1/audit", None),
    OperatorRole.AUTHOR: ("POST", "/v1/apply", {"files": {"a.yaml": "{kind: Organization, id: acme}"}}),
    OperatorRole.ADMIN: ("POST", "/v1/tokens", {}),
}
"""What only who has the role, or more, may ask."""


async def test_every_route_has_the_role_that_it_needs(founded: Founded) -> None:
    """And no route that is not there has one; to look needs no more than to look."""
    async with running(founded) as at:
        daemon = at.daemon
        routes = admin_routes(daemon.coordinator, daemon.door, daemon.reminder)
        assert {route_roles.name_of(route) for route in routes} == set(NEEDED)
        assert {name for name, role in NEEDED.items() if role is OperatorRole.VIEWER} == {
            name for name in NEEDED if name.startswith("GET ")
        }
        local = {f"{method} {template}" for method, template in LOCAL_ONLY}
        assert {NEEDED[name] for name in local} == {OperatorRole.ADMIN}
        unknown = HttpRoute("POST", "/v1/new", routes[0].handler)
        assert route_roles.role_for(unknown) is OperatorRole.ADMIN


@pytest.mark.parametrize("role", OperatorRole)
async def test_nobody_asks_beyond_the_role(founded: Founded, role: OperatorRole) -> None:
    """What is refused names the role that is needed, changes nothing, and is in the audit log; then what may be asked
    is answered over the same connection.
    """
    async with running(founded) as at:
        bob = await Afar(at, "bob").added(role=str(role))
        for needed, (method, path, body) in ASKED.items():
            if role.covers(needed):
                continue
            before = contents(at.daemon.coordinator.database, "resources", "tokens")
            for _ in range(3):
                with pytest.raises(ClientError) as found:
                    await bob.ask(method, path, body)
                assert found.value.code == "permission_denied"
                assert needed in str(found.value) and f"set-role bob {needed}" in found.value.remedy
            assert contents(at.daemon.coordinator.database, "resources", "tokens") == before
            rows = (await at.ask("GET", "/v1/audit?action=operator.ask"))["entries"]
            (row,) = [row for row in rows if row["subject"] == f"{method} {path}"]  # once, for all three
            assert (row["actor"], row["outcome"]) == ("operator:bob", "permission_denied")
        for needed, asked in ASKED.items():
            if role.covers(needed):
                assert await bob.ask(*asked)


async def test_another_role_holds_for_the_next_request(founded: Founded) -> None:
    """Also one that another coordinator has given, and over the connection that was open; down and up."""
    async with running(founded) as at:
        bob = await Afar(at, "bob").added(role="author")
        elsewhere = Database(founded.url)
        assert (await bob.ask(*ASKED[OperatorRole.AUTHOR]))["outcome"] == "applied"
        operators.set_role(elsewhere, "bob", OperatorRole.VIEWER, actor="uid:0", now=founded.now)
        assert await refusal(bob.ask(*ASKED[OperatorRole.AUTHOR])) == "permission_denied"
        assert (await at.ask("POST", "/v1/operators/bob/role", {"role": "admin"}))["role"] == "admin"
        assert await bob.ask(*ASKED[OperatorRole.ADMIN])
        elsewhere.close()


async def test_nobody_makes_an_admin_of_himself(founded: Founded) -> None:
    """Roles are given on the machine: whoever steals an admin's certificate cannot make it two."""
    async with running(founded) as at:
        for name in ("viewer", "admin"):
            eve = await Afar(at, name).added(role=name)
            raised = eve.ask("POST", f"/v1/operators/{name}/role", {"role": "admin"})
            assert await refusal(raised) == ("permission_denied" if name == "viewer" else "local_only")
        listed = (await at.ask("GET", "/v1/operators"))["operators"]
        assert {each["name"]: each["role"] for each in listed} == {"viewer": "viewer", "admin": "admin"}
        for wrong in ("root", "", None):
            assert await refusal(at.ask("POST", "/v1/operators/admin/role", {"role": wrong})) == "bad_request"


async def test_without_a_place_there_is_no_such_listener(tmp_path: Path) -> None:
    async with running(Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")) as at:
        assert at.ports.operators is None

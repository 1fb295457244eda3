"""What a mirror has to show, over real TLS: a chain to a public CA, to one of its own, or one certificate."""

import os
import ssl
import subprocess
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from snapshot.mirrors import MirrorTls
from tests.wire.lab import authority, get, issued, node, text
from wire.certificate import fingerprint, make_identity
from wire.client import Call, ClientError, ClientFault, HttpClient, HttpsConnector
from wire.endpoint import Endpoint
from wire.limits import REMOTE
from wire.pins import PinTable
from wire.routes import Routes
from wire.server import Server
from wire.tls import PinnedTransport, ServerAuthTransport
from wire.tls_contexts import EmptyTrustError

PUBLIC, OWN = authority("public"), authority("mirror")


@pytest.fixture
def roots(tmp_path):
    """As a machine has them: /etc/ssl/certs."""
    folder = tmp_path / "roots"
    folder.mkdir()
    file = folder / "public.pem"
    file.write_bytes(PUBLIC.certificate_pem)
    asked = ["openssl", "x509", "-in", str(file), "-noout", "-subject_hash"]
    name = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    (folder / f"{name}.0").symlink_to(file)
    return folder


@asynccontextmanager
async def serving(shown, transport=ServerAuthTransport):
    server = Server("mirror", Routes(get("/", text("a document"))), transport(shown, REMOTE), REMOTE)
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        yield server, Endpoint("localhost", listener.socket.getsockname()[1], configured=True)
        nursery.cancel_scope.cancel()


async def outcome(endpoint, tls, roots="/nowhere"):
    """`ok`, or what the client says."""
    client = HttpClient(HttpsConnector.to_mirror(tls, roots))
    try:
        with trio.fail_after(30):
            return "ok" if (await client.fetch(endpoint, Call("GET", "/"))).body == b"a document" else "?"
    except ClientError as error:
        return error.reason
    finally:
        await client.aclose()


async def test_system_roots_are_those_of_the_machine_and_of_no_variable(roots, tmp_path, monkeypatch):
    """rules K15, threats N06: a public file server is believed by its chain and its name"""
    (tmp_path / "own.pem").write_bytes(OWN.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)
    tls = MirrorTls(system_roots=True)
    async with serving(issued(PUBLIC, "localhost")) as (_, there):
        assert await outcome(there, tls, roots) == "ok"
        assert await outcome(there, tls, tmp_path / "none") == ClientFault.UNTRUSTED_MIRROR
    for stranger in (issued(OWN, "localhost"), make_identity("localhost", 1_800_000_000.0)):
        async with serving(stranger) as (server, there):
            assert await outcome(there, tls, roots) == ClientFault.UNTRUSTED_MIRROR
            assert server.statistics().answered == 0
    async with serving(issued(PUBLIC, "other.example")) as (server, there):
        assert await outcome(there, tls, roots) == ClientFault.TLS_FAILED
        assert server.statistics().answered == 0


async def test_a_ca_of_its_own_and_no_other(roots):
    tls = MirrorTls(authorities=frozenset({OWN.der}))
    async with serving(issued(OWN, "localhost")) as (_, there):
        assert await outcome(there, tls) == "ok"
        both = MirrorTls(authorities=frozenset({PUBLIC.der, OWN.der}))
        assert await outcome(there, both) == "ok"
    async with serving(issued(PUBLIC, "localhost")) as (server, there):
        assert await outcome(there, tls, roots) == ClientFault.UNTRUSTED_MIRROR
        assert server.statistics().answered == 0
    async with serving(issued(OWN, "other.example")) as (_, there):
        assert await outcome(there, tls) == ClientFault.TLS_FAILED


async def test_a_pinned_certificate_whatever_name_and_dates_it_bears(roots):
    """And no other, though a CA that the machine believes has made it: nothing is sent to that"""
    expired = make_identity("elsewhere.example", 946_684_800.0, lifetime_s=1.0)
    tls = MirrorTls(certificates=frozenset({fingerprint(expired.der), "sha256:" + "0" * 64}))
    async with serving(expired) as (_, there):
        assert await outcome(there, tls) == "ok"
    async with serving(issued(PUBLIC, "localhost")) as (server, there):
        assert await outcome(there, tls, roots) == ClientFault.UNTRUSTED_MIRROR
        assert server.statistics().answered == 0


async def test_whoever_runs_it_is_shown_nothing_of_the_node(tmp_path):
    """One that asks for a client certificate gets none, and turns us away."""
    identity, der = node(tmp_path, "alice")
    table = PinTable()
    table.add(der, "alice")
    shown = issued(OWN, "localhost")
    async with serving(shown, partial(PinnedTransport, table)) as (server, there):
        for tls in (
            MirrorTls(authorities=frozenset({OWN.der})),
            MirrorTls(certificates=frozenset({fingerprint(shown.der)})),
        ):
            assert await outcome(there, tls) == ClientFault.TLS_FAILED
        assert server.statistics().answered == 0
        (tmp_path / "own.pem").write_bytes(OWN.certificate_pem)
        client = HttpClient(HttpsConnector.to_authority(tmp_path / "own.pem", identity))
        assert (await client.fetch(there, Call("GET", "/"))).body == b"a document"
        await client.aclose()


async def test_a_certificate_without_its_key_is_nobody(tmp_path):
    """A pin is public: TLS asks for the key, though nothing else is judged there"""
    real, thief = issued(OWN, "localhost"), issued(OWN, "localhost")
    with pytest.raises(ssl.SSLError):
        ServerAuthTransport(type(real)(real.certificate_pem, thief.key_pem), REMOTE)
    async with serving(thief) as (_, there):
        tls = MirrorTls(certificates=frozenset({fingerprint(real.der)}))
        assert await outcome(there, tls) == ClientFault.UNTRUSTED_MIRROR


def test_a_mirror_of_which_nothing_is_known_has_no_connector():
    with pytest.raises(EmptyTrustError):
        HttpsConnector.to_mirror(MirrorTls())

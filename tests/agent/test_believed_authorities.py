"""The CA of the coordinators is exchanged, and no node is touched: whom a node believes, over real TLS.

The two CAs have one name, as two of `holdfastctl` may have: they are told apart by their keys.
"""

import base64
import time
from dataclasses import replace

import pytest
import trio
import trio.testing

from agent.base.byte_source import Chunks
from agent.config.configuration import MapEntry
from agent.enrolment import identity_reset
from agent.enrolment.join_request import coordinators
from agent.sources.authorities import MOST, MOST_SEEN
from agent.sources.source import head_place
from agent.state.held_state import BOOTSTRAP
from snapshot import codes
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.manifest import Revocations
from store.base.disk import Disk
from tests.agent.bench import bench
from tests.fakes.cluster import CLUSTER_ID, DAY, key
from tests.fakes.storage import StorageServer
from tests.fakes.thief import repair
from tests.journeys.lab import lab
from tests.logs import capture_logs
from wire.addresses import Addresses
from wire.certificate import fingerprint, make_authority
from wire.client import Call, ClientError
from wire.endpoint import Endpoint, path

HEAD = head_place("node-a", (0, 0), 0)


@pytest.fixture
def second():
    return make_authority("test CA", time.time())


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock) as made:
        yield made


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


def sections(*authorities, urls=()):
    listed = {fingerprint(ca.der): {"certificate": base64.b64encode(ca.der).decode()} for ca in authorities}
    named = {"authorities": listed} if authorities else {}
    return {"cluster": {"cluster_id": CLUSTER_ID, "coordinators": list(urls)}, "node": {"site": "default"}, **named}


async def hold(made, *authorities, **more):
    """The node holds a list of these; its sources follow."""
    await made.take(made.server.snapshot(sections(*authorities, **more), BOOTSTRAP))
    await made.outside.update.bring_up()


async def outcome(made, source=None):
    """Of a question for a head, over a new connection: `ok`, or the code."""
    asked = source or made.coordinator
    await asked.client.aclose()
    try:
        with trio.fail_after(60):
            await asked.fetch(HEAD, limit=1 << 20)
    except ClientError as error:
        return str(error.reason)
    return "ok"


async def seen(made, *authorities):
    """By each of these CAs, what the node makes of a certificate of it."""
    found = []
    for authority in authorities:
        await made.server.show_certificate_of(authority)
        found.append(await outcome(made))
    return found


async def test_without_a_signed_list_the_file_is_believed(made, second, mock_clock):
    """rules K15"""
    assert await seen(made, made.server.authority, second) == ["ok", "unknown_ca"]


async def test_an_exchange_and_nobody_touches_the_node(made, second, mock_clock):
    """rules K15, L15: old, both, new; and the old one is a stranger's from then on, whatever the file says"""
    first, file = made.server.authority, made.server.ca_file.read_bytes()
    await hold(made, first)
    assert await seen(made, first, second) == ["ok", "unknown_ca"]
    await hold(made, first, second)
    assert await seen(made, first, second) == ["ok", "ok"]
    await hold(made, second)
    assert await seen(made, first, second) == ["unknown_ca", "ok"]
    assert made.server.ca_file.read_bytes() == file


async def test_what_is_believed_is_the_same_after_a_restart(one, second, mock_clock):
    """rules L15: nothing is asked before the list is known"""
    first = one.server.authority
    async with bench(one) as made:
        await made.settle()
        await hold(made, first, second)
    async with bench(one) as made:
        assert await seen(made, first, second) == ["ok", "ok"]
        await hold(made, second)
    async with bench(one) as made:
        assert await seen(made, first, second) == ["unknown_ca", "ok"]


async def test_a_withdrawn_ca_takes_its_connections_with_it(made, second, mock_clock):
    """threats D-49: whoever has its key may be at the other end of them"""
    first = made.server.authority
    await hold(made, first, second)
    source = made.coordinator
    made.server.hang = "GET /v1/head"

    async def waiting():
        with pytest.raises(ClientError) as caught:
            await source.fetch(HEAD, limit=1 << 20)
        assert str(caught.value.reason) in ("truncated", "connect_failed")

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await hold(made, second)
    made.server.hang = ""
    await made.server.show_certificate_of(second)
    assert await outcome(made) == "ok"


async def test_one_that_is_added_ends_no_connection(made, second, mock_clock):
    await hold(made, made.server.authority)
    before = made.coordinator
    await before.fetch(HEAD, limit=1 << 20)
    await hold(made, made.server.authority, second)
    assert await outcome(made, before) == "ok", "a request over what was made before may end"
    assert made.coordinator is not before


async def test_a_node_that_slept_through_it_says_so_and_a_file_brings_it_back(made, second, mock_clock):
    """rules P1, K15: it keeps what it has, believes no new CA of itself, and comes back by its documents"""
    first = made.server.authority
    await hold(made, first)
    await made.server.show_certificate_of(second)
    assert await outcome(made) == "unknown_ca"
    await made.outside.refresh.ask(made.coordinator)
    made.lab.clock.base += DAY
    assert (made.lab.state, made.lab.cause) == ("degraded", "head_expired")
    (row,) = made.outside.sources.report()
    assert row.error.startswith("unknown_ca: ") and row.failures == 1
    assert "holdfast import" in codes.explain("unknown_ca", codes.Area.SOURCE).remedy
    files = [made.server.snapshot(sections(second), BOOTSTRAP), made.server.announce()]
    for document in reversed(files):
        await made.outside.update.importing.take(Chunks(document.to_bytes()), document.envelope.kind, "a file")
    await made.outside.update.bring_up()
    assert made.coordinator.is_rested, "it is asked at once"
    assert await outcome(made) == "ok"
    assert made.lab.state == "active"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("exchanged", [False, True])
async def test_who_lists_a_ca_of_his_own_keeps_no_bundle_out(one, second, mock_clock, exchanged, restarted):
    """rules S44; threats T16: with a stolen config key, by network, also where the file names nobody who answers"""
    first, his = one.server.authority, [make_authority("test CA", time.time()) for _ in range(MOST_SEEN)]
    real = second if exchanged else first
    async with bench(one) as made:
        await made.settle()
        if exchanged:
            await hold(made, first, second)
            await hold(made, second)
        await made.server.show_certificate_of(real)
        for start in range(0, MOST_SEEN, MOST):
            await hold(made, *his[start : start + MOST])
        assert await seen(made, real, his[-1]) == ["unknown_ca", "ok"]
        await made.server.show_certificate_of(real)
        if not restarted:
            await comes_back(made, real)
    if restarted:
        async with bench(one) as made:
            made.node.membership.is_member = True
            await comes_back(made, real)


async def let_go(one, second, how):
    """A node of one list, {second}, its file naming the first CA; then it holds no list. As it starts again."""
    async with bench(one) as made:
        await made.settle()
        await hold(made, second)
        if how == "revoked":
            await made.outside.update.activating.let_all_go()
            await made.outside.sources.follow()
            assert await joins(made, one.server.authority, second) == ["unknown_ca", "ok"]
        store = made.node.store
        if how == "reset":
            identity_reset.reset(store, Disk(), identity_reset.look(store), now=one.clock.true)


async def joins(made, *authorities):
    """By each of these CAs, whether a token would be sent to who shows a certificate of it."""
    found = []
    for authority in authorities:
        await made.server.show_certificate_of(authority)
        async with coordinators(made.node, Addresses()) as client:
            place = Endpoint("127.0.0.1", made.server.join_port, configured=True)
            try:
                await client.fetch(place, Call("GET", path("v1", "join", "nonce")))
                found.append("ok")
            except ClientError as error:
                found.append(str(error.reason))
    return found


@pytest.mark.parametrize("how", ["revoked", "reset"])
async def test_the_last_list_holds_where_no_document_does(one, second, mock_clock, how):
    """rules K15, L15, L13: no token to whoever has the key of a CA that was withdrawn"""
    await let_go(one, second, how)
    async with bench(one) as made:
        assert BOOTSTRAP not in made.node.holdings.scopes
        assert await joins(made, one.server.authority, second) == ["unknown_ca", "ok"]
        await made.outside.sources.follow()
        assert await joins(made, one.server.authority, second) == ["unknown_ca", "ok"]


@pytest.mark.parametrize("how", ["revoked", "reset"])
async def test_once_its_signer_is_revoked_the_file_counts_beside_it(one, second, mock_clock, how):
    """threats T16: a thief of a config key locks nobody out by a list that outlives its document"""
    await let_go(one, second, how)
    async with bench(one) as made:
        bundle = repair(one.server)[0]
        await made.outside.update.importing.take(
            Chunks(bundle.to_bytes()), bundle.envelope.kind, "a file", TRUST_BUNDLE
        )
        await made.outside.sources.follow()
        assert await joins(made, one.server.authority, second) == ["ok", "ok"]


async def test_a_signer_that_a_head_has_revoked_stays_so_without_the_head(one, second, mock_clock):
    """threats T16: a reset lets the head go as well"""
    async with bench(one) as made:
        await made.settle()
        await hold(made, second)
        signers = made.node.holdings.kept.active[BOOTSTRAP].signers
        revoked = Revocations(version=1, key_ids=frozenset(signers))
        await made.take(made.server.announce(revocations=revoked, keys=[key("config-2")]))
        await made.outside.sources.follow()
        store = made.node.store
        identity_reset.reset(store, Disk(), identity_reset.look(store), now=one.clock.true)
    async with bench(one) as made:
        assert await joins(made, one.server.authority, second) == ["ok", "ok"]


async def comes_back(made, real):
    """The look at bundles finds the way, and then everything else does."""
    made.server.snapshot(sections(real), BOOTSTRAP)
    documents = repair(made.server)
    assert await outcome(made) == "unknown_ca"
    await made.outside.second_look.look()
    assert made.node.holdings.bundle.version == len(made.server.bundles)
    assert made.server.requests[-1].startswith("GET /v1/trust"), "nothing else is asked there"
    await made.outside.update.bring_up()
    await made.outside.refresh.ask(made.coordinator)
    await made.outside.update.bring_up()
    assert made.node.holdings.kept.active[BOOTSTRAP].version[0] == documents[-1].envelope.authority_epoch
    assert await seen(made, make_authority("x", time.time()), real) == ["unknown_ca", "ok"]


async def test_the_list_of_an_expired_document_holds(made, second, mock_clock):
    """rules L15: nodes would be stranded, nothing gained"""
    await hold(made, second)
    made.lab.clock.base += 30 * DAY
    await made.outside.update.bring_up()
    assert await seen(made, made.server.authority, second) == ["unknown_ca", "ok"]


async def test_what_is_amiss_is_logged_once_and_an_empty_list_is_none(made, second, mock_clock):
    """format.md 10"""
    listed = sections(second)
    listed["authorities"]["sha256:" + "0" * 64] = {"certificate": "x"}
    with capture_logs() as logs:
        await made.take(made.server.snapshot(listed, BOOTSTRAP))
        for _ in range(3):
            await made.outside.update.bring_up()
    assert [entry["event"] for entry in logs if "CA" in entry["event"]] == ["CAs", "CA passed over"]
    assert await seen(made, second) == ["ok"]
    await made.take(made.server.snapshot({**sections(), "authorities": {}}, BOOTSTRAP))
    await made.outside.update.bring_up()
    assert await seen(made, made.server.authority, second) == ["ok", "unknown_ca"]


async def test_renewals_and_storage_go_by_the_same_list(made, second, mock_clock):
    """rules K48, S64"""
    first = made.server.authority
    made.server.authority = second
    async with StorageServer(made.server, made.lab.folder / "storage").running() as storage:
        await hold(made, first)
        endpoint = Endpoint.parse(storage.url)
        kind = made.coordinator.kind

        def stored():
            return made.outside.sources._source(kind, endpoint)

        assert await outcome(made, stored()) == "unknown_ca"
        await hold(made, first, second)
        assert await outcome(made, stored()) == "ok"
    await made.server.show_certificate_of(second)
    async with coordinators(made.node, Addresses()) as client:
        place = Endpoint("127.0.0.1", made.server.join_port, configured=True)
        assert (await client.fetch(place, Call("GET", path("v1", "join", "nonce")))).status == 200


async def test_a_manual_map_believes_the_files_that_it_names(made, second, mock_clock):
    """rules K3"""
    await hold(made, second)
    entry = MapEntry(url=str(made.coordinator), ca_file=made.server.ca_file)
    made.node.settings = replace(made.node.settings, coordinator=None, manual=(entry,))
    await made.outside.sources.follow()
    (source, *_) = made.outside.sources.all()
    assert await outcome(made, source) == "ok"


async def test_the_end_of_what_is_believed_is_said_and_not_the_files(made, second, mock_clock):
    await hold(made, second)
    await made.outside.certificate_ends.look()
    (shown,) = [each for each in made.inside.front.report().ends if each.what == "ca_certificate"]
    assert shown.name == fingerprint(second.der)
    assert "coordinators ca begin" in shown.remedy

"""The last working addresses: what is kept of them, for how long, and over a restart of the node."""

import base64
import socket
from dataclasses import replace
from time import time as time_now

import pytest
import trio

from agent.config.token import JoinToken
from agent.sources.addresses import FRESH_S, KEPT_S, MOST, KeptAddresses
from agent.sources.source import head_place
from agent.state.health_rows import ADDRESSES_ROW
from agent.state.held_state import BOOTSTRAP
from store.base.tables import Name
from tests.agent.bench import bench
from tests.fakes.cluster import CLUSTER_ID, NODE_ID
from tests.fakes.coordinator_server import TOKEN
from tests.journeys.lab import lab
from wire.certificate import fingerprint, make_authority
from wire.client import ClientError, ClientFault
from wire.endpoint import Endpoint

HEAD = head_place(NODE_ID, (0, 0), 0)
PLACE = Endpoint("coord.example", 7443)
NOW = 1_800_000_000


class Time:
    now = float(NOW)

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


def kept(time, row=None):
    return KeptAddresses(row, time)


def test_it_outlives_a_process_and_a_newer_one_takes_its_place(time):
    """rules K50, P16"""
    book = kept(time)
    assert (book.find(PLACE), book.is_changed) == (None, False)
    book.note(PLACE, "192.0.2.1")
    assert book.is_changed
    again = kept(time, book.to_row())
    assert (again.find(PLACE), again.is_changed, book.is_changed) == ("192.0.2.1", False, False)
    again.note(PLACE, "2001:db8::1")
    assert kept(time, again.to_row()).find(PLACE) == "2001:db8::1"
    assert again.find(Endpoint("coord.example", 7444)) is None


def test_it_is_written_once_a_day_and_kept_for_a_month(time):
    book = kept(time)
    book.note(PLACE, "192.0.2.1")
    row = book.to_row()
    time.now += FRESH_S - 1
    book.note(PLACE, "192.0.2.1")
    assert not book.is_changed
    time.now += 1
    book.note(PLACE, "192.0.2.1")
    assert book.is_changed
    time.now = NOW + KEPT_S
    assert kept(time, row).find(PLACE) == "192.0.2.1"
    time.now += 1
    assert kept(time, row).find(PLACE) is None
    old = kept(time, row)
    old.note(Endpoint("other.example", 443), "192.0.2.2")
    assert list(old.to_row()) == ["https://other.example:443"]


def test_of_too_many_those_that_worked_last_are_kept(time):
    book = kept(time)
    for number in range(MOST + 5):
        time.now += 1
        book.note(Endpoint(f"s{number}.example", 443), "192.0.2.1")
    row = book.to_row()
    assert len(row) == MOST
    assert "https://s4.example:443" not in row
    assert f"https://s{MOST + 4}.example:443" in row


def test_a_signed_name_is_led_nowhere_where_dns_may_not_lead_it(time):
    """threats D-47; rules L3: whatever somebody has put into the store"""
    row = {"https://coord.example:7443": {"address": "127.0.0.1", "worked_at": NOW}}
    assert kept(time, row).find(PLACE) is None
    assert kept(time, row).find(Endpoint("coord.example", 7443, configured=True)) == "127.0.0.1"


def test_of_what_is_no_name_nothing_is_kept(time):
    book = kept(time)
    book.note(Endpoint("192.0.2.1", 443), "192.0.2.1")
    book.note(PLACE, "fe80::1%eth0")
    assert not book.is_changed


@pytest.mark.parametrize("row", [
    None, 7, [], {"https://coord.example:7443": "192.0.2.1"}, {"https://coord.example:7443": {"address": "192.0.2.1"}},
    {"https://coord.example:7443": {"address": "coord.example", "worked_at": NOW}},
    {"https://coord.example:7443": {"address": 1, "worked_at": NOW}}, {7: {"address": "192.0.2.1", "worked_at": NOW}},
    {"https://coord.example:7443": {"address": "192.0.2.1", "worked_at": "now"}},
])  # fmt: skip
def test_what_is_not_in_form_is_not_known(time, row):
    assert kept(time, row).find(PLACE) is None


class Dns(trio.abc.HostnameResolver):
    """Leads every name to this machine, until it hangs."""

    hangs = False

    async def getaddrinfo(self, host, port, *_):
        if self.hangs:
            await trio.sleep_forever()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


async def test_a_node_that_starts_without_dns_reaches_who_it_has_reached_before(tmp_path, mock_clock):
    """rules K50, L14: over real TLS, by the name; the address comes from the store"""
    dns = Dns()
    trio.socket.set_custom_hostname_resolver(dns)
    async with lab(tmp_path, mock_clock) as one:
        by_name = (f"https://localhost:{one.server.fleet_port}",)
        one.settings = replace(one.settings, coordinator=replace(one.settings.coordinator, urls=by_name))
        async with bench(one) as made:
            await made.settle()
            for _ in range(2):
                await made.outside.sources.note_answer(made.coordinator)
                (row,) = made.node.store.table(Name.ROUTES).get(ADDRESSES_ROW).values()
                assert row["worked_at"] == int(made.node.now()), "an answer is a sign of life, too"
                one.clock.base += FRESH_S
        dns.hangs = True
        async with bench(one) as made:
            assert (await made.coordinator.fetch(HEAD, limit=1 << 20)).status == 200
            await made.node.threads.write(made.node.store.table(Name.ROUTES).delete, ADDRESSES_ROW)
        async with bench(one) as made:
            with pytest.raises(ClientError) as caught:
                await made.coordinator.fetch(HEAD, limit=1 << 20)
            assert caught.value.reason is ClientFault.TIMED_OUT


async def test_whoever_joins_renews_or_asks_for_bundles_as_a_last_resort_needs_no_dns_either(tmp_path, mock_clock):
    """rules K50, S44, K48: where the node's list names another's CA alone"""
    dns, stranger = Dns(), make_authority("test CA", time_now())
    trio.socket.set_custom_hostname_resolver(dns)
    async with lab(tmp_path, mock_clock) as one:
        by_name = (f"https://localhost:{one.server.fleet_port}",)
        one.settings = replace(one.settings, coordinator=replace(one.settings.coordinator, urls=by_name))
        async with bench(one) as made:
            await made.settle()
            await made.outside.sources.note_answer(made.coordinator)
            dns.hangs = True
            joins = Endpoint.parse(
                by_name[0].replace(str(one.server.fleet_port), str(one.server.join_port)), configured=True
            )
            made.outside.sources.addresses.note(joins, "127.0.0.1")
            made.node.settings = replace(
                one.settings, coordinator=replace(one.settings.coordinator, join_urls=(str(joins),))
            )
            await made.outside.joining._join(JoinToken(TOKEN))
            await made.outside.joining.renewal.renew()
            listed = {fingerprint(stranger.der): {"certificate": base64.b64encode(stranger.der).decode()}}
            of = {"cluster": {"cluster_id": CLUSTER_ID, "coordinators": []}, "node": {}, "authorities": listed}
            await made.take(one.server.snapshot(of, BOOTSTRAP))
            await made.outside.sources.follow()
            one.server.publish(one.cluster.trust_bundle(**one.server.times()))
            await made.outside.second_look.look()
            assert made.node.holdings.bundle.version == len(one.server.bundles)


def test_an_answer_over_a_standing_connection_is_a_sign_of_life(time):
    """rules K50: a coordinator that is asked all the time needs no new handshake for months"""
    book = kept(time)
    book.note(PLACE, "192.0.2.1")
    book.to_row()
    book.note_answer(PLACE)
    book.note_answer(Endpoint("other.example", 443))
    assert not book.is_changed
    time.now += KEPT_S + FRESH_S
    book.note_answer(PLACE)
    assert book.is_changed
    time.now += FRESH_S
    assert kept(time, book.to_row()).find(PLACE) == "192.0.2.1"

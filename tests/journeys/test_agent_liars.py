"""The first source lies, the second is honest: the lie is refused for its reason, and the truth arrives."""

import gzip
from dataclasses import replace

import msgpack
import pytest
import trio

from snapshot import container
from tests.fakes.cluster import Cluster, key
from tests.fakes.damage import with_signature, without_signature
from tests.journeys.lab import ROUTES, Lab, lab
from tests.logs import capture_logs
from wire.request import Response

QOS = "qos_policy"


def read(data):
    parts = container.ChunkParts([data])
    opening, manifest = parts.opening(), parts.manifest()
    return opening, manifest


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def broken_signature(data):
    opening, _ = read(data)
    return flipped(data, data.index(opening.signatures[0][1]))


def with_signatures(data, change):
    envelope, signatures, manifest, sections = msgpack.unpackb(data)
    return msgpack.packb([envelope, change(signatures), manifest, sections])


def one_section_more(data):
    envelope, signatures, manifest, sections = msgpack.unpackb(data)
    return msgpack.packb([envelope, signatures, manifest, [*sections, b"{}"]])


def stripped(document):
    """Its own signature gone, another trusted key's in its place: that key is not listed."""
    other = with_signature(document, key("config-2"))
    return without_signature(other, key("config-1")).to_bytes()


# What becomes of the document's bytes, and the reason; `lab` is the lab, with the good document and the one before it.
LIES = {
    "cut": (lambda data, lab: data[:-5], "bad_container"),
    "nothing": (lambda data, lab: b"", "bad_container"),
    "a page": (lambda data, lab: b"<html>please log in</html>", "bad_container"),
    "one more byte": (lambda data, lab: data + b"\0", "bad_container"),
    "a false length": (lambda data, lab: b"\x94\xc6\xff\xff\xff\xff", "too_large"),
    "no signature": (lambda data, lab: with_signatures(data, lambda given: []), "bad_container"),
    "a signature twice": (lambda data, lab: with_signatures(data, lambda given: given * 2), "bad_container"),
    "very many signatures": (
        lambda data, lab: with_signatures(
            data, lambda given: [[f"sha256:{n:064x}", given[0][1]] for n in range(10_000)]
        ),
        "too_large",
    ),
    "another signature": (lambda data, lab: broken_signature(data), "bad_signature"),
    "somebody else's signature": (lambda data, lab: stripped(lab.good), "bad_signature"),
    "an older version": (lambda data, lab: lab.old.to_bytes(), "not_listed"),
    "another scope": (lambda data, lab: lab.cluster.published["node_bootstrap"].to_bytes(), "not_listed"),
    "a head": (lambda data, lab: lab.server.head, "bad_envelope"),
    "another node's": (lambda data, lab: lab.for_another_node, "wrong_node"),
    "another cluster's": (lambda data, lab: lab.of_another_cluster, "wrong_cluster"),
    "another section": (lambda data, lab: flipped(data, len(data) - 3), "content_mismatch"),
    "another manifest": (lambda data, lab: flipped(data, data.index(read(data)[1]) + 4), "content_mismatch"),
    "a section more": (lambda data, lab: one_section_more(data), "content_mismatch"),
    "maps in maps": (lambda data, lab: b"\x81\xa1a" * 1_000_000, "bad_container"),
    "arrays in arrays": (lambda data, lab: b"\x91" * 1_000_000, "bad_container"),
}


async def endless(data):
    while True:
        yield data


async def too_little(data):
    yield data


async def dripping(data):
    for index in range(len(data)):
        await trio.sleep(0.9)
        yield data[index : index + 1]


def answered(body=b"", status=200, **headers):
    return Response(status, [(name.replace("_", "-"), value) for name, value in headers.items()], body)


# What is answered in place of the document, and why the source was given up for a while.
ANSWERS = {
    "it sends elsewhere": (lambda data: answered(status=302, location="https://127.0.0.1:1/"), "redirected"),
    "it compresses": (lambda data: answered(gzip.compress(data), content_encoding="gzip"), "encoded"),
    "a bomb": (lambda data: answered(gzip.compress(bytes(1 << 24)), content_encoding="gzip"), "encoded"),
    "it drips": (lambda data: answered(dripping(data), content_length=str(len(data))), "too_slow"),
    "less than announced": (lambda data: answered(too_little(data), content_length=str(2 * len(data))), "truncated"),
    "it is forbidden": (lambda data: answered(status=403), "403"),
    "it is too busy": (lambda data: answered(status=503, retry_after="60"), "503"),
    "it asks for more": (lambda data: answered(status=424), "424"),
}


@pytest.fixture
async def two(tmp_path, mock_clock):
    """A node of two coordinators, the first of which is the lab's own; `honest` is the other one."""
    other = tmp_path / "honest"
    other.mkdir()
    async with lab(tmp_path, mock_clock) as one:
        honest = one.server.another(other)
        async with honest.running():
            urls = tuple(f"https://127.0.0.1:{port}" for port in (one.server.fleet_port, honest.fleet_port))
            settings = replace(one.settings, coordinator=replace(one.settings.coordinator, urls=urls))
            made = Lab(one.folder, one.clock, one.mock, one.server, settings)
            made.honest, made.liar = honest, urls[0]
            yield made


def held(two):
    """What a lie must not change: active and previous documents, marks, trust, spent nonces."""
    kept = two.node.holdings.kept
    names = [name for name in kept.active if name != "head"]
    active = {name: kept.active[name].envelope_hash for name in names}
    previous = {name: found.envelope_hash for name in names if (found := two.node.reader.views.previous(name))}
    marks = {name: kept.marks[name] for name in kept.marks if name != "head"}
    return active, previous, marks, kept.used_nonces, two.node.holdings.bundle.version


async def prepared(two):
    """Version 2 is active; version 3 is at hand, and listed by nobody yet."""
    await two.settled()
    two.old = two.server.snapshot({"routes": {"south": {"via": "b"}}}, ROUTES)
    two.honest.say(two.server.announce())
    await two.until_active(ROUTES, 2)
    two.good = two.server.snapshot({"routes": {"west": {"via": "c"}}}, ROUTES)
    times = two.server.times()
    two.for_another_node = two.cluster.forge(two.good, subject_node_id="node-b", **times).to_bytes()
    two.of_another_cluster = Cluster(cluster_id="elsewhere").snapshot(**times).to_bytes()
    two.before = held(two)


async def the_truth_arrives(two):
    """From the honest source; and the next one from the liar, who has come to his senses."""
    two.honest.say(two.server.announce())
    await two.until_active(ROUTES, 3)
    path = f"/v1/documents/{two.good.envelope.snapshot_id}"
    assert f"GET {path}" in two.server.requests
    assert f"GET {path}" in two.honest.requests
    assert await two.get("v1", "scopes", ROUTES, "sections", "routes") == {"west": {"via": "c"}}
    assert not [slot for slot in two.node.store.pending() if slot.scope == ROUTES], "nothing is left of the lie"


async def the_next_goes_through(two):
    two.server.instead, two.server.spoil = None, lambda path, data: data
    two.server.snapshot({"routes": {"next": {}}}, ROUTES)
    two.honest.say(two.server.announce())
    await two.until_active(ROUTES, 4)


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_refused_and_the_next_source_asked(two, mock_clock, lie):
    """rules S28, S86, S46, S8, S53, S2, P6; threats S01, S03, S05, S09, S14, S20, V07, A01, A04, A16, A19, E04, E05,
    E07, N09, N12
    """
    spoil, reason = LIES[lie]
    async with two.agent():
        await prepared(two)
        seen = []

        def spoilt(path, data):
            if two.good.envelope.snapshot_id not in path:
                return data
            seen.append(held(two))
            return spoil(data, two)

        two.server.spoil = spoilt
        await the_truth_arrives(two)
        assert two.rejected(ROUTES) == reason
        assert seen[0] == two.before
        await the_next_goes_through(two)


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_that_is_none_costs_its_source_a_while(two, mock_clock, name):
    """rules S53, X27, P6; threats N01, N09, N10, E02, D-32"""
    answer, error = ANSWERS[name]
    async with two.agent():
        await prepared(two)
        two.server.instead = lambda path, data: answer(data)
        with capture_logs() as logs:
            await the_truth_arrives(two)
        (told,) = [entry for entry in logs if entry["event"] == "document not fetched"]
        assert (told["source"], told["scope"]) == (two.liar, ROUTES)
        assert error in told["error"]
        assert two.rejected(ROUTES) == ""
        await the_next_goes_through(two)


async def test_what_never_ends_is_left(two, mock_clock):
    """rules S8; threats E01: as soon as it is more than was signed"""
    async with two.agent():
        await prepared(two)
        two.server.instead = lambda path, data: answered(endless(data))
        await the_truth_arrives(two)
        assert two.rejected(ROUTES) == "bad_container"
        await the_next_goes_through(two)

"""What verification holds at once: envelope, manifest, and one section (format.md 3; rules S8)."""

import hashlib
import tracemalloc

import pytest

from snapshot import canonical
from snapshot.container import ChunkParts, Opening
from snapshot.reasons import Reason, Rejected
from snapshot.verify import Verified, verify
from tests.fakes.cluster import NOW, Cluster

KIB, MIB = 1024, 1024 * 1024
SECTIONS, SIZE = 64, 256 * KIB


class Tracked(bytes):
    """Bytes that say how many of them are alive."""

    alive = most = 0

    def __new__(cls, data):
        made = super().__new__(cls, data)
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return made

    def __del__(self):
        type(self).alive -= 1


def section(number):
    """A section of exactly SIZE bytes, made when it is asked for."""
    head = b'{"number":%d,"text":["' % number
    line = b'","'.join([b"x" * 1021] * (SIZE // KIB - 1))
    return head + line + b"x" * (SIZE - len(head) - len(line) - 3) + b'"]}'


class Lazy:
    """A large document that is nowhere whole: `Parts` for the verifier, or the chunks of its container."""

    def __init__(self, cluster, spoil=lambda number, data: data):
        self.spoil = spoil
        names = [f"s{number:02}" for number in range(SECTIONS)]
        digests = [hashlib.sha256(self.section(number)).hexdigest() for number in range(SECTIONS)]
        entries = {name: {"sha256": one, "size": SIZE} for name, one in zip(names, digests, strict=True)}
        small = cluster.snapshot({})
        content = canonical.dumps(entries)
        self.document = cluster.forge(small, manifest=content, content_length=SECTIONS * SIZE)

    def section(self, number):
        return self.spoil(number, section(number))

    def opening(self):
        return Opening(self.document.envelope_bytes, self.document.signatures)

    def manifest(self):
        return self.document.manifest_bytes

    def sections(self, sizes):
        assert list(sizes) == [SIZE] * SECTIONS
        return (Tracked(self.section(number)) for number in range(SECTIONS))

    def chunks(self):
        front = self.document.to_bytes()
        assert front.endswith(b"\x90")
        yield front[:-1] + b"\xdc" + SECTIONS.to_bytes(2, "big")
        for number in range(SECTIONS):
            data = b"\xc6" + SIZE.to_bytes(4, "big") + self.section(number)
            yield from (data[start : start + 64 * KIB] for start in range(0, len(data), 64 * KIB))


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def holder(cluster):
    return cluster.node("core_mesh").holder


def peak_of(run):
    """The most bytes that were allocated at once, above what there was before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_the_sections_are_what_they_claim():
    assert len(section(7)) == SIZE
    assert canonical.loads(section(63))["number"] == 63


def test_no_section_is_held_beside_the_one_before_it(cluster, holder):
    """rules S8: when the next one is made, at most the last one is still there."""
    Tracked.alive = Tracked.most = 0
    verdict = verify(Lazy(cluster), holder, kind="snapshot", now=NOW)
    assert isinstance(verdict, Verified)
    assert Tracked.most <= 2
    assert Tracked.alive == 0, "the verdict holds sections"


@pytest.mark.parametrize("source", ["parts", "chunks"])
def test_a_large_document_costs_what_one_section_costs(cluster, holder, source):
    """rules S8; threats E01: 16 MiB of content pass within a few sections' room."""
    document = Lazy(cluster)
    parts = document if source == "parts" else ChunkParts(document.chunks())
    peak = peak_of(lambda: verify(parts, holder, kind="snapshot", now=NOW))
    assert peak < 8 * SIZE, f"{peak / MIB:.1f} MiB"


SPOILS = {
    "not-canonical": (lambda number, data: data[:-1] + b" ", Reason.BAD_CONTENT),
    "authority": (
        lambda number, data: data.replace(b'"number":', b'"query_grants":').replace(b"xxxxxx", b"", 1),
        Reason.BAD_CONTENT,
    ),
}


@pytest.mark.parametrize(("spoil", "reason"), SPOILS.values(), ids=SPOILS)
def test_faults_do_not_heap_up(cluster, holder, spoil, reason):
    """rules S8, S54: each section is bad, and none is kept for what is said of it."""
    document = Lazy(cluster, spoil)
    Tracked.alive = Tracked.most = 0

    def run():
        with pytest.raises(Rejected) as refused:
            verify(document, holder, kind="snapshot", now=NOW)
        assert refused.value.reason is reason

    assert peak_of(run) < 12 * SIZE
    assert Tracked.most <= 4


@pytest.mark.parametrize("body", [b"\xc6\x7f\xff\xff\xff", b"\xdd\x7f\xff\xff\xff"], ids=["section", "count"])
def test_a_false_length_costs_nothing(cluster, holder, body):
    """rules S8; threats E01: two gigabytes announced, and an endless body behind it."""
    front = cluster.snapshot({}).to_bytes()[:-1]
    start = front + (b"\x91" + body if body[0] == 0xC6 else body)

    def endless():
        yield start
        while True:
            yield b"x" * 64 * KIB

    def run():
        with pytest.raises(Rejected):
            verify(ChunkParts(endless()), holder, kind="snapshot", now=NOW)

    assert peak_of(run) < MIB


def test_nothing_is_read_of_what_nobody_signed(cluster, holder):
    """rules S54; format.md 3: envelope and signatures decide before a section is asked for."""
    document = cluster.snapshot({"a": "x" * 50_000})
    stranger = cluster.forge(document, cluster_id="raven-2").to_bytes()
    asked = []

    def chunks():
        for start in range(0, len(stranger), 512):
            asked.append(start)
            yield stranger[start : start + 512]

    with pytest.raises(Rejected):
        verify(ChunkParts(chunks()), holder, kind="snapshot", now=NOW)
    assert max(asked) < len(document.envelope_bytes) + 1024

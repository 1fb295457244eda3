"""The container reader under every split, any corruption, any bytes: one verdict, and never another exception."""

import itertools

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapshot.container import ChunkParts, End, ManifestRead, Need, Opening, Reader, SectionRead, encode
from snapshot.reasons import Reason, Rejected

KEYS = [f"sha256:{number:064x}" for number in range(3)]
SMALL = b"".join(encode(b"{}", [(KEYS[0], b"sig")], b"{}", [b"1", b"", b"[]"]))


def verdict(chunks, sizes):
    """All that a reader of these chunks says, in order, to its end."""
    reader, said = Reader(), []
    chunks = iter(chunks)
    try:
        while True:
            event = reader.next_event()
            if event is Need.DATA:
                reader.receive_data(next(chunks, b""))
                continue
            said.append(event)
            if isinstance(event, ManifestRead):
                reader.expect(sizes)
            if isinstance(event, End):
                return said
    except Rejected as refusal:
        return [*said, (refusal.step, refusal.reason, refusal.detail)]


def split(data, places):
    at = [0, *sorted(place for place in places if place < len(data)), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(at) if start < end]


def test_every_split_in_two():
    """threats D-4"""
    whole = verdict([SMALL], [1, 0, 2])
    assert [type(event) for event in whole] == [Opening, ManifestRead, SectionRead, SectionRead, SectionRead, End]
    for at in range(1, len(SMALL)):
        assert verdict([SMALL[:at], SMALL[at:]], [1, 0, 2]) == whole
    assert verdict([SMALL[at : at + 1] for at in range(len(SMALL))], [1, 0, 2]) == whole


@st.composite
def containers(draw):
    sections = draw(st.lists(st.binary(max_size=300), max_size=20))
    signatures = [
        (key, draw(st.binary(max_size=80))) for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, unique=True))
    ]
    envelope, manifest = draw(st.binary(max_size=300)), draw(st.binary(max_size=70_000 if draw(st.booleans()) else 10))
    return envelope, signatures, manifest, sections


SPLITS = st.lists(st.integers(1, 2000), max_size=12)


@given(containers(), SPLITS)
def test_what_was_written_is_read(parts, places):
    """rules S13: as another writer of MessagePack writes it, and under any split."""
    envelope, signatures, manifest, sections = parts
    data = b"".join(encode(*parts))
    assert data == msgpack.packb([envelope, signatures, manifest, sections], use_bin_type=True)
    said = verdict(split(data, places), list(map(len, sections)))
    assert said == [Opening(envelope, tuple(signatures)), ManifestRead(manifest), *map(SectionRead, sections), End()]


MARKS = bytes.fromhex("0080848f9091929394959fa0c0c1c4c5c6c7d9dadbdcdddeff")


@st.composite
def corruptions(draw):
    data = bytearray(b"".join(encode(*draw(containers()))))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, min(len(data), 400)))
        end = start + draw(st.integers(0, 4))
        data[start:end] = draw(st.one_of(st.binary(max_size=5), st.sampled_from(MARKS).map(lambda mark: bytes([mark]))))
    return bytes(data)


@given(corruptions(), st.lists(st.integers(0, 300), max_size=20), SPLITS)
@example(SMALL[:-1], [1, 0, 2], [1])
@example(SMALL + b"\0", [1, 0, 2], [len(SMALL)])
def test_corruption_is_refused_and_nothing_else(data, sizes, places):
    """rules S45, S46; threats E25: the same verdict under every split."""
    whole = verdict([data], sizes)
    assert verdict(split(data, places), sizes) == whole
    assert verdict([data[at : at + 1] for at in range(len(data))] if len(data) < 2000 else [data], sizes) == whole
    if isinstance(whole[-1], tuple):
        assert whole[-1][1] in (Reason.BAD_CONTAINER, Reason.TOO_LARGE, Reason.CONTENT_MISMATCH)


@given(st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(MARKS), max_size=40).map(bytes)), SPLITS)
def test_any_bytes(data, places):
    """threats E05, E25"""
    assert verdict(split(data, places), []) == verdict([data], [])


@given(corruptions())
def test_what_is_read_is_the_one_form(data):
    """rules S13: what passes is what we would write, so nothing has two forms."""
    said = verdict([data], [])
    if isinstance(said[-1], End):
        assert b"".join(encode(said[0].envelope, said[0].signatures, said[1].manifest, [])) == data


def test_empty_chunks_are_no_end():
    parts = ChunkParts([b"", SMALL[:5], b"", b"", SMALL[5:], b""])
    assert parts.opening().envelope == b"{}"
    assert parts.manifest() == b"{}"
    assert list(parts.sections([1, 0, 2])) == [b"1", b"", b"[]"]


def test_bytes_after_the_end_are_met_when_they_come():
    """rules S13"""
    parts = ChunkParts([SMALL, b"\0"])
    parts.opening(), parts.manifest()
    with pytest.raises(Rejected, match="bad_container"):
        list(parts.sections([1, 0, 2]))


def test_no_more_is_pulled_than_is_needed():
    """rules S8: an endless body is refused at its first wrong length."""

    def endless():
        yield SMALL[:1]
        while True:
            yield b"\xc6\xff"

    with pytest.raises(Rejected, match="too_large"):
        ChunkParts(endless()).opening()

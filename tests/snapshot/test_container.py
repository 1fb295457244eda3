"""The container of format.md 3: what it reads, and each way of being none."""

import msgpack
import pytest

from snapshot.container import ChunkParts, Opening, Reader, encode
from snapshot.limits import Limits
from snapshot.reasons import Reason, Rejected

KEY_A, KEY_B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
ENVELOPE, SIGNATURE, MANIFEST = b'{"kind":"snapshot"}', b"s" * 64, b'{"one":{}}'
SECTIONS = (b'{"a":1}', b"", b"[]")
SIZES = tuple(map(len, SECTIONS))
GOOD = b"".join(encode(ENVELOPE, [(KEY_A, SIGNATURE)], MANIFEST, SECTIONS))


def read(data, sizes=SIZES, limits=None):
    """Opening, manifest and sections; all of it, or Rejected."""
    parts = ChunkParts([data], limits or Limits())
    return parts.opening(), parts.manifest(), tuple(parts.sections(sizes))


def refused(data, reason=Reason.BAD_CONTAINER, step=0, **given):
    with pytest.raises(Rejected) as verdict:
        read(data, **given)
    assert (verdict.value.step, verdict.value.reason) == (step, reason)


def packed(*, envelope=ENVELOPE, signatures=((KEY_A, SIGNATURE),), manifest=MANIFEST, sections=SECTIONS):
    """By another writer, which takes any types."""
    return msgpack.packb([envelope, signatures, manifest, sections], use_bin_type=True)


def test_a_container():
    assert read(GOOD) == (Opening(ENVELOPE, ((KEY_A, SIGNATURE),)), MANIFEST, SECTIONS)


def test_another_writer_gives_the_same_bytes():
    """rules S7, S13"""
    assert packed() == GOOD


LENGTHS = [0, 1, 255, 256, 65535, 65536]


@pytest.mark.parametrize("length", LENGTHS)
def test_each_width_of_a_length(length):
    section = b"x" * length
    data = b"".join(encode(ENVELOPE, [(KEY_A, b"")], MANIFEST, [section]))
    assert data == packed(signatures=((KEY_A, b""),), sections=(section,))
    assert read(data, [length])[2] == (section,)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 300, 20_000])
def test_each_width_of_a_count(count):
    data = b"".join(encode(ENVELOPE, [(KEY_A, b"")], MANIFEST, [b"1"] * count))
    assert data == packed(signatures=((KEY_A, b""),), sections=(b"1",) * count)
    assert len(read(data, [1] * count)[2]) == count


OTHER_TYPES = {
    "nil": None,
    "false": False,
    "integer": 7,
    "float": 1.5,
    "str": "text",
    "map": {},
    "array": [b"a"],
    "ext": msgpack.ExtType(1, b"a"),
    "timestamp": msgpack.Timestamp(1),
}
PLACES = {
    "envelope": lambda value: packed(envelope=value),
    "signatures": lambda value: packed(signatures=value),
    "a-signature": lambda value: packed(signatures=(value,)),
    "key-id": lambda value: packed(signatures=((value, SIGNATURE),)),
    "signature-bytes": lambda value: packed(signatures=((KEY_A, value),)),
    "manifest": lambda value: packed(manifest=value),
    "sections": lambda value: packed(sections=value),
    "a-section": lambda value: packed(sections=(*SECTIONS[:2], value)),
}


@pytest.mark.parametrize("value", OTHER_TYPES.values(), ids=OTHER_TYPES)
@pytest.mark.parametrize("place", PLACES)
def test_another_type(place, value):
    """threats E05"""
    if (place, value) == ("sections", [b"a"]):
        refused(PLACES[place](value), Reason.CONTENT_MISMATCH, 6)
    else:
        refused(PLACES[place](value))


OTHER_FORMS = {
    "array-16": b"\xdc\x00\x04" + GOOD[1:],
    "array-32": b"\xdd\x00\x00\x00\x04" + GOOD[1:],
    "three-items": b"\x93" + GOOD[1:],
    "five-items": b"\x95" + GOOD[1:] + b"\xc4\x00",
    "map": b"\x84" + GOOD[1:],
    "envelope-bin-16": GOOD[:1] + b"\xc5\x00" + GOOD[2:],
    "envelope-bin-32": GOOD[:1] + b"\xc6\x00\x00\x00" + GOOD[2:],
    "signatures-array-16": GOOD.replace(b"\x91\x92\xd9", b"\xdc\x00\x01\x92\xd9"),
    "signatures-array-32": GOOD.replace(b"\x91\x92\xd9", b"\xdd\x00\x00\x00\x01\x92\xd9"),
    "signature-array-16": GOOD.replace(b"\x91\x92\xd9", b"\x91\xdc\x00\x02\xd9"),
    "signature-of-three": packed(signatures=((KEY_A, SIGNATURE, b""),)),
    "signature-of-one": packed(signatures=((KEY_A,),)),
    "key-id-str-16": GOOD.replace(b"\xd9\x47", b"\xda\x00\x47"),
    "key-id-bin": GOOD.replace(b"\xd9\x47", b"\xc4\x47"),
    "section-bin-16": GOOD.replace(b"\xc4\x07", b"\xc5\x00\x07"),
    "sections-array-16": GOOD.replace(b"\x93\xc4\x07", b"\xdc\x00\x03\xc4\x07"),
    "trailing-nul": GOOD + b"\x00",
    "trailing-newline": GOOD + b"\n",
    "twice": GOOD + GOOD,
    "a-byte-first": b"\x00" + GOOD,
    "nothing": b"",
    "never-used-type": b"\xc1",
    "deep": b"\x91" * 1_000_000,
    "deep-inside": GOOD[:1] + b"\x91" * 1_000_000,
    "empty-maps": b"\xdd\x00\x2d\xc6\xc0" + b"\x80" * 3_000_000,
    "json": ENVELOPE,
}


@pytest.mark.parametrize("data", OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_another_form(data):
    """rules S13; threats E04, E05, E06, E07"""
    refused(data)


KEY_IDS = ["", "a", "config-1", "sha256:" + "A" * 64, "sha512:" + "a" * 64, "sha256:" + "g" * 64, " " + KEY_A[:-1]]
KEY_IDS += [KEY_A[:-1], KEY_A + "a", "\u0430" * 35 + "a", "sha256:" + "a" * 63 + "\n", "a" * 31, "a" * 256]


@pytest.mark.parametrize("key_id", KEY_IDS, ids=repr)
def test_no_key_id(key_id):
    """format.md 3"""
    refused(packed(signatures=((key_id, SIGNATURE),)))


def test_a_key_id_that_is_not_utf_8():
    refused(GOOD.replace(KEY_A.encode(), b"\xff" * 71))


def test_no_signature():
    """threats S01"""
    refused(packed(signatures=()))


@pytest.mark.parametrize("again", [SIGNATURE, b"t" * 64], ids=["same", "other"])
def test_a_key_id_twice(again):
    """threats S09"""
    refused(packed(signatures=((KEY_A, SIGNATURE), (KEY_B, SIGNATURE), (KEY_A, again))))


def test_truncated_anywhere():
    """threats D-4: running out of bytes."""
    for end in range(len(GOOD)):
        refused(GOOD[:end])


def declared(place, length):
    """A container that stops after the length of one of its parts."""
    whole = {"envelope": b"\x94", "signature": packed()[: packed().index(SIGNATURE) - 2]}
    whole["manifest"] = packed()[: packed().index(MANIFEST) - 2]
    whole["section"] = packed()[: packed().index(SECTIONS[0]) - 2]
    return whole[place] + b"\xc6" + length.to_bytes(4, "big")


MOST = {"envelope": 65536, "manifest": 4 << 20, "section": 1 << 20}


@pytest.mark.parametrize("place", MOST)
@pytest.mark.parametrize("above", [1, 2**31])
def test_a_declared_length_above_the_limit(place, above):
    """rules S8; threats E01: refused before its bytes are there."""
    length = min(MOST[place] + above, 2**32 - 1)
    refused(declared(place, length), Reason.TOO_LARGE)


@pytest.mark.parametrize("place", MOST)
def test_a_length_at_the_limit(place):
    parts = {"envelope": ENVELOPE, "manifest": MANIFEST, "section": SECTIONS[0]} | {place: b"x" * MOST[place]}
    data = packed(envelope=parts["envelope"], manifest=parts["manifest"], sections=(parts["section"],))
    assert read(data, [len(parts["section"])])
    refused(declared(place, MOST[place]), Reason.BAD_CONTAINER, sizes=[MOST[place], 0, 0])


def test_the_longest_signature():
    assert read(packed(signatures=((KEY_A, b"s" * 512),)))
    refused(packed(signatures=((KEY_A, b"s" * 513),)), Reason.TOO_LARGE)


def test_the_most_signatures():
    """threats S14: none of them is looked at."""
    signatures = [(f"sha256:{number:064x}", SIGNATURE) for number in range(10_000)]
    assert len(read(packed(signatures=signatures[:16]))[0].signatures) == 16
    refused(packed(signatures=signatures[:17]), Reason.TOO_LARGE)
    refused(packed(signatures=signatures), Reason.TOO_LARGE)
    refused(packed(signatures=signatures)[: packed(signatures=signatures).index(b"\x92\xd9")], Reason.TOO_LARGE)


@pytest.mark.parametrize("count", [20_001, 2**32 - 1])
def test_more_sections_than_may_be(count):
    start = packed()[: packed().index(b"\x93\xc4\x07")]
    width = (b"\xdc", 2) if count < 65536 else (b"\xdd", 4)
    refused(start + width[0] + count.to_bytes(width[1], "big"), Reason.TOO_LARGE)


@pytest.mark.parametrize("sizes", [(), (7, 0), (7, 0, 2, 0), (7, 1, 2), (8, 0, 2), (7, 0, 2**20)], ids=str)
def test_not_the_sections_that_were_signed(sizes):
    """rules S46; threats A16"""
    refused(GOOD, Reason.CONTENT_MISMATCH, 6, sizes=sizes)


def test_a_verdict_is_final():
    """threats E06: no reader goes on after a failure."""
    reader = Reader()
    reader.receive_data(b"\x00")
    for more in (b"", GOOD, b"\x94"):
        with pytest.raises(Rejected, match="bad_container"):
            reader.next_event()
        reader.receive_data(more)


def test_a_reader_holds_one_section_at_most():
    """threats D-4"""
    reader = Reader()
    reader.receive_data(b"".join(encode(ENVELOPE, [(KEY_A, SIGNATURE)], MANIFEST, [b"x" * 1000] * 50)))
    events = [reader.next_event(), reader.next_event()]
    reader.expect([1000] * 50)
    events += [reader.next_event() for _ in range(50)]
    assert {len(event.data) for event in events[2:]} == {1000}

"""Raw secrets in files of raw sections (format.md 11): wherever the borders of the sections lie."""

import re
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapshot.raw_secrets import LONGEST, RawSections
from snapshot.secrets import shape_of
from tests.examples import examples
from tests.known_answers.secret_shapes import SECRETS

TOKEN = b"AKIAIOSFODNN7EXAMPLE"
MIB = 1 << 20


def found(parts, *, alone=(), order=None):
    """What is found in the file of these parts, whatever the order in which they pass by."""
    raw = RawSections()
    names = [f"s{number:03}" for number in range(len(parts))]
    for number in order or range(len(parts)):
        raw.take(names[number], parts[number], is_alone=names[number] in alone)
    return raw.find(names, lambda name: b"")


def whole(data):
    """What the file as one string holds."""
    return shape_of(data.decode("utf-8", "surrogateescape"))


def cuts(data, places):
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("around", [b"", b"# \xe4\xf6 \xff\n", b" x\n" * 3000], ids=["alone", "not-utf-8", "long"])
def test_a_secret_is_found_wherever_it_is_cut(text, around):
    data = around + text.encode() + around
    assert found([data], alone=["s000"])
    for place in range(len(around), len(around) + len(text.encode()), 7):
        assert found([data[:place], data[place:]]), place
    assert found([data[place : place + 3] for place in range(0, len(data), 3)][:256]) or len(data) > 768


def test_the_order_in_which_sections_pass_does_not_matter():
    parts = [b"first AK", b"IAIOSFODN", b"N7EXAMPLE "]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        assert found(parts, order=order) == "provider_token"


@pytest.mark.parametrize(
    "parts",
    [
        [b"x", TOKEN],
        [b"9" * 5000, TOKEN + b"\n"],
        [b"# ", b"PrivateKey = yAnz5TF", b""],
        [b"#" * 5000, b"PrivateKey = yAnz5TF"],
        [b"https://a/", b"user:password@b"],
        [b"https:/", b"x/user:password@b"],
        [b"PrivateKey =\xe3", b"\x80\x80"],
        [b"-----BEGIN PRIVATE", b"", b"_KEY-----"],
        [b"", b"", b""],
    ],
    ids=repr,
)
def test_what_is_none_as_a_whole_is_none_in_parts(parts):
    assert whole(b"".join(parts)) is None
    assert found(parts) is None


def test_two_files_are_two_strings():
    raw = RawSections()
    raw.take("a", TOKEN[:7])
    raw.take("b", TOKEN[7:])
    assert raw.find(["a"], lambda _: b"") is None
    assert raw.find(["b"], lambda _: b"") is None
    assert raw.find(["a", "b"], lambda _: b"") == "provider_token"


def test_a_section_that_was_not_brought_is_read():
    raw = RawSections()
    raw.take("b", TOKEN[7:])
    assert raw.find(["a", "b"], {"a": TOKEN[:7]}.__getitem__) == "provider_token"


HALVES = [
    TOKEN,
    TOKEN[:9],
    TOKEN[9:],
    b"-----BEGIN ",
    b"PRIVATE KEY-----",
    b"//",
    b"/",
    b"user:pw@",
    b"@",
    b":",
    b"a.b.",
]
LINES = [b"\\n", b"\n", b"PrivateKey", b"PresharedKey=", b" = ", b"x", b"9", b"'", b", ", b"# ", b"_", b"-", b"\x00"]
OTHERS = [b"\xe3\x80\x80", b"\xe3", b"\x80", b"eyJ", b"eyJhbGciOiJub25lIn0.e30.", b"AGE-SECRET-KEY-", b"1"]
PIECES = st.sampled_from([*HALVES, *LINES, *OTHERS, b"ghp_" + b"a" * 20, b"a" * 16])


@examples(600)
@given(st.lists(PIECES, max_size=14).map(b"".join), st.lists(st.integers(0, 300), max_size=6))
@example(b"/" + b"/u:p" + b"w@h", [1, 5])
@example(b"//user:" + b"p,w" + b"x@h", [7, 10])
def test_parts_are_as_the_whole(data, places):
    """Of short files; nothing is found that the file as one string does not hold, and nothing less."""
    assert bool(found(cuts(data, places))) == bool(whole(data))


@pytest.mark.parametrize("size", [1 << 10, 16 << 10])
def test_little_is_kept_of_many_sections(size):
    """Memory while verifying stays bounded by sections (format.md 11): text and bytes, nothing known of their files."""
    text = (b"server 10.0.0.1 weight=3; # note\n" * (size // 32))[:size]
    noise = bytes(re.sub(rb"[/\\]", b"!", bytes(number * 73 % 251 for number in range(size))))
    tracemalloc.start()
    try:
        raw = RawSections()
        for number in range(2000):
            raw.take(f"s{number}", text if number % 2 else noise)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * MIB


def test_a_match_longer_than_the_borders_need_not_be_found():
    link = b"//user:" + b"p" * 2 * LONGEST + b"@host"
    assert found([link], alone=["s000"]) == "url_credentials"
    half = LONGEST
    assert found([link[:half], link[half : half + 10], link[half + 10 :]]) in (None, "url_credentials")


@pytest.mark.parametrize("data", [b"\0//\1u:\2p@", b"//u:p\x7f@h", b"// \xe4\xf6//\x80u:\x81p@h", b"//u:p\xe4ss@h"])
def test_bytes_that_are_no_url_are_no_login(data):
    """A large binary file holds `//`, `:` and `@` in this order sooner or later."""
    assert found([data], alone=["s000"]) is None
    assert [found([data[:place], data[place:]]) for place in range(len(data))] == [None] * len(data)


def test_a_login_in_another_encoding_is_found_by_its_scheme_wherever_it_is_cut():
    """A file in Latin-1 with a password beyond ASCII is what people have."""
    data = b"dsn = postgres://app:p\xe4ss@db/app\n"
    assert {found([data[:place], data[place:]]) for place in range(len(data))} == {"url_credentials"}
    assert found(["dsn = //app:p\u00e4ss@db/app\n".encode()], alone=["s000"]) == "url_credentials"

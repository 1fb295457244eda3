"""Canonical JSON against another implementation of RFC 8785, over any value and any text of it."""

import json
import random
import struct
from math import isfinite

import pytest
import rfc8785
from hypothesis import assume, example, given
from hypothesis import strategies as st

from snapshot.canonical import NotCanonical, dumps, number, parse
from snapshot.limits import DEFAULT, Limits
from tests.examples import examples

MAX = 2**53 - 1
# Characters around every border that the rules have: escapes, planes, surrogates, separators of our own checks.
CHARACTERS = st.one_of(
    st.sampled_from('",:[]{}\\/ \b\t\n\f\r\x00\x1f\x7f\u0080\u2028\ud7ff\ue000\ufeff\uffff\U00010000\U0010ffffau0'),
    st.characters(exclude_categories=("Cs",)),
)
TEXTS = st.text(CHARACTERS, max_size=8)
DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", bits.to_bytes(8, "big"))[0]),
    st.integers(-(10**6), 10**6).map(lambda whole: whole / 1000),
).filter(isfinite)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-MAX, MAX), DOUBLES, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


def oracle_says(text):
    """Whether RFC 8785 has just these bytes for what they parse to; an integer beyond 2^53-1 has none."""
    try:
        value = json.loads(text)
        return rfc8785.dumps(value) == text.encode()
    except (ValueError, RecursionError, rfc8785.CanonicalizationError):
        return False


def we_say(data, limits=DEFAULT):
    try:
        value = parse(data, limits).value
    except NotCanonical:
        return False
    assert dumps(value) == data
    return True


def bears_large_integers(value):
    """A double that RFC 8785 writes as an integer beyond 2^53-1, which format.md 4 never takes for canonical."""
    if isinstance(value, dict):
        return any(map(bears_large_integers, value.values()))
    if isinstance(value, list):
        return any(map(bears_large_integers, value))
    return isinstance(value, float) and MAX < abs(value) < 1e21


WRITABLE = VALUES.filter(lambda value: not bears_large_integers(value))


@given(DOUBLES)
def test_numbers(value):
    assert number(value).encode() == rfc8785.dumps(value)
    assert float(number(value)) == value


@given(WRITABLE)
@example({"\U0001f600": 1, "\ufb33": 2, "\r": 3, "": 4})
@example({"a": 1e21, "b": -0.0, "c": 5e-324})
def test_writing(value):
    assert dumps(value) == rfc8785.dumps(value)


@given(WRITABLE)
def test_reading_what_was_written(value):
    data = rfc8785.dumps(value)
    assert we_say(data)
    assert parse(data).value == value


# Any way of writing a value: each choice may be the canonical one.
GAPS = ["", "", "", "", " ", "\n", "\t", "\r", "  "]
ESCAPES = {'"': r"\"", "\\": r"\\", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"}


class Writer:
    """Writes a value as JSON text, and takes each liberty with the probability `loose`."""

    def __init__(self, choose, loose):
        self.choose = choose
        self.loose = loose

    def liberty(self):
        return self.choose.random() < self.loose

    def gap(self):
        return self.choose.choice(GAPS) if self.liberty() else ""

    def written(self, value):
        if isinstance(value, dict):
            return "{" + (",".join(map(self.member, self.members(value))) or self.gap()) + "}"
        if isinstance(value, list):
            return "[" + (",".join(self.gap() + self.written(item) + self.gap() for item in value) or self.gap()) + "]"
        if isinstance(value, str):
            return self.string(value)
        return self.number(value) if type(value) in (int, float) else json.dumps(value)

    def members(self, value):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        if self.liberty():
            self.choose.shuffle(members)
        if members and self.liberty():
            members.insert(self.choose.randrange(len(members) + 1), self.choose.choice(members))
        return members

    def member(self, pair):
        name, value = pair
        return f"{self.gap()}{self.string(name)}{self.gap()}:{self.gap()}{self.written(value)}{self.gap()}"

    def string(self, text):
        return '"' + "".join(map(self.character, text)) + '"'

    def character(self, c):
        units = c.encode("utf-16-be").hex()
        long = "".join("\\u" + units[at : at + 4] for at in range(0, len(units), 4))
        if self.liberty():
            return self.choose.choice([long, long.upper().replace("U", "u"), r"\/" if c == "/" else long])
        return ESCAPES.get(c, long if c < " " else c)

    def number(self, value):
        text = rfc8785.dumps(value).decode()
        forms = [f"{value:.17g}", f"{value:e}", repr(value), repr(float(value)), text + ".0", text + "e0", "-" + text]
        return self.choose.choice(forms) if self.liberty() else text


@given(VALUES, st.randoms(use_true_random=False), st.sampled_from([0.0, 0.02, 0.1, 0.5]))
def test_reading_any_form(value, choose, loose):
    """rules S13; threats E08, E10, E14: refused exactly when it is not what the other implementation writes."""
    text = Writer(choose, loose).written(value)
    assert we_say(text.encode()) == oracle_says(text)


def depth_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def all_values(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from all_values(inner)


def all_strings(value):
    for item in all_values(value):
        yield from [item] if isinstance(item, str) else item if isinstance(item, dict) else ()


@given(
    VALUES,
    st.builds(Limits, json_depth=st.integers(1, 4), json_values=st.integers(1, 12), string_bytes=st.integers(2, 24)),
    st.sampled_from(["a", "\\", '"', "\n", "é"]),
    st.integers(0, 26),
)
@example([0] * 9, Limits(json_values=9), "", 0)
@example({"a": [{}]}, Limits(json_depth=2), "", 0)
@example("a" * 9, Limits(string_bytes=8), "", 0)
@example(0, Limits(string_bytes=8), "\\", 9)
@example(0, Limits(string_bytes=8), '"', 9)
@example(0, Limits(string_bytes=8), '"\\', 5)
@examples(300)
def test_limits_are_what_a_walk_finds(value, limits, unit, times):
    """format.md 10; threats E13, E17: whatever is not looked at since the text is too short would have held."""
    value = [value, unit * times] if times else value
    assume(not bears_large_integers(value))
    within = (
        depth_of(value) <= limits.json_depth
        and sum(1 for _ in all_values(value)) <= limits.json_values
        and max((len(text.encode()) for text in all_strings(value)), default=0) <= limits.string_bytes
    )
    assert we_say(rfc8785.dumps(value), limits) == within


@given(VALUES, st.randoms(use_true_random=False))
def test_one_character_changed(value, choose):
    """rules S13"""
    text = list(rfc8785.dumps(value).decode())
    at = choose.randrange(len(text))
    text[at : at + choose.randint(0, 1)] = choose.choice(
        ['"', ",", ":", "[", "]", "{", "}", "\\", " ", "0", "-", ".", "é"]
    )
    changed = "".join(text)
    assert we_say(changed.encode()) == oracle_says(changed)


@given(
    st.lists(
        st.sampled_from(['"', '":', '":"', ",", ":", "[", "]", "{", "}", "\\", " ", "a", "0", '{"a":']), max_size=14
    )
)
def test_any_sequence_of_tokens(tokens):
    """rules S13"""
    text = "".join(tokens)
    assert we_say(text.encode()) == oracle_says(text)


@given(st.one_of(st.integers(MAX + 1), st.integers(max_value=-MAX - 1)))
def test_large_integers(value):
    """threats E10"""
    assert not we_say(b"[%d]" % value)
    with pytest.raises(ValueError, match="2\\^53"):
        dumps(value)


@given(st.binary(max_size=40))
def test_any_bytes(data):
    """threats E25"""
    we_say(data)


def test_many_doubles():
    choose = random.Random(8785)
    for _ in range(20_000):
        value = struct.unpack(">d", choose.randbytes(8))[0]
        if isfinite(value):
            assert number(value).encode() == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [1e20, -1e20, 2.0**53, [{"a": 123456789012345680000.0}]], ids=repr)
def test_a_large_integral_double_has_no_canonical_form(value):
    """format.md 4: what is written must be what is read; RFC 8785 writes such a double as an integer."""
    with pytest.raises(ValueError, match=r"."):
        dumps(value)

"""Identifiers, times and scopes of format.md 1."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import identifiers
from snapshot.identifiers import MAX_INTEGER, format_time, is_id, is_section_name, parse_scope, parse_time, scope_name

GOOD_IDS = ["a", "0", "a-b", "a.b", "a_b", "a--b", "a-.b", "node-1.example", "0" * 64, "head"]
BAD_IDS = {
    "empty": "",
    "upper-case": "Node",
    "dash-first": "-a",
    "dash-last": "a-",
    "dot-last": "a.",
    "two-dots": "a..b",
    "only-dots": "..",
    "slash": "a/b",
    "climbing": "../a",
    "nul": "a\0",
    "question": "a?b",
    "fragment": "a#b",
    "percent": "a%2f",
    "space": "a b",
    "newline": "a\n",
    "long": "a" * 65,
    "very-long": "a" * 300,
    "cyrillic": "\u0430bc",
    "zero-width": "a\u200bb",
    "full-width": "\uff41",
    "arabic-digit": "\u0661",
    "kelvin": "\u212a",
    "long-s": "\u017f",
    "bytes": b"a",
    "number": 1,
    "none": None,
    "array": ["a"],
}


@pytest.mark.parametrize("value", GOOD_IDS)
def test_ids(value):
    assert is_id(value)
    assert is_section_name(value)


@pytest.mark.parametrize("value", BAD_IDS.values(), ids=BAD_IDS)
def test_no_ids(value):
    """threats A10, E19, E24"""
    assert not is_id(value)
    if value not in ("a" * 65,):
        assert not is_section_name(value)


@pytest.mark.parametrize(("check", "most"), [(is_id, 64), (is_section_name, 128), (identifiers.is_nonce, 128)])
def test_the_longest(check, most):
    assert check("a" * most)
    assert not check("a" * (most + 1))


@pytest.mark.parametrize("value", ["-", ".", "..", "a..b", "-a-", "_"])
def test_a_nonce_is_any_text_of_the_alphabet(value):
    """format.md 5: characters of the id alphabet, without the other rules of an id."""
    assert identifiers.is_nonce(value)


@pytest.mark.parametrize("value", ["", "A", "a b", "a\n", "\u0430", 7, None])
def test_no_nonce(value):
    assert not identifiers.is_nonce(value)


DIGEST = "0123456789abcdef" * 4
BAD_HASHES = ["", DIGEST, "sha256:", "SHA256:" + DIGEST, "sha256:" + DIGEST.upper(), "sha256:" + DIGEST + "\n"]
BAD_HASHES += ["sha512:" + DIGEST, "sha256:" + DIGEST[:-1], "sha256:" + DIGEST + "0", " sha256:" + DIGEST, None, 5]


@pytest.mark.parametrize("value", BAD_HASHES, ids=repr)
def test_no_hash(value):
    """rules S9; threats I03"""
    assert not identifiers.is_hash(value)
    assert not identifiers.is_key_id(value)


def test_a_hash():
    assert identifiers.is_hash("sha256:" + DIGEST)
    assert identifiers.is_hex_digest(DIGEST)
    assert not identifiers.is_hex_digest("sha256:" + DIGEST)
    assert not identifiers.is_hex_digest(DIGEST.upper())


@pytest.mark.parametrize("value", [1, 2, MAX_INTEGER])
def test_a_version(value):
    assert identifiers.is_integer(value)


@pytest.mark.parametrize("value", [0, -1, True, False, 1.0, "1", None, MAX_INTEGER + 1, [1]], ids=repr)
def test_no_version(value):
    """threats V06"""
    assert not identifiers.is_integer(value)


GOOD_TIMES = {
    "2020-01-01T00:00:00Z": 1577836800,
    "2024-02-29T23:59:59Z": 1709251199,
    "2038-01-19T03:14:08Z": 2**31,
    "2106-02-07T06:28:16Z": 2**32,
    "2200-12-31T23:59:59Z": int(datetime(2200, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()),
}


@pytest.mark.parametrize(("text", "seconds"), GOOD_TIMES.items())
def test_times(text, seconds):
    """threats D-43, V23"""
    assert parse_time(text) == seconds
    assert format_time(seconds) == text
    assert format_time(seconds + 0.999) == text


BAD_TIMES = [
    "2027-12-05T16:00:00",
    "2027-12-05T16:00:00z",
    "2027-12-05t16:00:00Z",
    "2027-12-05T16:00:00+00:00",
    "2027-12-05T16:00:00.0Z",
    "2027-12-05T16:00Z",
    "2027-12-05",
    "20271205T160000Z",
    "2027-12-05T24:00:00Z",
    "2027-12-05T16:60:00Z",
    "2016-12-31T23:59:60Z",
    "2028-12-31T23:59:60Z",
    "2027-02-29T00:00:00Z",
    "2027-13-01T00:00:00Z",
    "2027-00-10T00:00:00Z",
    "2027-04-31T00:00:00Z",
    "2019-12-31T23:59:59Z",
    "2201-01-01T00:00:00Z",
    "+2027-12-05T16:00:00Z",
    "12027-12-05T16:00:00Z",
    "2027-W49-7T16:00:00Z",
]
BAD_TIMES += ["2027-12-05T16:00:00Z\n", " 2027-12-05T16:00:00Z", "2027-12-05 16:00:00Z", "", 1827849600, None]
BAD_TIMES += ["\u0662027-12-05T16:00:00Z", "\uff12027-12-05T16:00:00Z"]


@pytest.mark.parametrize("text", BAD_TIMES, ids=repr)
def test_no_times(text):
    """threats D-43"""
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


@given(st.integers(1577836800, GOOD_TIMES["2200-12-31T23:59:59Z"]))
def test_every_second_there_and_back(seconds):
    assert parse_time(format_time(seconds)) == seconds


@pytest.mark.parametrize("text", ["route_policy", "route_policy/a", "route_policy/a,b", "future_type/a.b,a_b"])
def test_scopes(text):
    assert scope_name(*parse_scope(text)) == text


BAD_SCOPES = ["", "/", "route_policy/", "route_policy/a,", "route_policy/,a", "route_policy/b,a", "route_policy/a,a"]
BAD_SCOPES += ["route_policy/a/b", "Route", "route_policy/a b", "route_policy\n", "route_policy/A", "*", None, 5]


@pytest.mark.parametrize("text", BAD_SCOPES, ids=repr)
def test_no_scopes(text):
    with pytest.raises(ValueError, match="scope"):
        parse_scope(text)


def test_a_scope_has_64_ids_at_most():
    ids = [f"n{number:03}" for number in range(65)]
    assert parse_scope(scope_name("route_policy", ids[:64])) == ("route_policy", tuple(ids[:64]))
    with pytest.raises(ValueError, match="scope"):
        parse_scope(scope_name("route_policy", ids))


GOOD_ENDPOINTS = [
    "https://a:1",
    "https://node-1.example.net:65535",
    "https://10.0.0.1:443",
    "https://[2001:db8::1]:8443",
]
BAD_ENDPOINTS = [
    "http://a:1",
    "https://a",
    "https://a:",
    "https://a:0",
    "https://a:65536",
    "https://a:01",
    "https://a:1/",
    "https://a:1?x",
    "https://a:1#x",
    "https://u@a:1",
    "https://u:p@a:1",
    "https://A:1",
    "HTTPS://a:1",
    "https://:1",
    "https://a:1:2",
    "a:1",
    "//a:1",
    "https://[a:1",
    "https://a]:1",
]
BAD_ENDPOINTS += ["https://a:1\n", "https://a b:1", "https://\u0430:1", "https://a:\u0661", None, 1]


@pytest.mark.parametrize("value", GOOD_ENDPOINTS)
def test_endpoints(value):
    assert identifiers.is_endpoint(value)


@pytest.mark.parametrize("value", BAD_ENDPOINTS, ids=repr)
def test_no_endpoints(value):
    """threats N04"""
    assert not identifiers.is_endpoint(value)


@pytest.mark.parametrize("values", [[], ["a"], ["a", "b"], ["a", "a-b", "a.b"]], ids=repr)
def test_sorted_sets(values):
    assert identifiers.is_sorted_set(values, is_id)


@pytest.mark.parametrize("values", [["b", "a"], ["a", "a"], ["A"], ["a", 1], ("a",), "ab", {"a": 1}, None], ids=repr)
def test_no_sorted_sets(values):
    assert not identifiers.is_sorted_set(values, is_id)


def test_the_format_knows_ten_scope_types():
    """format.md 1; 7, step 3"""
    assert len(set(identifiers.SCOPE_TYPES)) == 10
    own = set(identifiers.SCOPE_TYPES) - identifiers.SHAREABLE
    assert own == {"node_bootstrap", "node_runtime", "service_assignment"}

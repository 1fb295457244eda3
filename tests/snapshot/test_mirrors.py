"""Mirrors as a directory names them: one form each, and what is malformed authorises nothing."""

import base64

import pytest

from snapshot import canonical
from snapshot.grants import read_grants
from snapshot.mirrors import MOST_AUTHORITIES, MOST_CERTIFICATES, Mirror, MirrorTls, mirror_entry, parse_mirror

URL = "https://cdn.example:443"
DER = base64.b64encode(b"\x30\x03a").decode()
PIN = "sha256:" + "ab" * 32
GOOD = [
    (None, None),
    ({"system_roots": True}, MirrorTls(system_roots=True)),
    ({"authorities": [DER]}, MirrorTls(authorities=frozenset({b"\x30\x03a"}))),
    ({"certificates": [PIN]}, MirrorTls(certificates=frozenset({PIN}))),
]
BAD = [
    {}, None, True, "system", ["system_roots"], {"system_roots": False}, {"system_roots": 1}, {"system_roots": "true"},
    {"system_roots": True, "certificates": [PIN]}, {"authorities": []}, {"authorities": DER}, {"authorities": ["?"]},
    {"authorities": [DER, 1]}, {"authorities": [""]}, {"authorities": ["é"]}, {"certificates": []},
    {"certificates": PIN}, {"certificates": [PIN, "sha256:ab"]}, {"certificates": [PIN.upper()]},
    {"certificates": [PIN, None]}, {"authorities": [DER] * (MOST_AUTHORITIES + 1)},
    {"certificates": [PIN] * (MOST_CERTIFICATES + 1)}, {"keys": [PIN]},
]  # fmt: skip


@pytest.mark.parametrize(("tls", "read"), GOOD)
def test_each_way_is_read_as_it_is_written(tls, read):
    entry = {"url": URL} if tls is None else {"url": URL, "tls": tls}
    assert parse_mirror(entry) == Mirror(URL, read)
    assert mirror_entry(Mirror(URL, read)) == entry


@pytest.mark.parametrize("tls", BAD)
def test_what_is_malformed_is_no_mirror_and_not_one_of_the_coordinators_ca(tls):
    """format.md 10: a bound that cannot be read must not end as none"""
    assert parse_mirror({"url": URL, "tls": tls}) is None


@pytest.mark.parametrize("entry", [None, [], "x", {}, {"url": "http://x:1"}, {"url": URL, "more": 1}, {"tls": {}}])
def test_what_is_no_entry_is_no_mirror(entry):
    assert parse_mirror(entry) is None


def test_a_directory_names_those_that_can_be_read():
    entries = {"a": {"url": URL}, "b": {"url": URL, "tls": {"certificates": [PIN]}}, "c": {"url": URL, "tls": {}}}
    entries |= {"d": {"url": "https://d.example:1", "tls": {}}}
    grants = read_grants("storage_directory", [("endpoints", canonical.dumps(entries))])
    assert grants.endpoints == {URL}
    assert grants.mirrors == {Mirror(URL), Mirror(URL, MirrorTls(certificates=frozenset({PIN})))}

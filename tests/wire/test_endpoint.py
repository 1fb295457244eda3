"""Which URLs and addresses are endpoints, and how targets are made."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.endpoint import BadEndpointError, Endpoint, path
from wire.http1.target import BadTarget, Target


@pytest.mark.parametrize(
    "url",
    [
        "http://storage.example",
        "https://user:pw@storage.example",
        "https://storage.example:22",
        "https://storage.example:0",
        "https://storage.example:65536",
        "https://storage.example:x",
        "https://localhost",
        "https://a.localhost:8443",
        "https://127.0.0.1:8443",
        "https://[::1]:8443",
        "https://[::ffff:169.254.1.1]:8443",
        "https://[::ffff:127.0.0.1]:8443",
        "https://[64:ff9b::7f00:1]:8443",
        "https://[2002:7f00:1::]:8443",
        "https://169.254.169.254",
        "https://0.0.0.0:8443",
        "https://224.0.0.1",
        "https://2130706433:8443",
        "https://0x7f.1:8443",
        "https://storage.example/path",
        "https://storage.example?q",
        "https://storage.example#f",
        "https://storage.example:443@evil.example",
        "https://",
        "https://[::1",
        "https://-a.example",
        "https://a..example",
        "https://ex ample",
        "https://exämple.com",
        "https://" + "a" * 300,
        "ftp://storage.example",
        "",
    ],
)
def test_what_is_no_endpoint_of_a_signed_list(url: str) -> None:
    """threats N04, D-47."""
    with pytest.raises(BadEndpointError):
        Endpoint.parse(url)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://storage.example", "storage.example"),
        ("https://storage.example/", "storage.example"),
        ("https://storage.example:8443", "storage.example:8443"),
        ("https://192.0.2.1:8443", "192.0.2.1:8443"),
        ("https://10.1.2.3", "10.1.2.3"),
        ("https://[2001:db8::1]:8443", "[2001:db8::1]:8443"),
    ],
)
def test_endpoints(url: str, authority: str) -> None:
    assert Endpoint.parse(url).authority == authority


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:8443", "https://localhost:8443", "https://[::1]", "https://a.example:80"]
)
def test_an_operator_may_name_this_machine(url: str) -> None:
    """threats D-47: only where the configuration names that host literally."""
    assert Endpoint.parse(url, configured=True).configured
    with pytest.raises(BadEndpointError):
        Endpoint.parse(url)


def test_a_name_must_not_lead_to_this_machine() -> None:
    """threats N05."""
    endpoint = Endpoint.parse("https://storage.example")
    assert endpoint.allows(ipaddress.ip_address("192.0.2.1"))
    assert not endpoint.allows(ipaddress.ip_address("::ffff:127.0.0.1"))
    assert not Endpoint.parse("https://localhost", configured=True).allows(ipaddress.ip_address("0.0.0.0"))  # noqa: S104


@given(st.text(min_size=1, max_size=40).filter(lambda each: each not in (".", "..")))
def test_a_segment_stays_one_segment(segment: str) -> None:
    """threats N11, protocol.md 1: what the client quotes the server reads back, whole."""
    try:
        quoted = path("v1", "documents", segment)
    except UnicodeEncodeError:
        return
    assert quoted.count("/") == 3
    try:
        assert Target.parse(quoted.encode()).segments == ("v1", "documents", segment)
    except BadTarget:
        assert any(ord(each) < 32 or ord(each) == 127 for each in segment)


@given(
    st.dictionaries(
        st.sampled_from(["scope", "after"]), st.lists(st.text("ab/,&=%+?# é", max_size=9), min_size=1, max_size=4)
    )
)
def test_a_query_is_read_back(query: dict[str, list[str]]) -> None:
    target = Target.parse(path("v1", "watch", **query).encode())
    assert target.query() == [(name, value) for name, values in query.items() for value in values]


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_a_segment_that_would_change_the_path(segment: str) -> None:
    """threats N11."""
    with pytest.raises(ValueError, match="segment"):
        path("v1", segment)


@given(st.binary(max_size=60))
def test_any_target_is_read_or_refused(raw: bytes) -> None:
    """rules P6."""
    try:
        target = Target.parse(b"/" + raw)
        target.query()
    except BadTarget:
        return
    assert ".." not in target.segments

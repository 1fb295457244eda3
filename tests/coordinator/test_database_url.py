"""The forms in which several servers are named, and what is said of those that are wrong."""

from urllib.parse import quote, unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlalchemy.exc import ArgumentError

from coordinator.base.refusal import Code, Refused
from coordinator.database import database_copy
from coordinator.servers import database_url

TAIL = "?target_session_attrs=read-write"


def places(url: str) -> list[str]:
    return [str(place) for place in database_url.places_of(database_url.read(url))]


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("postgresql+psycopg://u@a/d", ["a"]),
        ("postgresql+psycopg://u@a:5433/d", ["a:5433"]),
        ("postgresql+psycopg:///d", ["the default server"]),
        ("postgresql+psycopg://u@[::1]:5433/d", ["::1:5433"]),
        ("postgresql+psycopg://u@a,b/d", ["a", "b"]),
        (
            "postgresql+psycopg://holdfast@db-1:5432,db-2:5432/holdfast?target_session_attrs=read-write",
            ["db-1:5432", "db-2:5432"],
        ),
        ("postgresql+psycopg://u:p%40@a:1,b:2/d" + TAIL, ["a:1", "b:2"]),
        ("postgresql+psycopg://u@[::1]:1,[::2]:2/d", ["::1:1", "::2:2"]),
        ("postgresql+psycopg://u@[::1],b:2/d", ["::1", "b:2"]),
        ("postgresql+psycopg://u@a:1,b:2/d?application_name=x@y", ["a:1", "b:2"]),
        ("postgresql+psycopg://u@/d?host=a:1&host=b:2", ["a:1", "b:2"]),
        ("postgresql+psycopg://u@/d?host=a,b,c&port=5433", ["a:5433", "b:5433", "c:5433"]),
        ("postgresql+psycopg://u@/d?host=a,b&port=1,2&target_session_attrs=primary", ["a:1", "b:2"]),
        ("postgresql+psycopg://u@/d?host=/run/a,/run/b", ["/run/a", "/run/b"]),
    ],
)
def test_each_form_that_is_in_use_is_taken(url: str, named: list[str]) -> None:
    assert places(url) == named
    assert places(str(database_url.read(url).render_as_string(hide_password=False))) == named


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql+psycopg://u@a,b/d?target_session_attrs=any", "the coordinator writes"),
        ("postgresql+psycopg://u@a/d?target_session_attrs=standby", "the coordinator writes"),
        ("postgresql+psycopg://u@/d?host=a,b&port=1,2,3", "2 hosts and 3 ports"),
        ("postgresql+psycopg://u@/d?host=a,b&port=1,x", "'x' is no port"),
        ("postgresql+psycopg://u@a:0,b:1/d", "'0' is no port"),
        ("postgresql+psycopg://u@a,,b/d", "one of several hosts is empty"),
        ("postgresql+psycopg://u@a,a/d", "named twice"),
        ("postgresql+psycopg://u@a,b/d?host=c", "name them in one place"),
        ("postgresql+psycopg://u:p@ss@a/d", "%40"),
        ("postgresql+psycopg://u:p@ss@a,b/d", "%40"),
        ("postgresql+psycopg://u@/d?hostaddr=10.0.0.1", "hostaddr"),
    ],
)
def test_what_is_wrong_is_said(url: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        database_url.read(url)
    assert refused.value.code is Code.INVALID_SETTINGS
    assert said in str(refused.value) or said in refused.value.remedy


@pytest.mark.parametrize(
    ("url", "user", "password", "named"),
    [
        ("u:pa,ss@host:5432/db", "u", "pa,ss", ["host:5432"]),
        ("u,x@h/db", "u,x", None, ["h"]),
        ("u,x:p@h/db", "u,x", "p", ["h"]),
        ("u:pa,ss@a:1,b:2/db", "u", "pa,ss", ["a:1", "b:2"]),
        ("u:p,a/ss@h/db", "u", "p,a/ss", ["h"]),
        ("u:p,a?s#s@a,b/db", "u", "p,a?s#s", ["a", "b"]),
        ("u@corp:pa,ss@a,b/db", "u@corp", "pa,ss", ["a", "b"]),
    ],
)
def test_a_comma_before_the_at_is_of_the_credentials(
    url: str, user: str, password: str | None, named: list[str]
) -> None:
    found = database_url.read(f"postgresql+psycopg://{url}")
    assert (found.username, found.password, found.database) == (user, password, "db")
    assert [str(place) for place in database_url.places_of(found)] == named
    assert f":{password}@" not in unquote(str(found))


_USERS = st.text("abz09._-,", min_size=1)
_PASSWORDS = st.text("abz09._-,:/?#=&", min_size=1)
_QUOTED = st.text("abz09,:/?#@=&%+ é", min_size=1)
_HOSTS = st.one_of(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}(\.[a-z]{1,3})?", fullmatch=True), st.ip_addresses().map(str), st.just("")
)
_SERVERS = st.lists(st.tuples(_HOSTS, st.integers(1, 65_535) | st.none()), min_size=1, max_size=3, unique=True)


@given(data=st.data(), servers=_SERVERS, is_quoted=st.booleans())
def test_what_goes_in_comes_out(data: st.DataObject, servers: list[tuple[str, int | None]], is_quoted: bool) -> None:
    """Users, passwords as they are and percent-encoded, hosts, ports, IPv6; read, written and read again"""
    assume(all(host for host, _ in servers) or servers == [("", None)])
    user, password = data.draw(_QUOTED if is_quoted else _USERS), data.draw(_QUOTED if is_quoted else _PASSWORDS)
    shown = f"{quote(user, safe='')}:{quote(password, safe='')}" if is_quoted else f"{user}:{password}"
    places = [(f"[{host}]" if ":" in host else host) + (f":{port}" if port else "") for host, port in servers]
    found = database_url.read(f"postgresql+psycopg://{shown}@{','.join(places)}/d")
    again = database_url.read(found.render_as_string(hide_password=False))
    for url in (found, again):
        assert (url.username, url.password, url.database) == (user, password, "d")
        named = [(place.host, int(place.port) if place.port else None) for place in database_url.places_of(url)]
        assert named == servers


def test_what_is_no_url_stays_none() -> None:
    for wrong in ("nonsense", "postgresql+psycopg://u@a:b/d"):
        with pytest.raises(ArgumentError):
            database_url.read(wrong)


def test_a_password_is_in_no_error() -> None:
    with pytest.raises(Refused) as refused:
        database_url.read("postgresql+psycopg://u:swordfish@a,b/d?target_session_attrs=any")
    assert "swordfish" not in str(refused.value) + str(refused.value.remedy)


def test_a_dump_is_taken_of_whoever_takes_writes() -> None:
    """libpq reads the same list, by itself."""
    place, environment = database_copy._place(database_url.read("postgresql+psycopg://u:p@a:1,b:2/d"))
    assert place == ["--dbname=postgresql://u@/d?host=a%2Cb&port=1%2C2&target_session_attrs=read-write"]
    assert environment == {"PGPASSWORD": "p"}

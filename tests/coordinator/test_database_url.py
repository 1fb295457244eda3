"""The forms in which several servers are named, and what is said of those that are wrong."""

import pytest
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
        ("postgresql+psycopg://u@/d?hostaddr=10.0.0.1", "hostaddr"),
    ],
)
def test_what_is_wrong_is_said(url: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        database_url.read(url)
    assert refused.value.code is Code.INVALID_SETTINGS
    assert said in str(refused.value) or said in refused.value.remedy


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

"""coordinator.toml, read strictly: what is wrong is named, with what to do (protocol 5; rules J39, K8, K9)."""

from pathlib import Path

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.setup import configuration
from coordinator.setup.configuration import Address

GOOD = """
coordinator_id = "coord-1"
[database]
url = "sqlite:////var/lib/holdfast-coordinator/state.db"
[listen]
fleet = "0.0.0.0:7443"
join = "[::]:7444"
[tls]
certificate = "/etc/holdfast/server.crt"
key = "credential:server.key"
[keys]
directory = "/var/lib/holdfast-coordinator/keys"
token = "/var/lib/holdfast-coordinator/token.pem"
[settings]
head_lifetime_s = 3600
"""


def wrong(text: str) -> str:
    with pytest.raises(Refused) as found:
        configuration.parse(text)
    assert found.value.code is Code.INVALID_SETTINGS
    return found.value.detail


def test_a_file_that_is_not_there_names_what_names_another(tmp_path: Path) -> None:
    with pytest.raises(Refused) as found:
        configuration.load(tmp_path / "none.toml")
    assert "No such file" in found.value.detail and "--configuration FILE" in found.value.remedy


def test_what_is_left_out_has_its_default() -> None:
    found = configuration.parse(GOOD)
    assert (found.fleet, found.join) == (Address("0.0.0.0", 7443), Address("::", 7444))  # noqa: S104 - a test's text
    assert found.probes == Address("127.0.0.1", 9465)
    assert found.admin_socket == Path("/run/holdfast-coordinator/admin.sock")
    assert found.connections_per_address == 256
    assert found.settings.head_lifetime_s == 3_600


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[database]", "[databse]", "databse is no key; did you mean database?"),
        ("fleet =", "fleat =", "listen.fleat is no key; did you mean listen.fleet?"),
        ("head_lifetime_s", "head_lifetime", "did you mean head_lifetime_s?"),
        ('coordinator_id = "coord-1"', 'coordinator_id = "Coord 1"', "coordinator_id must be an id"),
        ('url = "sqlite:////var/lib/holdfast-coordinator/state.db"', "", "database.url is missing"),
        ('"0.0.0.0:7443"', '"7443"', "listen.fleet must be host:port"),
        ('"0.0.0.0:7443"', '"0.0.0.0:70000"', "listen.fleet must be host:port"),
        ('"0.0.0.0:7443"', "7443", "listen.fleet must be text"),
        (
            "[listen]",
            "[listen]\nconnections_per_address = 0",
            "connections_per_address must be an integer from 1 to 65536",
        ),
        ("[listen]", "[listen]\nconnections_per_address = true", "must be an integer from 1"),
        ("[listen]", "[listen]\nconnections_per_adress = 9", "did you mean listen.connections_per_address?"),
        ("= 3600", "= 30", "head_lifetime_s under 900 needs short_lifetimes"),
        ("[database]", "[database", "not TOML"),
        ("[settings]", "settings = 1\n[other]", "settings"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, said: str) -> None:
    """rules J39"""
    assert old in GOOD
    with pytest.raises(Refused) as found:
        configuration.parse(GOOD.replace(old, new))
    assert said in str(found.value)


@pytest.mark.parametrize("key", ["coordinators", "ca_file", "token_file", "map"])
def test_an_agents_settings_are_told_apart(key: str) -> None:
    """rules K8, K9: the error names both settings."""
    said = wrong(f"{key} = 'x'\n" + GOOD)
    assert key in said and "coordinator_id" in said


def test_everything_that_is_wrong_comes_at_once() -> None:
    said = wrong("x = 1")
    assert "x is no key" in said and "coordinator_id" in said and "keys.token is missing" in said


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"coordinator\.toml: No such file"):
        configuration.load(tmp_path / "coordinator.toml")


def test_a_key_may_be_a_credential_of_the_service() -> None:
    assert configuration.file_of("credential:token", {"CREDENTIALS_DIRECTORY": "/run/c"}) == Path("/run/c/token")
    assert configuration.file_of("/etc/token") == Path("/etc/token")
    with pytest.raises(Refused, match="LoadCredential=token"):
        configuration.file_of("credential:token", {})

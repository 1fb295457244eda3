"""What the agent reads of active scopes; what is malformed authorises nothing."""

import pytest

from snapshot import canonical
from snapshot.egress import ResourceGrant
from snapshot.grants import ALLOWABLE, Policy, parse_policy, read_grants

GOOD = {
    "allow": list(ALLOWABLE),
    "max_duration_s": 86_400,
    "route_ttl_s": 3600,
    "session_ttl_s": 900,
    "allow_unconfirmed_start": False,
}


def section(value: object) -> bytes:
    return canonical.dumps(value)


def test_a_policy_is_exactly_its_members():
    """rules S58."""
    assert parse_policy(section(GOOD)) == Policy(frozenset(ALLOWABLE), 86_400, 3600, 900, False)
    assert parse_policy(section({**GOOD, "allow": []})) == Policy(frozenset(), 86_400, 3600, 900, False)
    for name in GOOD:
        assert parse_policy(section({key: value for key, value in GOOD.items() if key != name})) is None


@pytest.mark.parametrize("change", [
    {"more": 1}, {"allow": "continue_services"}, {"allow": ["start_service"]}, {"allow": ["assign_role"]},
    {"allow": [1]}, {"allow": None}, {"max_duration_s": -1}, {"max_duration_s": 7 * 86_400 + 1},
    {"max_duration_s": True}, {"max_duration_s": "60"}, {"route_ttl_s": 86_401}, {"session_ttl_s": 1.5},
    {"allow_unconfirmed_start": 1}, {"allow_unconfirmed_start": None},
])  # fmt: skip
def test_a_malformed_policy_is_none(change):
    """rules S58: as no policy."""
    assert parse_policy(section({**GOOD, **change})) is None


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b'"x"', b'{"allow":[],"allow":[]}', b"\xff"])
def test_no_policy_at_all(data):
    assert parse_policy(data) is None


def test_each_type_grants_its_own_kind():
    sections = [
        ("services", section({"web": {}})),
        ("services.2", section({"db": {"settings": {"key": {"secret_ref": "vault:db/key"}}}})),
        ("servicesx", section({"other": {}})),
        ("routes", section({"north": {}})),
    ]
    grants = read_grants("service_assignment", sections)
    assert (grants.services, grants.routes, grants.secrets) == ({"web", "db"}, frozenset(), {"vault:db/key"})
    assert read_grants("route_policy", sections).routes == {"north"}
    assert read_grants("qos_policy", sections).secrets == {"vault:db/key"}


def test_what_is_gone_out_by_has_secrets_of_its_own():
    entries = {
        "plant": {"connector_id": "office", "settings": {"key": {"secret_ref": "vault:plant"}}},
        "No": {},
        "x": 1,
    }
    sections = [("services", section({"web": {}})), ("resources", section(entries))]
    grants = read_grants("service_assignment", sections)
    assert (grants.services, grants.secrets) == ({"web"}, frozenset())
    assert grants.resources == {ResourceGrant("plant", "office", frozenset({"vault:plant"}))}
    assert read_grants("route_policy", sections).secrets == {"vault:plant"}  # there it is any section
    assert read_grants("service_assignment", [("resources", b"{")]).resources == frozenset()


def test_what_is_malformed_grants_nothing_and_spoils_nothing():
    """format.md 10."""
    sections = [
        ("routes", section({"north": {}, "South": {}, "east": 1, "west..": {}})),
        ("routes.2", b'{"x":{}}}'),
        ("routes.3", section([1, 2])),
        (
            "routes.4",
            section({"deep": {"list": [{"secret_ref": "a:b"}, {"secret_ref": "c:d", "more": 1}, {"secret_ref": 1}]}}),
        ),
    ]
    grants = read_grants("route_policy", sections)
    assert grants.routes == {"north", "deep"}
    assert grants.secrets == {"a:b"}


def test_endpoints_are_in_one_section_and_exactly_a_url():
    value = {
        "a": {"url": "https://h:1"},
        "b": {"url": "http://h:1"},
        "c": {"url": "https://h:1", "x": 1},
        "d": {"url": 1},
    }
    sections = [("endpoints", section(value)), ("endpoints.2", section({"e": {"url": "https://e:1"}}))]
    assert read_grants("storage_directory", sections).endpoints == {"https://h:1"}

"""What a reader does not know (format.md 1): passed over and reported; refused where its name is critical."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import canonical, manifest
from snapshot.bundle import ROOT, threshold_of
from snapshot.reasons import Reason, Rejected
from tests.fakes.cluster import NOW, Cluster, key

HASH = "sha256:" + "ab" * 32
LISTED = {"authority_epoch": 1, "config_version": 1, "content_hash": HASH, "snapshot_id": "s-1"}
GUARDED = {"change": "c-41", "probation_s": 86_400, "allowed": HASH}
NONE_REVOKED = {"key_ids": [], "node_ids": [], "role_assignments": [], "service_ids": [], "endpoints": []}
HEAD = {"generation": 1, "poll_after_s": 1, "revocations": NONE_REVOKED | {"version": 0}, "scopes": {}}
BAD, UNSUPPORTED = (11, Reason.BAD_CONTENT), (11, Reason.UNSUPPORTED_SCHEMA)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def read_head(**members):
    return manifest.parse_head(canonical.dumps(HEAD | members))


def refusal_of_head(**members):
    with pytest.raises(Rejected) as refused:
        read_head(**members)
    return refused.value.step, refused.value.reason


# Heads


def test_candidates_are_listed_as_scopes_are():
    head = read_head(
        scopes={"route_policy": LISTED}, candidates={"route_policy": LISTED | GUARDED, "config/web": LISTED}
    )
    assert head.candidates.keys() == {"route_policy", "config/web"}
    one = head.candidates["route_policy"]
    assert (one.change, one.probation_s, one.allowed) == ("c-41", 86_400, HASH)
    assert one.members() == LISTED | GUARDED
    assert head.scopes["route_policy"].members() == LISTED
    assert read_head().candidates == read_head(candidates={}).candidates == {}


@pytest.mark.parametrize("place", ["scopes", "candidates"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("change", ""),
        ("change", "C-1"),
        ("change", 1),
        ("change", None),
        ("probation_s", -1),
        ("probation_s", 86_401),
        ("probation_s", True),
        ("probation_s", 1.5),
        ("probation_s", "60"),
        ("allowed", HASH[7:]),
        ("allowed", None),
        ("allowed", 1),
    ],
)
def test_what_is_said_of_a_guarded_change_has_a_form(place, name, value):
    assert refusal_of_head(**{place: {"route_policy": LISTED | {name: value}}}) == BAD


@pytest.mark.parametrize("place", ["scopes", "candidates"])
def test_each_part_of_a_change_may_stand_alone(place):
    for name, value in GUARDED.items():
        head = read_head(**{place: {"route_policy": LISTED | {name: value}}})
        assert getattr(getattr(head, place)["route_policy"], name) == value


@pytest.mark.parametrize("candidates", [[], None, 1, "a", {"A": LISTED}, {"route_policy": {}}, {"route_policy": []}])
def test_candidates_out_of_form(candidates):
    assert refusal_of_head(candidates=candidates) == BAD


def test_what_a_head_says_beyond_this_release_is_passed_over_and_reported():
    head = read_head(
        weather={"a": 1},
        scopes={"route_policy/a": LISTED | {"hours": [1]}, "weather_policy": LISTED | {"wind": 3}},
        candidates={"config/web": LISTED | {"x": None}},
    )
    assert set(head.passed_over) == {
        "/weather",
        "/scopes/route_policy~1a/hours",
        "/scopes/weather_policy/wind",
        "/candidates/config~1web/x",
    }
    assert read_head(candidates={"config/web": LISTED | GUARDED}).passed_over == ()


CRITICAL_HEADS = {
    "a member": {"critical.x": 1},
    "a member out of form": {"critical.X Y": 1},
    "a scope type": {"scopes": {"critical.x": LISTED}},
    "a scope type with an id": {"scopes": {"critical.x/a": LISTED}},
    "a candidate's type": {"candidates": {"critical.x/a": LISTED}},
    "a member of a scope": {"scopes": {"route_policy": LISTED | {"critical.x": 1}}},
    "a member of an unknown scope": {"scopes": {"weather_policy": LISTED | {"critical.x": 1}}},
    "a member of a candidate": {"candidates": {"route_policy": LISTED | {"critical.x": 1}}},
    "beside another fault": {"poll_after_s": 0, "critical.x": 1},
    "in an entry that lacks all else": {"scopes": {"route_policy": {"critical.x": 1}}},
}


@pytest.mark.parametrize("members", CRITICAL_HEADS.values(), ids=CRITICAL_HEADS)
def test_a_critical_name_in_a_head(members):
    """Looked at before all else that step 11 asks, and as soon as the manifest is read."""
    assert refusal_of_head(**members) == UNSUPPORTED


@pytest.mark.parametrize("name", ["critical", "criticality", "critical-x", "un.critical.x", "x.critical."[:-1]])
def test_what_only_resembles_a_critical_name(name):
    assert f"/{name}" in read_head(**{name: 1}).passed_over


def test_revocations_and_the_other_documents_stay_closed():
    assert refusal_of_head(revocations=HEAD["revocations"] | {"x": []}) == BAD
    assert refusal_of_head(revocations=HEAD["revocations"] | {"critical.x": []}) == BAD
    recovery = {"from_config_version": 2, "to_config_version": 1, "to_content_hash": HASH, "nonce": "n"}
    for name in ("x", "critical.x"):
        with pytest.raises(Rejected, match="bad_content"):
            manifest.parse_recovery(canonical.dumps(recovery | {name: 1}))
        with pytest.raises(Rejected, match="bad_content"):
            manifest.parse_state(canonical.dumps({"a": {"sha256": "ab" * 32, "size": 1, name: 1}}))


def test_a_critical_head_is_refused_before_its_times(cluster, node):
    head = cluster.head(expires_at=NOW - 1, issued_at=NOW - 100, valid_from=NOW - 100, refresh_after=NOW - 50)
    value = canonical.loads(head.manifest_bytes)
    node.refuses(cluster.forge(head, manifest=value | {"critical.x": 1}), *UNSUPPORTED)


def test_a_head_that_goes_back_is_a_rollback_before_its_times(cluster, node):
    """format.md 1: its manifest is read before step 7, and what it says of revocations with it (threats T24)."""
    node.take(cluster.head(revocations=manifest.Revocations(version=3)))
    back = cluster.head(
        revocations=manifest.Revocations(version=2),
        expires_at=NOW - 1,
        issued_at=NOW - 100,
        valid_from=NOW - 100,
        refresh_after=NOW - 50,
    )
    node.refuses(back, 9, Reason.ROLLBACK)


# Trust bundles


def changed(cluster, **members):
    """The sections of the bundle to come, `a__b` being the member b of section a."""
    sections = cluster.bundle_sections()
    for place, value in members.items():
        section, _, name = place.partition("__")
        if name:
            sections[section][name] = value
        else:
            sections[section] = value
    return sections


def with_record(cluster, name, **members):
    sections = cluster.bundle_sections()
    sections["keys"][key(name).key_id] |= members
    return sections


def test_what_a_bundle_says_beyond_this_release_is_passed_over_and_reported(cluster, node):
    sections = with_record(cluster, "config-1", hours=[9, 17], scope_types=["route_policy", "weather_policy"])
    sections["delegations"] = {"a": 1}
    sections["thresholds"] |= {"config/weather_policy": 9, "config/critical.x": 2, "config/route_policy": 2}
    taken = node.take(cluster.trust_bundle(sections))
    at = f"/keys/{key('config-1').key_id}"
    assert set(taken.bundle.passed_over) == {
        "/delegations",
        "/thresholds/config~1weather_policy",
        "/thresholds/config~1critical.x",
        f"{at}/hours",
        f"{at}/scope_types/weather_policy",
    }
    node.take(cluster.trust_bundle())


@pytest.mark.parametrize("name", ["config/", "config/A", "config/a/b", "root/route_policy", "head", "configs/head"])
def test_no_threshold(cluster, node, name):
    assert node.refusal(cluster.trust_bundle(changed(cluster, **{f"thresholds__{name}": 1}))) == BAD


@pytest.mark.parametrize("value", [0, -1, True, "1", None, 1.5, 3])
@pytest.mark.parametrize("scope_type", ["route_policy", "config", "head", "trust_bundle"])
def test_no_number_for_a_scope_type(cluster, node, scope_type, value):
    """Two config keys may sign; a trust bundle none of them."""
    assert node.refusal(cluster.trust_bundle(changed(cluster, **{f"thresholds__config/{scope_type}": value}))) == BAD


def test_a_threshold_counts_the_keys_that_may_sign_the_type(cluster, node):
    cluster.trust("config-2", scope_types=("head",))
    for scope_type, most in {"route_policy": 1, "head": 2, "trust_bundle": 0}.items():
        above = changed(cluster, **{f"thresholds__config/{scope_type}": most + 1})
        assert node.refusal(cluster.trust_bundle(above)) == BAD
        cluster.versions["trust_bundle"] -= 1
        if most:
            node.take(cluster.trust_bundle(changed(cluster, **{f"thresholds__config/{scope_type}": most})))


def test_a_types_threshold_stands_in_the_place_of_that_of_all(cluster, node):
    """Higher or lower, and for heads as for scopes."""
    both = cluster.keys_for("config")
    node.take(
        cluster.trust_bundle(changed(cluster, **{"thresholds__config/route_policy": 2, "thresholds__config/head": 2}))
    )
    assert node.refusal(cluster.snapshot()) == (5, Reason.THRESHOLD_NOT_MET)
    assert node.refusal(cluster.head()) == (5, Reason.THRESHOLD_NOT_MET)
    node.take(cluster.snapshot(keys=both))
    node.take(cluster.head(keys=both))
    node.take(cluster.snapshot(scope="qos_policy"))
    node.take(cluster.trust_bundle(changed(cluster, **{"thresholds__config": 2, "thresholds__config/route_policy": 1})))
    assert node.refusal(cluster.snapshot(scope="qos_policy")) == (5, Reason.THRESHOLD_NOT_MET)
    node.take(cluster.snapshot())


@given(st.integers(1, 9), st.none() | st.integers(1, 9))
def test_the_threshold_of_a_type(of_all, of_type):
    thresholds = {"root": 1, "config": of_all} | ({} if of_type is None else {"config/head": of_type})
    assert threshold_of(thresholds, "head") == (of_all if of_type is None else of_type)
    assert threshold_of(thresholds, "route_policy") == of_all


CRITICAL_BUNDLES = {
    "a section": lambda cluster: changed(cluster, **{"critical.x": {}}),
    "a section that is no JSON": lambda cluster: changed(cluster, **{"critical.x": b"{ "}),
    "a section out of form": lambda cluster: changed(cluster, **{"critical.X Y": {}}),
    "a threshold": lambda cluster: changed(cluster, **{"thresholds__critical.x": 1}),
    "a key's member": lambda cluster: with_record(cluster, "config-1", **{"critical.x": 1}),
    "a root key's member": lambda cluster: with_record(cluster, "root-1", **{"critical.x": 1}),
    "a key's scope type": lambda cluster: with_record(cluster, "config-1", scope_types=["critical.x", "head"]),
    "out of order": lambda cluster: with_record(cluster, "config-1", scope_types=["head", "critical.x"]),
    "of a key of no purpose": lambda cluster: with_record(cluster, "config-1", purpose="x", scope_types=["critical.x"]),
    "beside another fault": lambda cluster: changed(cluster, **{"critical.x": {}, "authority": []}),
    "beside what is not canonical": lambda cluster: changed(cluster, **{"critical.x": {}, "authority": b"{ }"}),
    "beside authority": lambda cluster: changed(cluster, **{"thresholds__critical.x": {"user_directory": 1}}),
}


@pytest.mark.parametrize("spoil", CRITICAL_BUNDLES.values(), ids=CRITICAL_BUNDLES)
def test_a_critical_name_in_a_bundle(cluster, node, spoil):
    assert node.refusal(cluster.trust_bundle(spoil(cluster))) == UNSUPPORTED


def test_a_root_keys_scope_types_are_not_even_looked_at_for_this(cluster, node):
    node.take(cluster.trust_bundle(with_record(cluster, "root-1", scope_types=["critical.x", "B", "a"])))
    assert cluster.trusted["root-1"].purpose == ROOT


def test_what_is_passed_over_grants_nothing_and_hides_nothing(cluster, node):
    """Forbidden authority (11) and raw secrets (12) are looked for in all of it."""
    assert node.refusal(cluster.trust_bundle(changed(cluster, more={"audit_authority": []}))) == BAD
    cluster.versions["trust_bundle"] -= 1
    hidden = with_record(cluster, "config-1", notes={"password": "hunter2"})
    assert node.refusal(cluster.trust_bundle(hidden)) == (12, Reason.RAW_SECRET)
    cluster.versions["trust_bundle"] -= 1
    node.take(cluster.trust_bundle(with_record(cluster, "config-2", scope_types=["weather_policy"])))
    strange = cluster.snapshot(keys=[key("config-2")])
    assert node.refusal(strange) == (4, Reason.KEY_NOT_FOR_SCOPE)

"""The manifests of format.md 5: one closed form for each kind; all else is `bad_content`, step 11."""

import pytest

from snapshot import canonical, manifest
from snapshot.limits import DEFAULT, Limits
from snapshot.manifest import SectionChange, SectionEntry, state_after, state_bytes
from snapshot.reasons import Reason, Rejected

HEX = "0123456789abcdef" * 4
HASH = "sha256:" + HEX
ENTRY = {"sha256": HEX, "size": 3}
PATCH = ENTRY | {"op": "patch", "result_sha256": HEX, "result_size": 4}
REVOCATIONS = {"version": 0, "key_ids": [], "node_ids": [], "role_assignments": [], "service_ids": [], "endpoints": []}
LISTED = {"authority_epoch": 1, "config_version": 1, "content_hash": HASH, "snapshot_id": "s-1"}
HEAD = {"generation": 1, "poll_after_s": 1, "revocations": REVOCATIONS, "scopes": {"route_policy/a,b": LISTED}}
RECOVERY = {"from_config_version": 2, "to_config_version": 1, "to_content_hash": HASH, "nonce": "n"}


def refused(read, value, reason=Reason.BAD_CONTENT, step=11):
    with pytest.raises(Rejected) as verdict:
        read(value if isinstance(value, bytes) else canonical.dumps(value))
    assert (verdict.value.step, verdict.value.reason) == (step, reason)


READERS = {
    "state": (manifest.parse_state, {"one": ENTRY}),
    "changes": (manifest.parse_changes, {"one": ENTRY | {"op": "set"}}),
    "head": (manifest.parse_head, HEAD),
    "recovery": (manifest.parse_recovery, RECOVERY),
}


@pytest.mark.parametrize(("read", "good"), READERS.values(), ids=READERS)
@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"null", b"{ }", b'{"a":1,"a":1}', b"\xff"], ids=repr)
def test_not_canonical_or_no_object(read, good, data):
    """rules S13"""
    assert read(canonical.dumps(good))
    refused(read, data)


def without(members, name):
    return {member: value for member, value in members.items() if member != name}


CLOSED = {
    "state": (manifest.parse_state, ENTRY, lambda members: {"one": members}),
    "set": (manifest.parse_changes, ENTRY | {"op": "set"}, lambda members: {"one": members}),
    "patch": (manifest.parse_changes, PATCH, lambda members: {"one": members}),
    "head": (manifest.parse_head, HEAD, lambda members: members),
    "revocations": (manifest.parse_head, REVOCATIONS, lambda members: HEAD | {"revocations": members}),
    "listed": (manifest.parse_head, LISTED, lambda members: HEAD | {"scopes": {"route_policy": members}}),
    "recovery": (manifest.parse_recovery, RECOVERY, lambda members: members),
}


OPEN = (CLOSED["head"][2], CLOSED["listed"][2])


@pytest.mark.parametrize(("read", "members", "placed"), CLOSED.values(), ids=CLOSED)
def test_closed(read, members, placed):
    """rules S22; threats A16, E16: each member is needed, and no other."""
    for name in members:
        refused(read, placed(without(members, name)))
        refused(read, placed(members | {name: None}))
    for name in ("", "X", "__proto__"):
        refused(read, placed(members | {name: 1}))
    if placed not in OPEN:
        refused(read, placed(members | {"x": 1}))
    for other in ([], None, 1, "a"):
        refused(read, placed(other))


NUMBERS = [-1, True, "1", 1.5, [1]]
DIGESTS = ["", HASH, HEX.upper(), HEX[:-1], HEX + "0", HEX + "\n", 1, [HEX]]
HASHES = ["", HEX, HASH.upper(), HASH + "\n", 1]
FORMS = {
    "state": {"sha256": DIGESTS, "size": NUMBERS},
    "set": {"sha256": DIGESTS, "size": NUMBERS, "op": ["", "Set", "copy", "move", "remove", 1, ["set"], {}]},
    "patch": {"sha256": DIGESTS, "size": NUMBERS, "result_sha256": DIGESTS, "result_size": NUMBERS},
    "head": {"generation": [0, *NUMBERS], "poll_after_s": [0, *NUMBERS], "revocations": [[]], "scopes": [[], "a"]},
    "listed": {
        "authority_epoch": [0, *NUMBERS],
        "config_version": [0, *NUMBERS],
        "content_hash": HASHES,
        "snapshot_id": ["", "A", "a/b", "a" * 65, 1],
    },
    "revocations": {
        "version": NUMBERS,
        "key_ids": ["", {}, ["a"], [HASH, HASH], [HEX]],
        "node_ids": ["", ["b", "a"], ["a", "a"], ["A"], ["a/b"]],
        "role_assignments": ["", ["a"], ["a/"], ["/a"], ["a/b/c"], ["A/b"], ["b/a", "a/b"], [1]],
        "service_ids": ["", ["b", "a"], ["A"], [None]],
        "endpoints": ["", ["http://a:1"], ["https://a"], ["https://b:1", "https://a:1"], ["https://u:p@a:1"]],
    },
    "recovery": {
        "from_config_version": [0, 1, *NUMBERS],
        "to_config_version": [0, 2, 3, *NUMBERS],
        "to_content_hash": HASHES,
        "nonce": ["", "A", "a b", "n" * 129, 1, ["n"]],
    },
}
CASES = [(place, name, value) for place in FORMS for name, values in FORMS[place].items() for value in values]


@pytest.mark.parametrize(("place", "name", "value"), CASES, ids=repr)
def test_each_form(place, name, value):
    """threats E19, E22, I16"""
    read, members, placed = CLOSED[place]
    refused(read, placed(members | {name: value}))


def test_a_state():
    entries = {"a": SectionEntry(HEX, 0), "b.part": SectionEntry(HEX, 2**53 - 1), "x" * 128: SectionEntry(HEX, 3)}
    assert manifest.parse_state(state_bytes(entries)) == entries
    assert manifest.parse_state(b"{}") == {}


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a..b", "a\n", "x" * 129, "\u0430", "__proto__"], ids=repr)
@pytest.mark.parametrize("place", ["state", "changes"])
def test_no_section_name(place, name):
    """threats A10, E19"""
    read, good = READERS[place]
    refused(read, {name: good["one"]})


def test_changes():
    changes = {"a": ENTRY | {"op": "set"}, "b": {"op": "remove"}, "c": PATCH}
    assert manifest.parse_changes(canonical.dumps(changes)) == {
        "a": SectionChange("set", SectionEntry(HEX, 3), SectionEntry(HEX, 3)),
        "b": SectionChange("remove", None, None),
        "c": SectionChange("patch", SectionEntry(HEX, 3), SectionEntry(HEX, 4)),
    }


@pytest.mark.parametrize("extra", [{"sha256": HEX}, {"size": 0}, ENTRY, {"x": 1}], ids=str)
def test_a_removal_brings_nothing(extra):
    refused(manifest.parse_changes, {"a": {"op": "remove"} | extra})


def test_the_state_after_changes():
    """format.md 5"""
    base = {"a": SectionEntry(HEX, 1), "b": SectionEntry(HEX, 2), "c": SectionEntry(HEX, 3)}
    changes = manifest.parse_changes(
        canonical.dumps({"a": ENTRY | {"op": "set"}, "b": {"op": "remove"}, "c": PATCH, "d": ENTRY | {"op": "set"}})
    )
    after = state_after(base, changes)
    assert after == {"a": SectionEntry(HEX, 3), "c": SectionEntry(HEX, 4), "d": SectionEntry(HEX, 3)}
    assert base.keys() == {"a", "b", "c"}, "the base is left alone"


def test_a_head_is_parsed_once_however_it_is_asked_for():
    data = canonical.dumps(HEAD)
    assert manifest.parse_head(data) is manifest.parse_head(data, DEFAULT) is manifest.parse_head(data, limits=DEFAULT)


def test_a_head():
    revocations = {
        "version": 5,
        "key_ids": [HASH],
        "node_ids": ["a", "b"],
        "role_assignments": ["a/thin", "b/core_mesh"],
        "service_ids": ["vnc"],
        "endpoints": ["https://a.example:443"],
    }
    scopes = {"future_type/x": LISTED, "head": LISTED, "route_policy": LISTED}
    head = manifest.parse_head(canonical.dumps(HEAD | {"revocations": revocations, "scopes": scopes}))
    assert head.scopes.keys() == scopes.keys(), "rules S14: a type of right form that nobody knows is no fault"
    assert head.known_scopes == {"head", "route_policy"}
    assert head.known_scopes is head.known_scopes, "found once: a head may list thousands, and each document asks"
    assert (head.revocations.version, head.revocations.node_ids) == (5, {"a", "b"})
    assert manifest.parse_head(canonical.dumps(HEAD | {"scopes": {}})).scopes == {}


@pytest.mark.parametrize("scope", ["", "/", "A", "route_policy/", "route_policy/b,a", "a/b/c", "route\n"], ids=repr)
def test_no_scope(scope):
    refused(manifest.parse_head, HEAD | {"scopes": {scope: LISTED}})


def test_revocations_of_a_bundle_have_no_version_and_no_keys():
    """format.md 8"""
    own = without(without(REVOCATIONS, "version"), "key_ids")
    assert manifest.parse_revocations(own, of_head=False) == manifest.Revocations()
    for value in (REVOCATIONS, own | {"version": 1}, own | {"key_ids": []}, [], None):
        with pytest.raises(Rejected, match="bad_content"):
            manifest.parse_revocations(value, of_head=False)


@pytest.mark.parametrize("place", ["state", "changes"])
def test_as_many_sections_as_may_be(place):
    """format.md 10: outside of JSON, so `too_large` at step 0."""
    read, good = READERS[place]
    sections = {f"s{number}": good["one"] for number in range(20_000)}
    assert len(read(canonical.dumps(sections))) == 20_000
    refused(read, sections | {"one-more": good["one"]}, Reason.TOO_LARGE, 0)


def test_an_invalid_manifest_says_little():
    with pytest.raises(Rejected) as verdict:
        manifest.parse_state(canonical.dumps({"x\n" * 1000: 1}), Limits())
    assert len(verdict.value.detail) <= 256

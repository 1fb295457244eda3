"""The trust bundle's four sections (format.md 8), as they are loaded: closed, and no key that must not verify."""

import base64
from dataclasses import replace

import pytest

from coordinator.keys.signer import key_record
from snapshot import bundle, envelope
from snapshot.bundle import CONFIG, REVOKED, ROOT, parse_keys
from snapshot.identifiers import HEAD, SCOPE_TYPES, parse_time
from snapshot.reasons import Reason, Rejected
from snapshot.signature import key_id
from tests.fakes.cluster import key
from tests.known_answers import ed25519
from tests.known_answers.ed25519 import encoded, torsion

START, END = parse_time("2027-01-01T00:00:00Z"), parse_time("2028-01-01T00:00:00Z")
ED25519_PREFIX = bytes.fromhex("302a300506032b6570032100")


def record(name="config-1", **members):
    """A record that may be loaded; `members` in place of its own."""
    purpose = members.get("purpose", CONFIG)
    good = key_record(key(name), purpose=purpose, cluster_id="raven-1", not_before=START, not_after=END)
    return good | members


def keys(*names, **members):
    return {key(name).key_id: record(name, **members) for name in names}


def sections(**changed):
    return {
        "keys": keys("config-1", "config-2") | keys("root-1", "root-2", purpose=ROOT),
        "thresholds": {"root": 2, "config": 1},
        "authority": {"authority_epoch": 3},
        "revocations": {"node_ids": [], "role_assignments": [], "service_ids": [], "endpoints": []},
    } | changed


ENVELOPE = envelope.Envelope(
    kind="snapshot",
    snapshot_id="s-1",
    cluster_id="raven-1",
    subject_node_id="*",
    scope_type="trust_bundle",
    scope_ids=(),
    roles=(),
    organization_ids=(),
    config_version=7,
    authority_epoch=2,
    issued_at=START,
    valid_from=START,
    refresh_after=END,
    expires_at=END,
    min_trust_bundle_version=0,
    signer_key_id=key("root-1").key_id,
    signature_algorithm="ed25519",
    cosigner_key_ids=(),
    content_hash="sha256:" + "0" * 64,
    content_length=0,
)


def loaded(values):
    return bundle.from_sections(ENVELOPE, values)


def refused(values):
    with pytest.raises(Rejected) as verdict:
        loaded(values)
    assert (verdict.value.step, verdict.value.reason) == (11, Reason.BAD_CONTENT)


def test_a_bundle():
    """rules S35"""
    held = loaded(sections())
    assert (held.version, held.epoch, held.authority_epoch) == (7, 2, 3)
    assert (held.issued_at, held.expires_at) == (START, END)
    assert held.thresholds == {"root": 2, "config": 1}
    assert held.keys[key("config-1").key_id].public_key == key("config-1").public_key


@pytest.mark.parametrize("name", bundle.SECTIONS)
def test_each_section_is_needed(name):
    """threats D-40, A15, I17"""
    refused({section: value for section, value in sections().items() if section != name})
    refused(sections(**{name: []}))
    refused(sections(**{name: None}))


FIELDS = {
    "algorithm": ["", "hs256", "Ed25519", "rsa-pss-sha256", "rsa-pkcs1-sha256", 1, ["ed25519"]],
    "purpose": ["", "Root", "signing", 1, ["root"]],
    "cluster_id": ["", "A", "a/b", 1],
    "scope_types": [
        ["Unknown"],
        ["route_policy", "qos_policy"],
        ["weather_policy", "unknown_policy"],
        ["route_policy", "weather/policy"],
        ["head", "head"],
        "head",
        {"head": 1},
        [1],
        [["head"]],
    ],
    "not_before": ["", "2027-01-01", "2027-02-30T00:00:00Z", START],
    "not_after": ["", "2028-01-01T00:00:00+00:00", END],
    "status": ["", "Active", "expired", 1, ["active"]],
    "public_key": ["", "*", 1, ["x"], {}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in FIELDS for value in FIELDS[name]], ids=repr)
def test_each_member_of_a_key_record(name, value):
    """threats K20, S11, D-40"""
    refused(sections(keys=sections()["keys"] | keys("config-1", **{name: value})))


@pytest.mark.parametrize("name", record())
def test_a_member_missing(name):
    members = {member: value for member, value in record().items() if member != name}
    refused(sections(keys=sections()["keys"] | {key("config-1").key_id: members}))


@pytest.mark.parametrize("name", ["keyIdHashAlgorithms", "key id", "", "__proto__"])
def test_a_member_that_has_no_name(name):
    """threats K19"""
    refused(sections(keys=sections()["keys"] | keys("config-1", **{name: ["sha256"]})))


def with_key(spki):
    """A bundle whose further key is this one, under the id that it has."""
    return sections(keys=sections()["keys"] | {key_id(spki): record(public_key=base64.b64encode(spki).decode())})


HONEST = ed25519.decoded(key("config-1").public_key[12:])
POINTS = {f"small-order-{number}": encoded(point) for number, point in enumerate(torsion())}
POINTS |= {
    f"mixed-order-{number}": encoded(ed25519.plus(HONEST, point)) for number, point in enumerate(torsion()) if number
}
POINTS |= {"not-reduced": encoded(ed25519.ZERO, extra=1), "no-point": (2).to_bytes(32, "little"), "short": bytes(31)}
POINTS |= {"identity-with-a-sign": encoded(ed25519.ZERO, sign=1)}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_points_that_are_no_key(point):
    """threats K07, K09, D-9"""
    refused(with_key(ED25519_PREFIX + point))


def test_an_honest_key_more():
    assert loaded(with_key(key("spare").public_key))


def with_spare_bits(text):
    """The same bytes for a lenient reader: the last digit's spare bits set."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    assert text[-1] == "=" != text[-2]
    return text[:-2] + alphabet[alphabet.index(text[-2]) + 1] + "="


TEXT = record()["public_key"]
BASE64 = {
    "unpadded": TEXT.rstrip("="),
    "padded-more": TEXT + "=",
    "newline-last": TEXT + "\n",
    "newline-inside": TEXT[:20] + "\n" + TEXT[20:],
    "space-first": " " + TEXT,
    "spare-bits": with_spare_bits(TEXT),
    "url-alphabet": TEXT[:20] + "-" + TEXT[21:],
    "not-ascii": TEXT[:20] + "\u0430" + TEXT[21:],
    "pem": f"-----BEGIN PUBLIC KEY-----\n{TEXT}\n-----END PUBLIC KEY-----\n",
}


@pytest.mark.parametrize("text", BASE64.values(), ids=BASE64)
def test_one_form_of_base64(text):
    """threats D-10, K16"""
    refused(sections(keys=sections()["keys"] | keys("config-1", public_key=text)))


@pytest.mark.parametrize(
    "other", [key("config-2").key_id, "sha256:" + "0" * 64, "config-1", "", key("spare").key_id.upper()]
)
def test_the_id_is_recomputed(other):
    """threats K18, S11: so one public key stands once."""
    refused(sections(keys=keys("root-1", "root-2", purpose=ROOT) | {other: record()}))


@pytest.mark.parametrize("count", [0, 1, 64, 65])
def test_how_many_keys(count):
    """format.md 8: 1..64"""
    records = keys(*(f"config-{number}" for number in range(count)))
    if 1 <= count <= 64:
        assert len(parse_keys(records)) == count
    else:
        with pytest.raises(Rejected, match="bad_content"):
            parse_keys(records)


THRESHOLDS = [
    {},
    {"root": 1},
    {"config": 1},
    {"root": 1, "config": 1, "head": 1},
    {"root": 1, "config": 1, "config/": 1},
    [],
    {"root": 2, "config": 3},
]
THRESHOLDS += [{"root": value, "config": 1} for value in (0, -1, 3, True, "1", None, 1.5, 2**53 - 1)]


@pytest.mark.parametrize("value", THRESHOLDS, ids=repr)
def test_no_thresholds(value):
    """threats S08, D-13, D-40"""
    refused(sections(thresholds=value))


def test_a_threshold_counts_what_can_still_sign():
    """format.md 8: active or retiring"""
    retiring = sections()["keys"] | keys("root-2", purpose=ROOT, status="retiring")
    assert loaded(sections(keys=retiring))
    refused(sections(keys=sections()["keys"] | keys("root-2", purpose=ROOT, status=REVOKED)))
    refused(sections(keys=keys("root-1", "root-2", purpose=ROOT)))


@pytest.mark.parametrize(
    "value", [{}, {"authority_epoch": 0}, {"authority_epoch": True}, {"authority_epoch": 1, "x": 1}], ids=repr
)
def test_no_authority(value):
    refused(sections(authority=value))


@pytest.mark.parametrize("scope_types", [["future_type"], ["trust_bundle", "route_policy"], ["head", "head"]], ids=repr)
def test_a_root_keys_scope_types_are_not_looked_at(scope_types):
    """format.md 8"""
    assert loaded(sections(keys=sections()["keys"] | keys("root-1", purpose=ROOT, scope_types=scope_types)))


@pytest.mark.parametrize("scope_types", [[], ["head"], sorted([*SCOPE_TYPES, HEAD])], ids=len)
def test_scope_types_of_a_config_key(scope_types):
    assert loaded(sections(keys=sections()["keys"] | keys("config-1", scope_types=scope_types)))


GOOD = parse_keys(keys("config-1", scope_types=["head", "route_policy"]))[key("config-1").key_id]
OF_BUNDLE = {"scope_type": "trust_bundle", "purpose": ROOT}
FAULTS = {
    "another-cluster": ({"cluster_id": "raven-2", "status": REVOKED}, {"now": END}, Reason.UNKNOWN_KEY),
    "too-early": ({}, {"now": START - 0.001}, Reason.KEY_EXPIRED),
    "at-its-start": ({}, {"now": START}, None),
    "just-before-its-end": ({}, {"now": END - 0.001}, None),
    "at-its-end": ({"status": REVOKED}, {"now": END}, Reason.KEY_EXPIRED),
    "revoked": ({"status": REVOKED}, {"scope_type": "qos_policy"}, Reason.KEY_REVOKED),
    "revoked-by-a-head": ({}, {"revoked": True}, Reason.KEY_REVOKED),
    "retiring": ({"status": "retiring"}, {}, None),
    "another-scope": ({}, {"scope_type": "qos_policy"}, Reason.KEY_NOT_FOR_SCOPE),
    "for-a-bundle": (
        {"scope_types": ("trust_bundle",)},
        {"scope_type": "trust_bundle", "purpose": ROOT},
        Reason.KEY_NOT_FOR_SCOPE,
    ),
    "a-root-key-for-a-scope": ({"purpose": ROOT}, {}, Reason.KEY_NOT_FOR_SCOPE),
    "a-root-key": ({"purpose": ROOT}, OF_BUNDLE, None),
    "no-head-revokes-a-root-key": ({"purpose": ROOT}, {"purpose": ROOT, "revoked": True}, None),
}


@pytest.mark.parametrize(("members", "asked", "fault"), FAULTS.values(), ids=FAULTS)
def test_what_keeps_a_key_from_signing(members, asked, fault):
    """rules S37, S40, S47, S88; threats K01, K02, K03, K04, T15, T19"""
    given = {"cluster_id": "raven-1", "now": START, "scope_type": "route_policy", "purpose": CONFIG, "revoked": False}
    assert replace(GOOD, **members).fault(**given | asked) == fault

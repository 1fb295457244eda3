"""Mirrors of a CA or certificate of their own: what nodes are told of them, and what is refused."""

import base64

import pytest

from coordinator.declared import resources
from coordinator.declared.resources import InvalidResources
from snapshot.mirrors import parse_mirror
from tests.coordinator.publishing import Press
from wire.certificate import fingerprint, issue_server, make_authority

NOW = 1_800_000_000.0
FIRST, SECOND = make_authority("files", NOW), make_authority("files", NOW)
LEAF = issue_server(FIRST, ["cdn.example"], NOW)
DIRECTORY = "storage_directory"
WORLD = """
{kind: Cluster, id: prod, spec: {coordinators: ["https://localhost:7443"]}}
---
{kind: Node, id: node-a, spec: {roles: [core_mesh]}}
---
{kind: Node, id: node-b, spec: {roles: [core_mesh]}}
"""


def pem(*pairs):
    return "".join(pair.certificate_pem.decode() for pair in pairs)


def mirror(spec):
    return f"{WORLD}---\nkind: StorageEndpoint\nid: cdn\nspec:\n  url: https://cdn.example:443\n{spec}"


def block(text):
    return "  authorities: |\n" + "".join(f"    {line}\n" for line in text.splitlines())


@pytest.fixture
def press(database):
    return Press.published(database, "node-a", "node-b", also=WORLD, prune=True)


def told(press, spec):
    press.apply(mirror(spec), prune=True)
    press.publish()
    (entry,) = press.section(DIRECTORY, "endpoints", "node-a").values()
    assert parse_mirror(entry) is not None
    return entry.get("tls")


def test_each_way_is_told_and_taken_back(press):
    """rules S6, S69: by the agent's own verifier, and without `tls` the document is what it always was"""
    ders = sorted(pair.der for pair in (FIRST, SECOND))
    assert told(press, "") is None
    plain = press.listing()[DIRECTORY].content_hash
    assert told(press, "  system_roots: true\n") == {"system_roots": True}
    assert told(press, block(pem(FIRST, SECOND))) == {"authorities": [base64.b64encode(der).decode() for der in ders]}
    pins = ["sha256:" + "f" * 64, fingerprint(LEAF.der)]
    assert told(press, f"  certificates: [{', '.join(pins)}]\n") == {"certificates": sorted(pins)}
    assert told(press, "") is None
    assert press.listing()[DIRECTORY].content_hash == plain
    press.reader("node-b").follow()


KEY = FIRST.key_pem.decode()


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ("  system_roots: yes please\n", "spec.system_roots", "must be `true` or `false`"),
        ("  authorities: nonsense\n", "spec.authorities", "no certificate (PEM)"),
        ("  authorities: [a]\n", "spec.authorities", "must be 1 to 8 certificates of CAs, in PEM"),
        (block(pem(FIRST).replace("M", "?", 1)), "spec.authorities", "not readable certificates (PEM)"),
        (block(pem(LEAF)), "spec.authorities", "is no CA"),
        (block("".join(pem(make_authority("x", NOW)) for _ in range(9))), "spec.authorities", "has 9 certificates"),
        ("  certificates: [abc]\n", "spec.certificates[0]", "must be `sha256:` and 64 lower-case hex digits"),
        ("  system_roots: true\n" + block(pem(FIRST)), "spec.authorities", "stands beside system_roots"),
        (f"  system_roots: true\n  certificates: ['sha256:{'a' * 64}']\n", "spec.certificates", "stands beside"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_a_remedy(spec, field, message):
    (found,) = problems(spec)
    assert found.field == field
    assert message in found.message
    assert found.remedy and found.line


def test_a_private_key_beside_the_ca_is_refused_and_not_shown():
    """threats D-55"""
    found = problems(block(pem(FIRST) + KEY))
    assert any("raw secret" in each.message for each in found)
    assert KEY.splitlines()[1] not in str(found)


def problems(spec):
    with pytest.raises(InvalidResources) as caught:
        resources.check(resources.read({"world.yaml": mirror(spec)}), {}, "prod")
    return caught.value.problems

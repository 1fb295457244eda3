"""What the agent's verifier refuses is never given out, whatever the compiler did (rules S69; S72..S82)."""

from dataclasses import replace

import pytest

from coordinator.keys import signer
from coordinator.keys.signer import SignedDocument
from coordinator.publishing.review import MeantHead, MeantLine, OtherThanMeant, Reviewer, review
from coordinator.publishing.signing_context import Unpublishable
from snapshot import canonical
from snapshot.identifiers import HEAD
from snapshot.manifest import Revocations
from snapshot.verifier_state import VerifierState
from tests.fakes.cluster import HOUR, NOW, Cluster, key

ROUTES = {"routes": {"r1": {"organization_id": "amber"}}}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def reason(cluster: Cluster, document: SignedDocument, *roles: str, now: float = NOW) -> str:
    holder = cluster.node(*(roles or ("core_mesh",))).holder
    with pytest.raises(Unpublishable) as found:
        review(document, holder, now)
    return found.value.reason


def test_what_is_good_passes(cluster: Cluster) -> None:
    """rules S71"""
    made = cluster.snapshot(ROUTES, organization_ids=["amber"])
    assert review(made, cluster.node("core_mesh").holder, NOW).scope == "route_policy"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"cluster_id": "elsewhere"}, "wrong_cluster"),  # rules S73
        ({"subject_node_id": "node-b"}, "wrong_node"),  # rules S74
        ({"expires_at": NOW - 1, "refresh_after": NOW - 2, "valid_from": NOW - HOUR}, "bad_validity"),  # rules S75
        ({"roles": ["ingress"]}, "role_not_allowed"),  # rules S80
        ({"organization_ids": ["foreign"]}, "organization_not_allowed"),  # rules S79
        ({"authority_epoch": 2}, "epoch_ahead"),
        ({"min_trust_bundle_version": 9}, "trust_bundle_too_old"),
    ],
)
def test_an_envelope_that_a_node_refuses_is_not_given_out(cluster: Cluster, members: dict, expected: str) -> None:
    assert reason(cluster, cluster.forge(cluster.snapshot({"routes": {}}), **members)) == expected


def test_what_has_expired_is_not_given_out(cluster: Cluster) -> None:
    """rules S75"""
    assert reason(cluster, cluster.snapshot({"routes": {}}), now=NOW + 8 * 24 * HOUR) == "expired"


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"routes": {"r1": {"api_key": "x" * 20}}}, "raw_secret"),  # rules S78
        ({"routes": {"r1": {"organization_id": "foreign"}}}, "unrelated_organization"),  # rules S79
        ({"routes": {"audit_authority": True}}, "bad_content"),
    ],
)
def test_content_that_a_node_refuses_is_not_given_out(cluster: Cluster, sections: dict, expected: str) -> None:
    assert reason(cluster, cluster.snapshot(sections, organization_ids=["amber"])) == expected


def test_a_scope_type_that_no_role_grants_is_not_given_out(cluster: Cluster) -> None:
    """rules S80"""
    assert reason(cluster, cluster.snapshot({"routes": {}}, scope="qos_policy"), "ingress") == "role_not_allowed"


def test_signatures_that_do_not_count_are_not_given_out(cluster: Cluster) -> None:
    """rules S72, S82"""
    good = cluster.snapshot({"routes": {}})
    altered = tuple((key_id, bytes(64)) for key_id, _ in good.signatures)
    spoilt = SignedDocument(good.envelope, good.envelope_bytes, altered, good.manifest_bytes, good.sections)
    assert reason(cluster, spoilt) == "bad_signature"
    assert reason(cluster, cluster.snapshot({"routes": {}}, keys=[key("stranger")])) == "unknown_key"
    node = cluster.node("core_mesh")
    signers = frozenset(key_id for key_id, _ in good.signatures)
    node.take(cluster.head({}, revocations=Revocations(1, key_ids=signers), keys=[key("config-2")]))
    with pytest.raises(Unpublishable, match="key_revoked"):
        review(good, node.holder, NOW)


def test_a_version_that_goes_back_and_one_that_says_nothing_new_are_not_given_out(cluster: Cluster) -> None:
    """rules S76, S85"""
    node = cluster.node("core_mesh")
    first, second = cluster.snapshot({"routes": {"a": 1}}), cluster.snapshot({"routes": {"a": 2}})
    node.take(second)
    for document, expected in ((first, "rollback"), (second, "no_effect")):
        with pytest.raises(Unpublishable, match=expected):
            review(document, node.holder, NOW)


def test_an_increment_that_does_not_fit_its_base_is_not_given_out(cluster: Cluster) -> None:
    """rules S81, S77"""
    node = cluster.node("core_mesh")
    node.take(cluster.snapshot({"routes": {"a": 1}}))
    cluster.snapshot({"routes": {"a": 2}})
    with pytest.raises(Unpublishable, match="base_mismatch"):
        review(cluster.increment(sets={"routes": {"a": 3}}), node.holder, NOW)


def test_a_section_that_is_not_what_was_signed_is_not_given_out(cluster: Cluster) -> None:
    good = cluster.snapshot({"routes": {}})
    other = SignedDocument(good.envelope, good.envelope_bytes, good.signatures, good.manifest_bytes, (b'{"x":1}',))
    assert reason(cluster, other) == "content_mismatch"
    assert signer.content_hash(good.manifest_bytes) == good.envelope.content_hash


def judge_twin(cluster: Cluster, document: SignedDocument, holder: VerifierState, now: float = NOW) -> str:
    """The verdict on what comes after another one of the same content; empty for a good one."""
    reviewer = Reviewer()
    reviewer.review(cluster.snapshot(ROUTES, organization_ids=["amber"]), cluster.node("core_mesh").holder, NOW)
    try:
        reviewer.review(document, holder, now)
    except Unpublishable as refused:
        return refused.reason
    return ""


def test_a_document_of_equal_content_passes_by_its_claims(cluster: Cluster) -> None:
    """rules S71"""
    made = cluster.snapshot(ROUTES, organization_ids=["amber"])
    assert judge_twin(cluster, made, cluster.node("core_mesh").holder) == ""


@pytest.mark.parametrize(
    "members",
    [
        {"cluster_id": "elsewhere"},
        {"subject_node_id": "node-b"},
        {"subject_node_id": "Node B"},
        {"expires_at": NOW - 1, "refresh_after": NOW - 2, "valid_from": NOW - HOUR},
        {"refresh_after": NOW - 2 * HOUR},
        {"refresh_after": NOW + 365 * 24 * HOUR},
        {"roles": ["ingress"]},
        {"organization_ids": ["foreign"]},
        {"organization_ids": []},
        {"authority_epoch": 2},
        {"min_trust_bundle_version": 9},
        {"scope_ids": ["b", "a"]},
        {"snapshot_id": "No id"},
        {"content_length": 7},
        {"signature_algorithm": "none"},
    ],
)
def test_what_differs_from_what_has_passed_is_refused_as_by_the_whole_verifier(cluster: Cluster, members: dict) -> None:
    made = cluster.forge(cluster.snapshot(ROUTES, organization_ids=["amber"]), **members)
    holder = cluster.node("core_mesh").holder
    assert judge_twin(cluster, made, holder) == reason(cluster, made) != ""


def test_each_signature_is_verified_before_it_goes_out(cluster: Cluster) -> None:
    """rules S69, S82: a spoilt one gives the key away to who has a good one beside it"""
    good = cluster.snapshot(ROUTES, organization_ids=["amber"])
    altered = tuple((key_id, signature[:-1] + bytes([signature[-1] ^ 1])) for key_id, signature in good.signatures)
    spoilt = SignedDocument(good.envelope, good.envelope_bytes, altered, good.manifest_bytes, good.sections)
    holder = cluster.node("core_mesh").holder
    assert judge_twin(cluster, spoilt, holder) == reason(cluster, spoilt) == "bad_signature"
    assert judge_twin(cluster, good, holder) == ""


def test_of_equal_content_what_goes_back_or_says_nothing_new_is_refused(cluster: Cluster) -> None:
    """rules S76, S85"""
    node = cluster.node("core_mesh")
    first, second = (cluster.snapshot(ROUTES, organization_ids=["amber"]) for _ in range(2))
    node.take(second)
    assert judge_twin(cluster, first, node.holder) == "rollback"
    assert judge_twin(cluster, second, node.holder) == "no_effect"


def test_the_same_claims_over_other_bytes_are_refused(cluster: Cluster) -> None:
    good = cluster.snapshot(ROUTES, organization_ids=["amber"])
    other = cluster.snapshot({"routes": {"r1": {"organization_id": "amber", "x": 1}}}, organization_ids=["amber"])
    mixed = SignedDocument(good.envelope, good.envelope_bytes, good.signatures, other.manifest_bytes, other.sections)
    holder = cluster.node("core_mesh").holder
    assert judge_twin(cluster, mixed, holder) == reason(cluster, mixed) == "content_mismatch"
    later = cluster.snapshot(ROUTES, organization_ids=["amber"])
    lied = SignedDocument(good.envelope, later.envelope_bytes, later.signatures, good.manifest_bytes, good.sections)
    reviewer = Reviewer()
    reviewer.review(good, holder, NOW)
    reviewer.review(lied, holder, NOW)  # judged by its bytes, and those are good


def passed_before(cluster: Cluster, document: SignedDocument, now: float) -> str:
    """The verdict on a document of a later batch, where another one of its content has passed in an earlier one."""
    reviewer, holder = Reviewer(), cluster.node("core_mesh").holder
    reviewer.begin(holder.bundle, holder.revocations)
    reviewer.review(cluster.snapshot(ROUTES, organization_ids=["amber"]), holder, NOW)
    reviewer.begin(replace(holder.bundle), replace(holder.revocations))
    try:
        reviewer.review(document, holder, now)
    except Unpublishable as refused:
        return refused.reason
    return ""


def later(cluster: Cluster, by: int, **members: object) -> SignedDocument:
    """As it is signed so much later."""
    made = cluster.snapshot(ROUTES, organization_ids=["amber"])
    times = {
        name: getattr(made.envelope, name) + by for name in ("issued_at", "valid_from", "refresh_after", "expires_at")
    }
    return cluster.forge(made, **times | members)


def test_of_a_later_batch_it_passes_by_its_claims(cluster: Cluster) -> None:
    """rules S71"""
    assert passed_before(cluster, later(cluster, HOUR), NOW + HOUR) == ""


@pytest.mark.parametrize(
    ("members", "now"),
    [
        ({}, NOW + 30 * 24 * HOUR),  # the document has expired
        ({}, NOW - 2 * HOUR),  # it is of the future
        ({"expires_at": NOW + HOUR, "refresh_after": NOW + 2 * HOUR}, NOW + HOUR),
        ({"issued_at": NOW + 2 * HOUR}, NOW + HOUR),
    ],
)
def test_its_dates_are_judged_by_the_clock_as_it_is(cluster: Cluster, members: dict, now: float) -> None:
    """rules S75: what passed before had others"""
    made = later(cluster, HOUR, **members)
    assert passed_before(cluster, made, now) == reason(cluster, made, now=now) != ""


def test_nor_may_a_key_sign_what_the_bundle_does_not_give_it_any_more(cluster: Cluster) -> None:
    """rules S82: nor is a bundle believed that has ended since, or what passed by another one"""
    node = cluster.node("core_mesh")
    ends = node.holder.bundle.expires_at
    made = later(cluster, ends - NOW)
    assert passed_before(cluster, made, ends + 1) == reason(cluster, made, now=ends + 1) == "trust_bundle_too_old"
    reviewer, good = Reviewer(), cluster.snapshot(ROUTES, organization_ids=["amber"])
    reviewer.begin(node.holder.bundle, node.holder.revocations)
    reviewer.review(good, node.holder, NOW)
    signers = frozenset(key_id for key_id, _ in good.signatures)
    node.take(cluster.head({}, revocations=Revocations(1, key_ids=signers), keys=[key("config-2")]))
    reviewer.begin(node.holder.bundle, node.holder.revocations)
    with pytest.raises(Unpublishable, match="key_revoked"):
        reviewer.review(later(cluster, 1), node.holder, NOW + 1)
    reviewer.begin(cluster.node("core_mesh").holder.bundle, Revocations())
    reviewer.review(later(cluster, 1), cluster.node("core_mesh").holder, NOW + 1)


def head_of(cluster: Cluster, generation: int, meant: dict | None = None, **entry: object) -> tuple:
    """A head of one scope, and what it was meant to be."""
    said = {"authority_epoch": 1, "config_version": 3, "content_hash": "sha256:" + "a" * 64, "snapshot_id": "a-1"}
    claims = cluster._claims("head", {"config_version": generation})
    claims = replace(claims, expires_at=NOW + HOUR // 2, refresh_after=NOW + HOUR // 4)
    revocations = signer.revocation_members(Revocations(), of_head=True)
    members = signer.head_members(
        claims.config_version, {"route_policy": {**said, **entry}}, {}, poll_after_s=9, revocations=revocations
    )
    made = signer.sign(claims.envelope(HEAD), canonical.dumps(members), (), [key("config-1")])
    return made, MeantHead((generation, 9), lambda: meant or members, frozenset())


def test_a_head_that_says_what_was_meant_passes_by_its_claims(cluster: Cluster) -> None:
    node, reviewer = cluster.node("core_mesh"), Reviewer()
    for generation in (1, 2, 3):
        made, meant = head_of(cluster, generation, content_hash="sha256:" + f"{generation}" * 64)
        reviewer.review_head(made, node.holder, NOW, meant)
        node.take(made)
    with pytest.raises(Unpublishable, match="rollback"):
        reviewer.review_head(*head_of(cluster, 2)[:1], node.holder, NOW, head_of(cluster, 2)[1])


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ({"snapshot_id": "Not an id"}, {"generation": 2}),  # not what was meant
        ({"snapshot_id": "not an id, and longer than the one before"}, None),  # as it was meant, and larger
    ],
)
def test_a_head_that_is_another_than_was_meant_or_larger_is_judged_whole(
    cluster: Cluster, entry: dict, meant: dict | None
) -> None:
    node, reviewer = cluster.node("core_mesh"), Reviewer()
    first, as_meant = head_of(cluster, 1)
    reviewer.review_head(first, node.holder, NOW, as_meant)
    made, said = head_of(cluster, 2, meant, **entry)
    with pytest.raises(Unpublishable, match="bad_content"):
        reviewer.review_head(made, node.holder, NOW, said)


def test_a_head_that_says_what_the_one_before_it_said_is_known_by_its_digest(cluster: Cluster) -> None:
    """rules S69: nothing of it is read again, and each signature is verified."""
    node, reviewer = cluster.node("core_mesh"), Reviewer()
    first, as_meant = head_of(cluster, 1)
    said = reviewer.review_head(first, node.holder, NOW, as_meant)
    node.take(first)
    again, meant = head_of(cluster, 2)
    meant = replace(meant, said=said, members=lambda: pytest.fail("it was asked what the head says"))
    assert reviewer.review_head(again, node.holder, NOW, meant) == said
    altered = tuple((key_id, signature[:-1] + bytes([signature[-1] ^ 1])) for key_id, signature in again.signatures)
    with pytest.raises(Unpublishable, match="bad_signature"):
        reviewer.review_head(replace(again, signatures=altered), node.holder, NOW, meant)


@pytest.mark.parametrize(
    ("entry", "numbers"),
    [
        ({"snapshot_id": "Not an id"}, (2, 9)),  # says something else
        ({"snapshot_id": "Not an id"}, (3, 9)),  # and its numbers are not what was meant
    ],
)
def test_what_says_something_else_than_the_head_before_it_is_read(
    cluster: Cluster, entry: dict, numbers: tuple[int, int]
) -> None:
    node, reviewer = cluster.node("core_mesh"), Reviewer()
    first, as_meant = head_of(cluster, 1)
    said = reviewer.review_head(first, node.holder, NOW, as_meant)
    made, meant = head_of(cluster, 2, {"generation": 2}, **entry)
    with pytest.raises(OtherThanMeant):
        reviewer.review_head(made, node.holder, NOW, replace(meant, said=said, numbers=numbers))


def test_a_head_of_other_numbers_than_were_meant_does_not_pass_as_the_one_before_it(cluster: Cluster) -> None:
    node, reviewer = cluster.node("core_mesh"), Reviewer()
    first, as_meant = head_of(cluster, 1)
    said = reviewer.review_head(first, node.holder, NOW, as_meant)
    made, meant = head_of(cluster, 2)
    asked: list[bool] = []
    meant = replace(meant, said=said, numbers=(3, 9), members=lambda: asked.append(True) or {})
    with pytest.raises(OtherThanMeant):
        reviewer.review_head(made, node.holder, NOW, meant)
    assert asked


def amended(cluster: Cluster, said: bytes, **other: object) -> tuple:
    """A second head that lists another version than `head_of`'s first, meant as an amendment of that; `other`: members
    of its line that are not what is said to be new.
    """
    lines = []
    for version in (3, 4):
        entry = {"authority_epoch": 1, "config_version": version, "content_hash": "sha256:" + "a" * 64}
        lines.append({"route_policy": entry | {"snapshot_id": "a-1"}})
    before, after = (canonical.dumps(line)[1:-1] for line in lines)
    made, meant = head_of(cluster, 2, config_version=4, **other)
    return made, replace(meant, said=said, lines=[MeantLine(before, after, lines[1])])


def test_a_head_that_amends_the_one_before_it_is_known_by_the_digest_of_that(cluster: Cluster) -> None:
    """rules S69: what is left is as it has passed, what is new says what was meant, and each signature is verified."""
    node, reviewer = cluster.node("core_mesh"), Reviewer()
    first, as_meant = head_of(cluster, 1)
    said = reviewer.review_head(first, node.holder, NOW, as_meant)
    node.take(first)
    made, meant = amended(cluster, said)
    meant = replace(meant, members=lambda: pytest.fail("it was asked what the head says"))
    assert reviewer.review_head(made, node.holder, NOW, meant) == meant.digest(made.manifest_bytes) != said
    altered = tuple((key_id, signature[:-1] + bytes([signature[-1] ^ 1])) for key_id, signature in made.signatures)
    with pytest.raises(Unpublishable, match="bad_signature"):
        reviewer.review_head(replace(made, signatures=altered), node.holder, NOW, meant)


@pytest.mark.parametrize("case", ["another line", "not what was meant", "another before", "nothing before"])
def test_an_amendment_of_something_else_is_read(cluster: Cluster, case: str) -> None:
    node, reviewer = cluster.node("core_mesh"), Reviewer()
    first, as_meant = head_of(cluster, 1)
    said = reviewer.review_head(first, node.holder, NOW, as_meant)
    made, meant = amended(cluster, said, **({"snapshot_id": "a-2"} if case == "another line" else {}))
    (line,) = meant.lines
    if case == "not what was meant":
        meant = replace(meant, lines=[line._replace(members={"route_policy": {}})])
    elif case == "another before":
        meant = replace(meant, lines=[line._replace(before=line.before.replace(b"a-1", b"a-3"))])
    elif case == "nothing before":
        meant = replace(meant, said=None)
    asked, as_meant = list[bool](), meant.members
    meant = replace(meant, members=lambda: asked.append(True) or as_meant())
    reviewer.review_head(made, node.holder, NOW, meant)
    assert asked
    if meant.said is not None:
        with pytest.raises(OtherThanMeant):
            reviewer.review_head(made, node.holder, NOW, replace(meant, members=dict))

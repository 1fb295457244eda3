"""What is published, version by version, and that a node with a verifier of its own takes all of it (rules S69)."""

import hashlib
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import delete, select, update

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CLOCK_SKEW_S
from coordinator.changes.states import ChangeState, Step
from coordinator.configs import compiled_contents
from coordinator.database import catalog, documents, schema, uploads
from coordinator.database.database import Database
from coordinator.database.documents import Document
from coordinator.declared.compiler import Audience, ScopeContent
from coordinator.keys.signer import SignedDocument
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import backlog, heads, published_state
from coordinator.publishing.head_signing import MOST_REPLACED
from coordinator.publishing.publication import NodeContents, draft
from coordinator.publishing.review import MeantHead, Reviewer
from coordinator.publishing.shared_documents import SharedDocuments
from coordinator.publishing.signing_context import Unpublishable
from coordinator.replicas.generations import BLOCK
from snapshot import envelope
from snapshot.bundle import RETIRING
from snapshot.identifiers import Scope
from snapshot.verifier_state import VerifierState
from tests.coordinator.publishing import DAY, HOUR, STATE, Press

OTHER_ROUTE = "kind: Route\nid: back\nspec: {organization: acme, service: web, match: {hosts: [back.example]}}"


@pytest.fixture
def press(database: Database) -> Press:
    """Two members that have been published to once."""
    return Press.published(database, "node-a", "node-b")


def parsed(document: Document) -> envelope.Envelope:
    return envelope.parse(document.envelope, document.kind)


def versions(press: Press, node_id: str = "node-a") -> dict[str, int]:
    return {scope: entry.config_version for scope, entry in press.listing(node_id).items()}


# ---- what is published passes, and holds what was declared


def test_every_node_takes_all_that_its_head_lists(press: Press) -> None:
    """rules S69, S71, S17: each scope type that its roles may hold, and no other."""
    a, b = press.reader("node-a").follow(), press.reader("node-b").follow()
    common = {"head", "trust_bundle", "node_bootstrap", "node_runtime", "degraded_mode_policy"}
    more = {"peer_directory", "route_policy", "qos_policy", "storage_directory", "service_assignment/web"}
    assert set(a.holder.active) == common | more
    assert set(b.holder.active) == common | {"route_policy", "storage_directory"}
    assert b"www.example" in a.text("route_policy")
    assert b'"workers":4' in a.text("service_assignment/web")
    assert a.holder.roles == {"core_mesh", "egress_service"}


def test_a_new_member_is_joined_empty(database: Database) -> None:
    """rules J8, J9: what it is granted comes from the state after its admission."""
    press = Press.published(database, "node-c")
    reader = press.reader("node-c").follow()
    assert reader.holder.roles == reader.holder.organization_ids == frozenset()
    assert set(press.listing("node-c")) == {"trust_bundle", "node_bootstrap", "node_runtime", "degraded_mode_policy"}


def test_the_same_state_is_published_under_the_same_hash(press: Press, second: Database) -> None:
    """rules S6: by whichever replica, which then has nothing to say."""
    other = Press(second, press.now, press.settings, press.bundles)
    again = other.prepare("node-a", "node-b")
    assert all(not each.publication.documents for each in again.drafts)
    hashes = {scope: entry.content_hash for scope, entry in press.listing().items()}
    assert hashes == {scope: entry.content_hash for scope, entry in again.drafts[0].publication.listing.items()}


# ---- a change


def test_a_change_makes_a_new_version_only_where_the_content_is_another(press: Press) -> None:
    """rules S85, K21: one scope of the nodes that it touches."""
    before, other = versions(press), versions(press, "node-b")
    press.apply(
        "kind: Service\nid: web\nspec: {organization: acme, runs_on: {nodes: [node-a]}, settings: {workers: 5}}"
    )
    assert press.due() == ["node-a"]
    press.publish()
    after = versions(press)
    assert {scope for scope in after if after[scope] != before[scope]} == {"service_assignment/web"}
    assert after["service_assignment/web"] == before["service_assignment/web"] + 1
    assert versions(press, "node-b") == other
    assert press.due() == []


def test_only_what_a_change_can_affect_is_compiled_again(press: Press) -> None:
    compiled = []
    original = compiled_contents.compile_scope

    def counting(model, node_id, scope, read):
        compiled.append((node_id, scope.name))
        return original(model, node_id, scope, read)

    press.prepare("node-a")
    press.apply(OTHER_ROUTE)
    compiled_contents.compile_scope = counting
    try:
        press.publish()
    finally:
        compiled_contents.compile_scope = original
    assert sorted(compiled) == [("node-a", "route_policy"), ("node-b", "route_policy")]


def test_a_small_change_comes_as_an_increment(database: Database) -> None:
    """rules S81, S25, S26, S33: from exactly the version before, with signatures of its own."""
    press = Press.founded(database, "node-a")
    many = "\n---\n".join(
        f"kind: Route\nid: r{number}\nspec: {{organization: acme, service: web, match: {{hosts: [h{number}.example]}}}}"
        for number in range(120)
    )
    press.apply(many)
    press.publish()
    reader = press.reader().follow()
    base = press.listing()["route_policy"].config_version
    press.apply("kind: Route\nid: r7\nspec: {organization: acme, service: web, match: {hosts: [new.example]}}")
    press.publish()
    found = documents.increment(database, "node-a", "route_policy", base)
    assert parsed(found).base_config_version == base
    assert found.sections and sum(map(len, found.sections)) < 200
    reader.follow()
    assert ("increment", "route_policy") in reader.taken
    assert b"new.example" in reader.text("route_policy")
    assert b"h7.example" not in reader.text("route_policy")


def test_there_is_no_increment_from_any_other_base(press: Press) -> None:
    """rules K37, S77: a node that is further behind takes the full document."""
    for port in (1, 2, 3):
        press.apply(
            "kind: Route\nid: front\nspec: {organization: acme, service: web,"
            f" match: {{hosts: [www.example], port: {port}}}}}"
        )
        press.publish()
    last = press.listing()["route_policy"].config_version
    for base in (last - 2, last, last + 1):
        with pytest.raises(Refused) as refused:
            documents.increment(press.database, "node-a", "route_policy", base)
        assert refused.value.code is Code.NOT_FOUND
    late = press.reader().follow()
    assert late.holder.marks["route_policy"].config_version == last


def test_a_scope_that_a_node_may_not_hold_any_more_is_withdrawn(press: Press) -> None:
    """rules S3, S80: its head no longer lists it; and what it loses, it loses in every document."""
    reader = press.reader().follow()
    press.apply(
        STATE.replace("[core_mesh, egress_service]", "[storage_config]").replace(
            "runs_on: {nodes: [node-a]}", "runs_on: {labels: {a: b}}"
        )
    )
    press.publish()
    reader.follow()
    assert "route_policy" not in press.listing() and "service_assignment/web" not in press.listing()
    assert reader.holder.roles == {"storage_config"}
    assert all(set(held.envelope.roles) <= {"storage_config"} for held in reader.holder.active.values())


SERVICE = "kind: Service\nid: {}\nspec: {{organization: acme, runs_on: {{nodes: [{}]}}, settings: {{workers: {}}}}}"

SERVICES = 60


def many_services(changed: int = -1) -> str:
    """SERVICES of them, perhaps one with other settings."""
    return "\n---\n".join(SERVICE.format(f"s{one:03}", "node-a", 1 + (one == changed)) for one in range(SERVICES))


def test_one_service_of_many_that_changes_makes_one_document(press: Press) -> None:
    """rules S85, K21: of many on one node; the other documents stay, and travel no more."""
    press.apply(many_services())
    press.publish()
    reader = press.reader().follow()
    before = versions(press)
    assert len([scope for scope in before if scope.startswith("service_assignment/")]) == SERVICES + 1
    press.apply(many_services(changed=30))
    (made,) = press.publish().drafts
    whole = [document.scope for document in made.publication.documents if document.kind == envelope.SNAPSHOT]
    assert whole == ["service_assignment/s030"]
    assert {document.scope for document in made.publication.documents} == {"service_assignment/s030"}
    assert {scope for scope, version in versions(press).items() if version != before[scope]} == set(whole)
    reader.follow()
    assert {scope for _, scope in reader.taken} == {"head", "service_assignment/s030"}
    assert b'"workers":2' in reader.text("service_assignment/s030")


def test_a_service_that_leaves_a_node_takes_nothing_with_it_and_goes_on_where_it_was(press: Press) -> None:
    """rules S3: its scope is listed no more; come again, it has the version after its last."""
    press.apply(SERVICE.format("db", "node-a", 1))
    press.publish()
    reader = press.reader().follow()
    before = versions(press)
    press.apply(SERVICE.format("db", "node-a", 1).replace("{nodes: [node-a]}", "{labels: {rack: none}}"))
    press.publish()
    assert reader.follow().taken == [("head", "head")]
    assert versions(press) == {scope: one for scope, one in before.items() if scope != "service_assignment/db"}
    press.apply(SERVICE.format("db", "node-a", 1))
    press.publish()
    reader.follow()
    assert versions(press)["service_assignment/db"] == before["service_assignment/db"] + 1
    assert reader.taken == [("head", "head"), ("snapshot", "service_assignment/db")]


def test_a_database_with_all_services_in_one_scope_goes_over(database: Database) -> None:
    """As they were published before each had its own: the next head lists the new ones, and the old one no more."""
    press = Press.founded(database, "node-a")
    with database.read() as transaction:
        issue = published_state.read_issue(transaction, press.keys, press.settings, press.now)
        present = published_state.read_situations(transaction, ["node-a"])["node-a"]
        subject = catalog.load(transaction).subjects["node-a"]
        shared = SharedDocuments(transaction)
    sections = {"services.12": b'{"web":{"organization_id":"acme"}}'}
    old = Scope("service_assignment")
    content = ScopeContent(old, Audience(("egress_service",), ("acme",)), sections)
    made = draft(issue, present, NodeContents(subject, (old,), frozenset([old]), lambda _: content), shared)
    assert heads.publish(database, [made.publication], actor="coordinator", now=press.now) == {}
    assert set(press.listing()) == {"service_assignment", "trust_bundle"}
    press.apply(OTHER_ROUTE)
    press.publish()
    assert "service_assignment" not in press.listing()
    assert press.listing()["service_assignment/web"].config_version == 1
    reader = press.reader().follow()
    assert b'"workers":4' in reader.text("service_assignment/web")


def test_what_comes_back_goes_on_from_its_last_version(press: Press) -> None:
    """rules S3: the mark stays with the node, so numbers never come again."""
    reader = press.reader().follow()
    last = press.listing()["qos_policy"].config_version
    press.apply(STATE.replace("[core_mesh, egress_service]", "[egress_service]"))
    press.publish()
    reader.follow()
    press.apply(STATE)
    press.publish()
    reader.follow()
    assert press.listing()["qos_policy"].config_version == last + 1


# ---- what would be refused is never published


def spoilt(press: Press, **sections: bytes) -> backlog.Batch:
    """The next batch for node-a, whose route_policy holds these sections."""
    original = compiled_contents.compile_scope

    def spoiling(model, node_id, scope, read):
        content = original(model, node_id, scope, read)
        return content if scope.name != "route_policy" else replace(content, sections=sections)

    compiled_contents.compile_scope = spoiling
    try:
        press.kept.note_failure("node-a")
        return press.prepare("node-a")
    finally:
        compiled_contents.compile_scope = original


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"routes": b'{"r":{"password":"hunter2"}}'}, "raw_secret"),
        ({"routes": b'{"r":{"organization_id":"wayne"}}'}, "unrelated_organization"),
        ({"routes": b'{"r":{"query_grants":[]}}'}, "bad_content"),
        ({"routes": b'{"b":1,"a":1}'}, "bad_content"),
        ({"routes": b'"' + b"x" * (1 << 20) + b'"'}, "too_large"),
    ],
)
def test_what_a_node_would_refuse_is_not_published(press: Press, sections: dict, reason: str) -> None:
    """rules S69, S78, S79, S23: the scope stays as it was, the others go on."""
    before = press.listing()
    (made,) = spoilt(press, **sections).drafts
    assert made.failed["route_policy"].reason == reason
    assert made.publication.listing["route_policy"] == before["route_policy"]
    assert made.publication.documents == ()


def test_a_key_that_no_node_trusts_signs_nothing(press: Press) -> None:
    """rules S72, S37"""
    press.keys = (SigningKey.generate(),)
    press.apply(OTHER_ROUTE)
    batch = press.prepare()
    assert {fault.reason for fault in batch.unsigned.values()} == {"no_signer"} and batch.drafts == ()


def test_a_signature_that_does_not_verify_goes_nowhere(press: Press) -> None:
    """rules S72"""
    other = SigningKey.generate()
    press.keys = (SigningKey(press.bundles.config.key_id, "ed25519", press.bundles.config.public_key, other._private),)
    press.apply(OTHER_ROUTE)
    assert {fault.reason for fault in press.prepare().unsigned.values()} == {"bad_signature"}


def test_a_revoked_signer_signs_nothing_more(press: Press) -> None:
    """rules S82: revoked by the next bundle."""
    press.add_bundle(
        keys=(press.bundles.config, new := SigningKey.generate()), statuses={press.bundles.config.key_id: "revoked"}
    )
    assert {fault.reason for fault in press.prepare().unsigned.values()} == {"no_signer"}
    press.keys = (press.bundles.config, new)
    press.publish()
    assert [key_id for key_id, _ in documents.head(press.database, "node-a").signatures] == [new.key_id]


def lose_sections(press: Press, scope: str) -> None:
    """As a disk does: the bytes of what node-a has of a scope are gone from the database."""
    sections = schema.document_sections
    mine = select(sections.c.object_key).where(sections.c.snapshot_id == press.listing()[scope].snapshot_id)
    with press.database.record(now=press.now) as transaction:
        assert transaction.run(delete(schema.objects).where(schema.objects.c.key.in_(mine))) > 0


def test_what_the_database_has_lost_keeps_back_its_scope_and_nothing_else(press: Press) -> None:
    """The file of one Config: every other scope, of this node and of others, is renewed in time."""
    press.apply("{kind: Config, id: edge, spec: {to: {nodes: [node-a]}, files: {motd: {text: hello}}}}")
    press.publish()
    lose_sections(press, "config/edge")
    before, press.now = press.listing(), press.now + press.settings.snapshot_refresh_s
    failed = {each.publication.node_id: each.failed for each in press.publish().drafts}
    assert {node_id: list(scopes) for node_id, scopes in failed.items()} == {"node-a": ["config/edge"], "node-b": []}
    assert failed["node-a"]["config/edge"].reason == Code.NOT_FOUND.value
    after = press.listing()
    assert after["config/edge"] == before["config/edge"]
    assert after["route_policy"].config_version > before["route_policy"].config_version


def test_sections_that_go_while_their_document_is_signed_are_not_announced(press: Press) -> None:
    """What is trimmed in between: nothing is listed that nobody could be handed."""
    press.apply("{kind: Config, id: edge, spec: {to: {nodes: [node-a]}, files: {motd: {text: hello}}}}")
    batch, before = press.prepare(), press.listing()
    key = documents.section_key(hashlib.sha256(b"hello").hexdigest())
    with press.database.record(now=press.now) as transaction:
        transaction.run(delete(schema.objects).where(schema.objects.c.key == key))
    publications = [each.publication for each in batch.drafts]
    refused = heads.publish(press.database, publications, actor="coordinator", now=press.now)
    assert {node_id: each.code for node_id, each in refused.items()} == {"node-a": Code.CONFLICT}
    assert key in refused["node-a"].detail and press.listing() == before
    uploads.add_all(press.database, [b"hello"], now=press.now)
    press.publish()
    assert press.reader().follow().text("config/edge").endswith(b"hello")


def test_what_could_not_be_made_anew_is_tried_again_with_the_next_head(press: Press) -> None:
    """rules P1: a fault that is over by then, as of a disk or of a device that signs, keeps no change from its node."""
    press.apply(edge("hello"))
    press.publish()
    press.apply(edge("bye"))
    lost = documents.section_key(hashlib.sha256(b"bye").hexdigest())
    with press.database.record(now=press.now) as transaction:
        transaction.run(delete(schema.objects).where(schema.objects.c.key == lost))
    for _ in range(2):
        (failed,) = [each.failed for each in press.publish().drafts if each.publication.node_id == "node-a"]
        assert list(failed) == ["config/edge"] and failed["config/edge"].reason == Code.NOT_FOUND.value
        press.now += press.settings.head_refresh_s
    uploads.add_all(press.database, [b"bye"], now=press.now)
    assert [dict(each.failed) for each in press.publish().drafts] == [{}, {}]
    assert press.reader().follow().text("config/edge").endswith(b"bye")
    press.now += press.settings.head_refresh_s
    assert all(each.publication.but == () for each in press.prepare().drafts)
    assert press.kept.changed == {}


def edge(text: str) -> str:
    return f"{{kind: Config, id: edge, spec: {{to: {{nodes: [node-a]}}, files: {{motd: {{text: {text}}}}}}}}}"


def test_a_base_that_the_database_has_lost_is_followed_by_the_whole(press: Press) -> None:
    reader = press.reader().follow()
    lose_sections(press, "route_policy")
    press.apply(STATE.replace("www.example", "shop.example"))
    assert [dict(each.failed) for each in press.publish().drafts] == [{}, {}]
    assert ("snapshot", "route_policy") in reader.follow().taken
    assert b"shop.example" in reader.text("route_policy")


def test_without_a_trust_bundle_nothing_is_published(database: Database) -> None:
    from tests.coordinator import candidates

    candidates.found(database)
    candidates.admit(database, "node-a")
    with pytest.raises(Unpublishable, match="no_trust_bundle"):
        Press(database).prepare()


def test_an_expired_trust_bundle_is_the_end_of_publishing(press: Press) -> None:
    """rules S75: nobody could verify what is signed."""
    press.now += 90 * DAY
    assert {fault.reason for fault in press.prepare().unsigned.values()} == {"trust_bundle_too_old"}


# ---- keys


def test_while_a_key_is_rolled_over_both_sign_and_a_retiring_one_does_not(press: Press) -> None:
    """rules S36, S40, S39"""
    old, new = press.bundles.config, SigningKey.generate()
    reader = press.reader().follow()
    press.keys = (old, new)
    press.add_bundle(keys=(old, new))
    press.publish()
    assert {key_id for key_id, _ in documents.head(press.database, "node-a").signatures} == {old.key_id, new.key_id}
    reader.follow()
    press.add_bundle(keys=(old, new), statuses={old.key_id: RETIRING})
    press.publish()
    assert [key_id for key_id, _ in documents.head(press.database, "node-a").signatures] == [new.key_id]
    reader.follow()


# ---- time


def test_a_head_is_issued_again_before_it_expires_and_nothing_else(press: Press) -> None:
    """rules S85, K20"""
    reader, before = press.reader().follow(), versions(press)
    press.now += press.settings.head_refresh_s - 1
    generation = reader.holder.marks["head"].config_version
    press.now += 1
    assert press.due() == ["node-a", "node-b"]
    press.publish()
    assert versions(press) == before
    reader.follow()
    assert reader.holder.marks["head"].config_version == generation + BLOCK
    assert reader.taken == [("head", "head")]


def test_a_head_of_a_few_seconds_is_issued_again_before_it_expires(database: Database) -> None:
    """rules, Numbers: head lifetime, refresh at half; also where that is sooner than a scope is tried again."""
    press = Press.founded(database, "node-a")
    press.settings = replace(press.settings, head_lifetime_s=12, short_lifetimes=True, poll_after_s=5)
    press.publish()
    press.now += press.settings.head_refresh_s
    assert press.due() == ["node-a"]


def test_a_snapshot_is_renewed_under_a_new_version_long_before_it_expires(press: Press) -> None:
    """rules S85: the renewal is an increment without changes, of a few hundred bytes."""
    reader, before = press.reader().follow(), press.listing()
    press.now += press.settings.snapshot_refresh_s
    press.publish()
    after = press.listing()
    for scope in set(after) - {"trust_bundle"}:
        assert after[scope].config_version > before[scope].config_version
        assert after[scope].content_hash == before[scope].content_hash
        assert parsed(press.document(scope)).expires_at == int(press.now) + press.settings.snapshot_lifetime_s
    reader.follow()
    assert reader.holder.active["route_policy"].envelope.issued_at == int(press.now) - CLOCK_SKEW_S


def test_a_config_is_renewed_as_everything_else(press: Press) -> None:
    """Its increment brings the index also where nothing changes (format.md 11)."""
    text = "hello " * 1_000
    press.apply(f"{{kind: Config, id: edge, spec: {{to: {{nodes: [node-a]}}, files: {{motd: {{text: '{text}'}}}}}}}}")
    press.publish()
    reader, before = press.reader().follow(), press.listing()["config/edge"]
    press.now += press.settings.snapshot_refresh_s
    assert [each.failed for each in press.publish().drafts] == [{}, {}]
    after = press.listing()["config/edge"]
    assert (after.content_hash, after.config_version > before.config_version) == (before.content_hash, True)
    assert ("increment", "config/edge") in reader.follow().taken


def test_a_node_whose_clock_is_behind_takes_what_is_signed_at_once(press: Press) -> None:
    """format.md 7, step 7: `valid_from` must be reached; rules, Numbers: clock skew."""
    reader = press.reader().follow()
    press.now += HOUR
    press.apply(OTHER_ROUTE)
    press.publish()
    press.now -= CLOCK_SKEW_S
    reader.follow()
    assert b"back.example" in reader.text("route_policy")


def test_heads_are_due_when_one_of_their_documents_is(database: Database) -> None:
    press = Press.founded(database, "node-a")
    press.settings = replace(press.settings, head_lifetime_s=DAY, snapshot_refresh_s=HOUR, snapshot_lifetime_s=DAY)
    press.publish()
    press.now += HOUR
    assert press.due() == ["node-a"]
    press.publish()
    assert parsed(press.document("node_runtime")).issued_at == int(press.now) - CLOCK_SKEW_S


def test_issued_at_never_goes_back(press: Press) -> None:
    """rules K47: with the clock behind, the last value is used."""
    press.now += HOUR
    press.apply(OTHER_ROUTE)
    press.publish()
    last = parsed(press.document("route_policy")).issued_at
    press.now -= 200
    press.apply(STATE)
    press.publish()
    assert parsed(press.document("route_policy")).issued_at == last == int(press.now) + 200 - CLOCK_SKEW_S


def test_a_clock_that_was_ahead_for_a_while_publishes_nothing_that_a_node_refuses(press: Press) -> None:
    """rules K47, threats V17: judged at the real time; a raised epoch, dated by the right clock, is the way back"""
    reader = press.reader().follow()
    press.now += 100_000
    press.apply(OTHER_ROUTE)
    press.publish()
    press.now -= 100_000
    press.apply(STATE)
    before = press.listing()
    with pytest.raises(Refused) as found:
        press.prepare("node-a")
    assert found.value.code is Code.CLOCK_BEHIND and press.listing() == before
    press.add_bundle(epoch=2)
    press.publish()
    reader.follow()
    assert reader.holder.marks["head"].authority_epoch == 2
    assert reader.holder.active["route_policy"].envelope.issued_at <= press.now


# ---- epochs, recoveries, revocations


def test_a_higher_epoch_brings_full_snapshots_of_everything(press: Press) -> None:
    """rules S24, K41, P30: so that they are above whatever nodes hold of the epoch before."""
    reader = press.reader().follow()
    press.add_bundle(epoch=2)
    press.publish()
    assert {entry.authority_epoch for scope, entry in press.listing().items() if scope != "trust_bundle"} == {2}
    reader.follow()
    assert {kind for kind, _ in reader.taken} == {"snapshot", "head"}


def test_a_revoked_node_gets_the_head_that_names_it_and_nothing_else(press: Press) -> None:
    """rules K22, K54"""
    from coordinator.membership import revocation

    reader = press.reader().follow()
    revocation.revoke_node(press.database, "node-a", reason="stolen", actor="root", now=press.now)
    press.publish()
    reader.follow()
    assert set(press.listing()) == {"trust_bundle"}
    assert reader.holder.revocations.node_ids == {"node-a"}
    other = press.reader("node-b").follow()
    assert other.holder.revocations.node_ids == {"node-a"}


# ---- several coordinators


def test_two_coordinators_never_publish_two_contents_under_one_version(press: Press, second: Database) -> None:
    """rules X16, K21: who comes second gets `conflict`, compiles again, and has nothing more to say."""
    other = Press(second, press.now, press.settings, press.bundles)
    press.apply(OTHER_ROUTE)
    mine, theirs = press.prepare("node-a"), other.prepare("node-a")
    first = mine.drafts[0].publication
    late = theirs.drafts[0].publication
    assert heads.publish(press.database, [first], actor="coordinator", now=press.now) == {}
    refused = heads.publish(second, [late], actor="coordinator", now=press.now)
    assert refused["node-a"].code is Code.CONFLICT
    assert press.listing()["route_policy"] == first.listing["route_policy"]
    (again,) = other.prepare("node-a").drafts
    assert again.publication.documents == ()


def test_a_head_that_is_written_from_the_one_before_it_is_what_it_would_be_without(press: Press) -> None:
    """rules S69, S85: what is left is listed as it was, what changed as it is now, with the marks of the changes."""
    press.publish()
    reader = press.reader().follow()
    for number in range(2, 5):
        before, text = press.listing(), kept_text(press)
        change = press.change(OTHER_ROUTE.replace("back.example", f"back{number}.example")).record.change_id
        press.move(change, Step.RELEASED)
        (draft,) = [one for one in press.prepare().drafts if one.publication.node_id == "node-a"]
        assert draft.publication.same_as is not None
        assert draft.publication.but == ("route_policy",)
        press.publish()
        listing = press.listing()
        assert {scope for scope, entry in listing.items() if before.get(scope) != entry} == {"route_policy"}
        assert kept_text(press) == documents.listing_text(listing) != text
        told = press.head().scopes
        assert {scope for scope, entry in told.items() if entry.change} == {"route_policy"}
        assert told["route_policy"].change == f"c-{change}"
        reader.follow()
        press.become(change, ChangeState.DONE)


@pytest.mark.parametrize("also", ["", OTHER_ROUTE])
def test_what_a_head_lists_is_not_taken_from_a_text_that_was_altered(press: Press, also: str) -> None:
    """rules S69: by whoever can write to the database; neither a renewal nor an amendment is made of it."""
    press.publish()
    reader, before = press.reader().follow(), press.listing()
    less = {scope: entry for scope, entry in before.items() if scope != "qos_policy"}
    mine = schema.heads.c.node_id == "node-a"
    with press.database.record(now=press.now) as transaction:
        transaction.run(update(schema.heads).where(mine).values(listing=documents.listing_text(less)))
    if also:
        press.apply(also)
    press.now += press.settings.head_refresh_s
    press.publish()
    assert press.head().scopes.keys() == press.listing().keys() == before.keys()
    reader.follow()
    assert press.listing()["qos_policy"] == before["qos_policy"]


@dataclass
class CountingReviewer(Reviewer):
    """`most`: lines by which a head was said to differ from the one before it."""

    most: int = 0

    def review_head(self, document: SignedDocument, holder: VerifierState, now: float, meant: MeantHead) -> bytes:
        self.most = max(self.most, len(meant.lines))
        return super().review_head(document, holder, now, meant)


def test_a_head_of_which_many_lines_change_is_written_anew(press: Press) -> None:
    """Each is looked for in all of the text: of a change of a thousand scopes that is over, 50 ms for each node."""
    folders = "---\n".join(
        f"{{kind: Config, id: c{number}, spec: {{to: {{nodes: [node-a]}}, files: {{motd: {{text: hello}}}}}}}}\n"
        for number in range(MOST_REPLACED + 1)
    )
    press.apply(folders)
    press.publish()
    change = press.change(folders.replace("hello", "bye")).record.change_id
    press.move(change, Step.RELEASED)
    press.publish()
    assert sum(entry.change is not None for entry in press.head().scopes.values()) == MOST_REPLACED + 1
    press.become(change, ChangeState.DONE)
    press.kept.reviewer, before, text = CountingReviewer(), press.listing(), kept_text(press)
    press.now += press.settings.head_refresh_s
    press.publish()
    assert press.kept.reviewer.most <= MOST_REPLACED
    assert not any(entry.change for entry in press.head().scopes.values())
    assert (press.listing(), kept_text(press)) == (before, text)
    press.reader().follow()


def kept_text(press: Press) -> str:
    with press.database.read() as transaction:
        row = transaction.row(select(schema.heads.c.listing).where(schema.heads.c.node_id == "node-a"))
    return row.listing

"""What a node is told while changes keep it back: what it has, renewed; what is coming; and then just that."""

import hashlib
import json
from dataclasses import replace

import pytest
from sqlalchemy import delete, update

from coordinator.base.refusal import Code
from coordinator.changes import records
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.states import ChangeState, Step
from coordinator.changes.undoing import UndoneModels
from coordinator.database import catalog, documents, schema, uploads
from coordinator.database.database import Database
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import revocation
from coordinator.publishing import heads, published_state
from coordinator.publishing.gates import Gates, NodeGate
from coordinator.runtime import retention
from snapshot.bundle import RETIRING
from tests.coordinator.candidates import admit, cut_out
from tests.coordinator.picky import Picky
from tests.coordinator.publishing import DAY, HOUR, STATE, Press

WEB, ROUTES = "service_assignment/web", "route_policy"
SERVICE = (
    "kind: Service\nid: {id}\nspec: {{organization: acme, runs_on: {{nodes: [{nodes}]}}, settings: {{workers: {n}}}}}"
)
WEB_9 = SERVICE.format(id="web", nodes="node-a", n=9)
WEB_10 = SERVICE.format(id="web", nodes="node-a", n=10)


@pytest.fixture
def press(database: Database) -> Press:
    """Two members that have been published to once."""
    return Press.published(database, "node-a", "node-b")


def workers(press: Press, node_id: str = "node-a") -> int:
    """As the node is told, once its verifier has taken all of it."""
    found = press.section(WEB, "services", node_id)["web"]["settings"]["workers"]
    return int(found)


def pass_by(press: Press, seconds: float, step_s: float = 12 * HOUR) -> None:
    """Publishing whatever is due, in steps that are longer than a head's refresh: nobody asks in between."""
    until = press.now + seconds
    while press.now < until:
        press.now = min(until, press.now + step_s)
        press.publish()


# ---- held


def test_a_long_row_of_changes_each_in_the_place_of_the_one_before(press: Press) -> None:
    """As of a pipeline that applies each few minutes while a ring stands halted for days."""
    count = 1_200
    made = ChangeRecord(count, press.now, "x", "", ChangeState.SUPERSEDED, "", "", (), settled_at=press.now)
    standing = {each: replace(made, change_id=each, superseded_by=each + 1) for each in range(1, count)}
    row = ChangeNode(count, "node-a", (ROUTES,), step=Step.RELEASED)
    with press.database.read() as transaction:
        model, read = catalog.load(transaction), published_state.reader(transaction)
        rows = {"node-a": [row]}
        gates = Gates(transaction, model, UndoneModels(), read, {**standing, count: made}, rows, ["node-a"])
        assert gates.of("node-a", ()) == NodeGate(model)


def test_who_is_held_back_is_told_what_it_was_told(press: Press) -> None:
    before = press.listing()
    press.change(WEB_9)
    assert press.due() == []
    press.now += press.settings.head_refresh_s
    press.publish()
    assert press.listing() == before
    assert (workers(press), press.candidates()) == (4, {})


def test_what_it_has_is_renewed_for_as_long_as_that_takes(press: Press) -> None:
    """Weeks, with a change that stands halted: nothing runs into its end, and nothing of the change comes through.

    Who publishes seldom has fewer chances to renew.
    """
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    pass_by(press, HOUR)
    press.become(1, ChangeState.HALTED)
    press.move(1, Step.HELD)
    reader = press.reader().follow()
    for _ in range(14):
        pass_by(press, DAY)
        reader.follow()
        ends = [held.envelope.expires_at for scope, held in reader.holder.active.items() if scope != "head"]
        assert min(ends) > press.now + DAY
    assert workers(press) == 4
    press.become(1, ChangeState.ROLLING)
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert workers(press) == 9


def test_what_else_changes_reaches_it(press: Press) -> None:
    """Another change, a new peer, a revocation: the model is the declared one, but for what is held back."""
    press.change(WEB_9)
    press.apply("kind: Route\nid: back\nspec: {organization: acme, service: web, match: {hosts: [back.example]}}")
    admit(press.database, "node-c")
    press.apply("kind: Node\nid: node-c\nspec: {roles: [core_mesh]}")
    press.publish()
    reader = press.reader().follow()
    assert b"back.example" in reader.text(ROUTES) and b"node-c" in reader.text("peer_directory")
    revocation.revoke_node(press.database, "node-c", reason="stolen", actor="x", now=press.now)
    press.publish()
    reader.follow()
    assert b"node-c" not in reader.text("peer_directory") and "node-c" in reader.holder.revocations.node_ids
    assert workers(press) == 4


def test_what_is_withdrawn_stays_until_it_is_released(press: Press) -> None:
    press.change(WEB_9.replace("{nodes: [node-a]}", "{labels: {a: b}}"))
    press.move(1, Step.OFFERED)
    press.publish()
    assert WEB in press.listing() and press.candidates() == {}
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert WEB not in press.listing()


def test_it_is_the_same_at_every_replica_and_after_a_start(press: Press, second: Database) -> None:
    press.change(WEB_9)
    other = Press(second, press.now, press.settings, press.bundles)
    other.now += press.settings.head_refresh_s
    for draft in other.prepare("node-a", "node-b").drafts:
        assert draft.publication.documents == ()


# ---- offered


def test_what_is_offered_is_announced_beside_what_it_has(press: Press) -> None:
    """Signed, judged as a node judges it, and named with its change."""
    reader, before = press.reader().follow(), press.listing()
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    head = press.head()
    assert press.listing() == before and set(head.candidates) == {WEB}
    (listed,) = head.candidates.values()
    assert (listed.change, listed.probation_s, listed.allowed) == ("c-1", 30, None)
    assert listed.config_version == before[WEB].config_version + 1
    assert head.scopes[WEB].change is None
    assert b'"workers":9' in reader.follow().judge()[WEB]
    assert reader.taken == [("head", "head")]


def test_it_comes_as_an_increment_from_what_is_listed(press: Press) -> None:
    many = "\n---\n".join(
        f"kind: Route\nid: r{n}\nspec: {{organization: acme, service: web, match: {{hosts: [h{n}.example]}}}}"
        for n in range(90)
    )
    press.apply(many)
    press.publish()
    reader = press.reader().follow()
    press.change("kind: Route\nid: r7\nspec: {organization: acme, service: web, match: {hosts: [new.example]}}")
    press.move(1, Step.OFFERED)
    press.publish()
    reader.follow().judge()
    assert reader.brought == ["increment"]
    pass_by(press, press.settings.snapshot_refresh_s)
    reader.follow().judge()
    assert ("increment", ROUTES) in reader.taken and reader.brought == ["increment"]
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert ("increment", ROUTES) in reader.follow().taken
    assert b"new.example" in reader.text(ROUTES)


def test_a_renewal_goes_below_a_candidate_that_is_signed_anew(press: Press) -> None:
    """Numbers rise for both; the content of the candidate is the one that was voted on."""
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    reader = press.reader().follow()
    reader.judge()
    first, coming = press.listing()[WEB], press.candidates()[WEB]
    pass_by(press, press.settings.snapshot_refresh_s)
    listed, anew = press.listing()[WEB], press.candidates()[WEB]
    assert first.pair < coming.pair < listed.pair < anew.pair
    assert (listed.content_hash, anew.content_hash) == (first.content_hash, coming.content_hash)
    assert set(reader.follow().judge()) == {WEB}


def test_what_is_no_longer_offered_is_announced_no_more(press: Press) -> None:
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    first = press.candidates()[WEB]
    press.move(1, Step.HELD)
    press.publish()
    assert (press.candidates(), press.head().candidates) == ({}, {})
    press.move(1, Step.OFFERED)
    press.publish()
    assert press.candidates()[WEB].pair > first.pair


def test_who_cannot_judge_is_offered_nothing(press: Press) -> None:
    """It gets the change when it is its turn; an agent that learns to is offered it."""
    picky = Picky(press)
    picky.follow().report(features=["config"])
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    assert press.candidates() == {}
    picky.report(features=["candidates", "config"])
    press.publish()
    assert set(press.candidates()) == {WEB}
    picky.report(features=["config"])
    press.publish()
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert workers(press) == 9


def test_a_candidate_that_cannot_be_made_is_said_and_keeps_nothing_else_back(press: Press) -> None:
    """Its bytes are lost; what the node has is renewed, and another change reaches it."""
    config = "kind: Config\nid: edge\nspec: {{to: {{nodes: [node-a]}}, files: {{motd: {{text: {text}}}}}}}"
    press.apply(config.format(text="one"))
    press.publish()
    press.change(config.format(text="two"))
    press.move(1, Step.OFFERED)
    with press.database.record(now=press.now) as transaction:
        key = documents.section_key(hashlib.sha256(b"two").hexdigest())
        transaction.run(delete(schema.objects).where(schema.objects.c.key == key))
    press.apply(WEB_9)
    (draft,) = press.publish().drafts
    assert list(draft.failed) == ["config/edge as a candidate"]
    assert (workers(press), press.candidates()) == (9, {})
    uploads.add_all(press.database, [b"two"], now=press.now)
    pass_by(press, press.settings.head_refresh_s)
    assert set(press.candidates()) == {"config/edge"}


# ---- released


def test_what_was_judged_is_what_is_listed(press: Press) -> None:
    """The same document; nothing is signed but the head."""
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    coming = press.candidates()[WEB]
    press.move(1, Step.RELEASED, ring=1)
    (draft,) = press.publish().drafts
    assert draft.publication.documents == ()
    assert (press.listing()[WEB], press.candidates()) == (coming, {})
    listed = press.head().scopes[WEB]
    assert (listed.change, listed.probation_s) == ("c-1", 30)
    assert workers(press) == 9
    press.become(1, ChangeState.DONE)
    pass_by(press, press.settings.head_refresh_s)
    assert (press.head().scopes[WEB].change, press.listing()[WEB]) == (None, coming)


def test_what_is_due_by_then_is_signed_anew(press: Press) -> None:
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    coming = press.candidates()[WEB]
    press.now += press.settings.snapshot_refresh_s
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert press.listing()[WEB].pair > coming.pair
    assert press.listing()[WEB].content_hash == coming.content_hash
    assert workers(press) == 9


def test_without_having_been_offered(press: Press) -> None:
    """A policy that asks nobody."""
    press.change(WEB_9)
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert workers(press) == 9


def test_a_plan_that_was_let_pass_is_named(press: Press) -> None:
    allowed = press.propose(WEB_9).plan_hash
    assert press.change(WEB_9, allow=allowed).record.allowed
    press.move(1, Step.OFFERED)
    press.publish()
    assert press.head().candidates[WEB].allowed == allowed


# ---- what the node itself is


def test_a_role_comes_with_the_change(press: Press) -> None:
    """Documents of both sides fit the node as it is at the time; candidates are judged as it would be."""
    reader = press.reader("node-b").follow()
    press.change("kind: Node\nid: node-b\nspec: {roles: [core_mesh, ingress], organizations: [acme]}")
    press.move(1, Step.OFFERED, "node-b")
    press.publish()
    reader.follow()
    assert reader.holder.roles == {"ingress"} and "peer_directory" not in press.listing("node-b")
    assert {"node_runtime", "peer_directory", "qos_policy"} <= set(press.candidates("node-b"))
    assert {"node_runtime", "peer_directory"} <= set(reader.judge())
    pass_by(press, 2 * DAY)
    reader.follow().judge()
    press.move(1, Step.RELEASED, "node-b", ring=1)
    press.publish()
    reader.follow()
    assert reader.holder.roles == {"core_mesh", "ingress"} and "peer_directory" in reader.holder.active


def test_a_role_that_goes_stays_with_all_that_it_grants(press: Press) -> None:
    reader = press.reader().follow()
    press.change(STATE.replace("[core_mesh, egress_service]", "[egress_service]"))
    press.move(1, Step.OFFERED)
    pass_by(press, 2 * DAY)
    reader.follow()
    assert reader.holder.roles == {"core_mesh", "egress_service"} and "qos_policy" in press.listing()
    press.move(1, Step.RELEASED, "node-a", ring=1)
    press.publish()
    reader.follow()
    assert reader.holder.roles == {"egress_service"} and "qos_policy" not in press.listing()


# ---- shared documents

NODES = ("node-a", "node-b", "node-c")


def edge(text: str, to: str = "{roles: [core_mesh]}") -> str:
    """One file that stays as it is, and one that is another."""
    files = f"{{motd: {{text: '{'hello ' * 300}'}}, conf: {{text: '{text}'}}}}"
    return f"kind: Config\nid: edge\nspec: {{to: {to}, files: {files}}}"


@pytest.fixture
def fleet(database: Database) -> Press:
    """Three nodes of one role, with a Config."""
    nodes = "\n---\n".join(f"kind: Node\nid: {node_id}\nspec: {{roles: [core_mesh]}}" for node_id in NODES)
    cluster = "{kind: Cluster, id: prod, spec: {coordinators: ['https://localhost:7443']}}"
    return Press.published(database, *NODES, also=f"{cluster}\n---\n{nodes}\n---\n{edge('one')}", prune=True)


def test_one_candidate_is_everybody_s(fleet: Press) -> None:
    """Signed once, with one increment; released, it is listed as it is, by whoever it is released to."""
    fleet.change(edge("two"))
    fleet.move(1, Step.OFFERED)
    batch = fleet.publish()
    made = {document.snapshot_id: document.kind for draft in batch.drafts for document in draft.publication.documents}
    assert sorted(made.values()) == ["increment", "snapshot"]
    (coming,) = {fleet.candidates(node_id)["config/edge"] for node_id in NODES}
    for number, node_id in enumerate(NODES):
        fleet.move(1, Step.RELEASED, node_id, ring=1)
        assert [draft.publication.documents for draft in fleet.publish().drafts] == [()]
        assert [fleet.listing(each)["config/edge"] == coming for each in NODES] == [
            place <= number for place in range(len(NODES))
        ]


def test_the_old_content_is_renewed_once_for_all_and_the_new_one_above_it(fleet: Press) -> None:
    fleet.change(edge("two"))
    fleet.move(1, Step.OFFERED)
    fleet.publish()
    fleet.move(1, Step.RELEASED, "node-b", ring=1)
    fleet.publish()
    reader = fleet.reader().follow()
    reader.judge()
    signed: set[str] = set()
    until = fleet.now + fleet.settings.snapshot_refresh_s
    while fleet.now < until:
        fleet.now += 4 * fleet.settings.head_refresh_s
        for draft in fleet.publish().drafts:
            documents_ = draft.publication.documents
            signed |= {
                made.snapshot_id for made in documents_ if (made.kind, made.scope) == ("snapshot", "config/edge")
            }
    assert len(signed) == 2, "the old content, and the new one"
    assert fleet.listing("node-a")["config/edge"] == fleet.listing("node-c")["config/edge"]
    assert fleet.candidates("node-a") == fleet.candidates("node-c")
    (coming,) = fleet.candidates("node-a").values()
    assert fleet.listing("node-b")["config/edge"] == coming
    reader.follow().judge()
    assert ("increment", "config/edge") in reader.taken and reader.brought == ["increment"]


def test_two_coordinators_offer_the_same_at_once(fleet: Press, second: Database) -> None:
    """The second one finds the document of the first."""
    fleet.change(edge("two"))
    fleet.move(1, Step.OFFERED)
    other = Press(second, fleet.now, fleet.settings, fleet.bundles)
    mine, theirs = fleet.prepare("node-a", "node-b"), other.prepare("node-b", "node-c")
    put_out(fleet, *mine.drafts)
    refused = put_out(other, *theirs.drafts)
    assert {node_id: one.code for node_id, one in refused.items()} == dict.fromkeys(["node-b", "node-c"], Code.CONFLICT)
    other.publish()
    assert len({fleet.candidates(node_id)["config/edge"] for node_id in NODES}) == 1


def put_out(press: Press, *drafts):
    return heads.publish(press.database, [each.publication for each in drafts], actor="coordinator", now=press.now)


# ---- who comes meanwhile


def test_who_joins_gets_what_is_proven(fleet: Press) -> None:
    """And waits for the change as one of its nodes, among the last."""
    fleet.apply(
        edge("one", to="{labels: {}, nodes: [node-a, node-b, node-c, node-d]}")
        + "\n---\nkind: Node\nid: node-d\nspec: {roles: [core_mesh]}"
    )
    fleet.publish()
    fleet.change(edge("two", to="{labels: {}, nodes: [node-a, node-b, node-c, node-d]}"))
    fleet.move(1, Step.OFFERED)
    fleet.publish()
    fleet.move(1, Step.RELEASED, "node-a", ring=1)
    admit(fleet.database, "node-d")
    fleet.publish()
    assert fleet.listing("node-d")["config/edge"] == fleet.listing("node-b")["config/edge"]
    with fleet.database.read() as transaction:
        rows = {row.node_id: row for row in records.nodes_of(transaction, 1)}
    assert (rows["node-d"].step, rows["node-d"].scopes, rows["node-d"].ring) == (Step.HELD, ("config/edge",), None)
    fleet.move(1, Step.OFFERED, "node-d")
    fleet.publish()
    assert fleet.candidates("node-d") == fleet.candidates("node-b")
    fleet.move(1, Step.RELEASED, ring=2)
    fleet.publish()
    assert len({fleet.listing(node_id)["config/edge"] for node_id in (*NODES, "node-d")}) == 1


def test_who_is_given_a_scope_meanwhile_gets_what_is_proven_of_it(fleet: Press) -> None:
    """By a change of its own, which nobody is held back from; of the two, c-1 keeps it."""
    fleet.apply(
        edge("one", to="{labels: {tier: edge}}")
        + "\n---\nkind: Node\nid: node-a\nspec: {roles: [core_mesh], labels: {tier: edge}}"
    )
    fleet.publish()
    fleet.change(edge("two", to="{labels: {tier: edge}}"))
    fleet.apply("kind: Node\nid: node-b\nspec: {roles: [core_mesh], labels: {tier: edge}}")
    fleet.publish()
    assert fleet.listing("node-b")["config/edge"].content_hash == fleet.listing("node-a")["config/edge"].content_hash
    with fleet.database.read() as transaction:
        assert [row.node_id for row in records.nodes_of(transaction, 1)] == ["node-a", "node-b"]


def test_a_change_that_is_over_meanwhile_takes_no_row(fleet: Press) -> None:
    """Prepared before it was done, published after: made again, and the node has all of it."""
    fleet.apply("kind: Node\nid: node-d\nspec: {roles: [core_mesh]}")
    fleet.change(edge("two"))
    fleet.move(1, Step.RELEASED, ring=1)
    fleet.publish()
    admit(fleet.database, "node-d")
    batch = fleet.prepare("node-d")
    assert [row.change_id for draft in batch.drafts for row in draft.publication.rows] == [1]
    fleet.become(1, ChangeState.DONE)
    assert {one.code for one in put_out(fleet, *batch.drafts).values()} == {Code.CONFLICT}
    fleet.publish()
    assert fleet.listing("node-d")["config/edge"] == fleet.listing("node-a")["config/edge"]


def test_who_leaves_and_comes_back(press: Press) -> None:
    """A node that was removed is no part of the change any more; readmitted, it is again."""
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    cut_out(press.database, "node-a", reason="moved", actor="x", now=press.now)
    with press.database.read() as transaction:
        assert records.nodes_of(transaction, 1) == []
    assert press.due() == []
    with press.database.change(actor="x", now=press.now) as transaction:
        transaction.audit("x", "y")
        for table in (schema.tombstones, schema.retired_certificates):
            transaction.run(table.delete())
    admit(press.database, "node-a")
    press.publish()
    assert workers(press) == 4
    with press.database.read() as transaction:
        (row,) = records.nodes_of(transaction, 1)
    assert (row.node_id, row.step) == ("node-a", Step.HELD) and WEB in row.scopes


# ---- several changes


def test_independent_changes_go_each_their_way(press: Press) -> None:
    press.apply(SERVICE.format(id="db", nodes="node-a", n=1))
    press.publish()
    press.change(WEB_9)
    press.change(SERVICE.format(id="db", nodes="node-a", n=2))
    press.move(1, Step.OFFERED)
    press.move(2, Step.OFFERED)
    press.publish()
    changes = {scope: entry.change for scope, entry in press.head().candidates.items()}
    assert changes == {WEB: "c-1", "service_assignment/db": "c-2"}
    press.move(2, Step.RELEASED, ring=1)
    press.publish()
    assert {scope: entry.change for scope, entry in press.head().scopes.items() if entry.change} == {
        "service_assignment/db": "c-2"
    }
    assert (workers(press), set(press.candidates())) == (4, {WEB})


def test_what_waits_for_another_comes_after_it(press: Press) -> None:
    press.change(WEB_9)
    press.change(WEB_10)
    press.move(1, Step.OFFERED)
    press.publish()
    assert b'"workers":9' in press.reader().follow().judge()[WEB]
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert workers(press) == 9
    press.become(1, ChangeState.DONE)
    press.move(2, Step.OFFERED)
    press.publish()
    assert workers(press) == 9
    press.move(2, Step.RELEASED, ring=1)
    press.publish()
    assert workers(press) == 10


def test_a_superseded_one_is_never_seen(press: Press) -> None:
    """Its nodes go on with what they had before both."""
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    press.become(1, ChangeState.HALTED)
    press.change(WEB_10)
    press.publish()
    assert (workers(press), press.candidates()) == (4, {})
    press.move(2, Step.OFFERED)
    press.publish()
    assert b'"workers":10' in press.reader().follow().judge()[WEB]
    press.move(2, Step.RELEASED, ring=1)
    press.publish()
    assert workers(press) == 10


def test_what_is_taken_back_goes_where_it_came_from(fleet: Press) -> None:
    """node-a has it, the others were never told: c-2 is a change for node-a alone."""
    fleet.change(edge("two"))
    fleet.move(1, Step.OFFERED)
    fleet.publish()
    first = fleet.listing("node-b")["config/edge"]
    fleet.move(1, Step.RELEASED, "node-a", ring=1)
    fleet.publish()
    started = fleet.change(edge("one"), reverts=1)
    assert list(started.held) == ["node-a"]
    fleet.publish()
    assert [fleet.candidates(node_id) for node_id in NODES] == [{}, {}, {}]
    fleet.move(2, Step.RELEASED, "node-a", ring=1)
    fleet.publish()
    assert fleet.listing("node-a")["config/edge"].content_hash == first.content_hash
    assert fleet.listing("node-b")["config/edge"] == first


# ---- keys, epochs, recoveries, refusals, what is kept


def test_an_epoch_that_is_raised(press: Press) -> None:
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    reader = press.reader().follow()
    press.add_bundle(epoch=2)
    press.publish()
    assert {entry.authority_epoch for entry in (press.listing()[WEB], press.candidates()[WEB])} == {2}
    assert set(reader.follow().judge()) == {WEB} and workers(press) == 4
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert workers(press) == 9


def test_a_key_that_goes_takes_its_candidates_with_it(press: Press) -> None:
    """A retiring one's signature is good; once it is removed, what it signed is signed anew."""
    old, new = press.bundles.config, SigningKey.generate()
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    first = press.candidates()[WEB]
    reader = press.reader().follow()
    press.keys = (old, new)
    press.add_bundle(keys=(old, new), statuses={old.key_id: RETIRING})
    press.publish()
    assert press.candidates()[WEB] == first
    press.keys = (new,)
    press.add_bundle(keys=(new,))
    press.publish()
    assert press.candidates()[WEB].pair > press.listing()[WEB].pair > first.pair
    assert set(reader.follow().judge()) == {WEB}


def test_a_refusal_of_what_it_has_goes_on_beside_a_change(press: Press) -> None:
    """node-a refuses 5 workers and runs 4; a change to 9 is offered. The refusal is as ever, until 9 is released."""
    picky = Picky(press).follow()
    picky.refuses.add(WEB)
    press.apply(SERVICE.format(id="web", nodes="node-a", n=5))
    press.publish()
    picky.follow()
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    picky.follow()
    for _ in range(40):
        pass_by(press, HOUR)
        picky.follow()
    assert picky.expires[WEB] > press.now + DAY
    assert set(press.candidates()) == {WEB}
    picky.refuses.clear()
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    picky.follow()
    assert workers(press) == 9 and picky.active[WEB] == press.listing()[WEB]


def test_what_is_announced_as_coming_is_kept(press: Press) -> None:
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    coming = press.candidates()[WEB]
    press.now += press.settings.increment_history_s + DAY
    retention.trim(press.database, now=press.now, settings=press.settings)
    assert documents.document(press.database, "node-a", coming.snapshot_id).scope == WEB


FILE = "kind: Config\nid: edge\nspec: {{to: {{nodes: [{nodes}]}}, files: {{motd: {{text: '{text}', {more}}}}}}}"
TEMPLATE = "template: true"
ONE, TWO, THREE = (f"${{node.id}} {word}" for word in ("one", "two", "three"))


def trim_after(press: Press, seconds: float) -> None:
    """Heads go on, once."""
    press.now += seconds
    press.publish()
    retention.trim(press.database, now=press.now, settings=press.settings)


@pytest.mark.parametrize("is_removed", [False, True])
def test_what_a_config_held_stays_while_a_node_waits_with_it(press: Press, is_removed: bool) -> None:
    """A template stands in no document: what is renewed is made from the text that nothing declared names any more."""
    press.apply(FILE.format(nodes="node-a", text=ONE, more=TEMPLATE))
    press.publish()
    after = STATE if is_removed else FILE.format(nodes="node-a", text=TWO, more=TEMPLATE)
    press.change(after, prune=is_removed)
    reader = press.reader().follow()
    for _ in range(4):
        trim_after(press, 5 * DAY)
        reader.follow()
        assert reader.text("config/edge").endswith(b"one")
        assert reader.holder.active["config/edge"].envelope.expires_at > press.now
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    reader.follow()
    assert is_removed or reader.text("config/edge").endswith(b"two")
    assert is_removed is ("config/edge" not in press.listing())


def test_what_lies_between_two_changes_stays_until_it_is_told(press: Press) -> None:
    """c-2 waits for c-1, and what c-1 brings is declared no more."""
    for text in (ONE, TWO, THREE):
        press.change(FILE.format(nodes="node-a, node-b", text=text, more=TEMPLATE))
        press.publish()
    reader = press.reader().follow()
    trim_after(press, 10 * DAY)
    press.move(2, Step.OFFERED)
    press.publish()
    assert reader.follow().judge()["config/edge"].endswith(b"two")
    press.move(2, Step.RELEASED, ring=1)
    press.publish()
    assert reader.follow().text("config/edge").endswith(b"two")
    press.become(2, ChangeState.DONE)
    trim_after(press, 10 * DAY)
    press.move(3, Step.RELEASED, ring=1)
    press.publish()
    assert reader.follow().text("config/edge").endswith(b"three")


def test_what_a_superseded_change_held_back_stays(press: Press) -> None:
    """c-1 is over, and node-a has what was before it."""
    press.apply(FILE.format(nodes="node-a", text=ONE, more=TEMPLATE))
    press.publish()
    press.change(FILE.format(nodes="node-a", text=TWO, more=TEMPLATE))
    press.become(1, ChangeState.HALTED)
    press.change(FILE.format(nodes="node-a", text=THREE, more=TEMPLATE))
    reader = press.reader().follow()
    trim_after(press, 20 * DAY)
    assert reader.follow().text("config/edge").endswith(b"one")


def test_what_no_change_needs_any_more_goes(press: Press) -> None:
    press.apply(FILE.format(nodes="node-a", text=ONE, more=TEMPLATE))
    press.change(FILE.format(nodes="node-a", text=TWO, more=TEMPLATE))
    press.move(1, Step.RELEASED, ring=1)
    press.become(1, ChangeState.DONE)
    assert kept_parts(press, ONE, TWO) == {ONE, TWO}
    trim_after(press, press.settings.increment_history_s - DAY)
    assert kept_parts(press, ONE, TWO) == {ONE, TWO}, "it can be taken back still"
    trim_after(press, 2 * DAY)
    assert kept_parts(press, ONE, TWO) == {TWO}


def kept_parts(press: Press, *texts: str) -> set[str]:
    with press.database.read() as transaction:
        hashes = {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}
        return {hashes[part] for part in uploads.existing_parts(transaction, hashes)}


def test_a_claim_to_run_what_was_never_listed_is_doubted(press: Press) -> None:
    """A candidate is handed out, so a node can know it; to have it active is another thing."""
    picky = Picky(press).follow()
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    had, picky.active[WEB] = picky.active[WEB], press.candidates()[WEB]
    assert {scope: found.value for scope, found in picky.report().comparisons.items()} == {WEB: "node_ahead"}
    picky.active[WEB] = had
    assert picky.report().comparisons == {}
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    assert picky.follow().report().comparisons == {}
    assert picky.active[WEB] == press.listing()[WEB]


def test_what_it_had_last_is_known_beside_a_greater_number_that_was_a_candidate_alone(press: Press) -> None:
    """Cut off before it could report it, and the scope is taken from it: it comes back, and nobody doubts it."""
    picky = Picky(press).follow()
    press.apply(WEB_10)
    press.publish()
    picky.active[WEB] = press.listing()[WEB]
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    press.become(1, ChangeState.SUPERSEDED)
    press.move(1, Step.RELEASED)
    press.apply(WEB_9.replace("{nodes: [node-a]}", "{labels: {a: b}}"))
    press.publish()
    assert WEB not in press.listing()
    for _ in range(2):
        trim_after(press, 10 * DAY)
    assert picky.report().comparisons == {}


def test_a_candidate_number_stays_its_own(press: Press) -> None:
    """Compare and swap: what lies below what is listed beside it, or under a number that was used, is refused."""
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    (draft,) = press.prepare("node-a").drafts
    good = draft.publication
    listed, coming = good.listing[WEB], good.candidates[WEB]
    for bad in (
        replace(coming, config_version=listed.config_version),
        replace(coming, config_version=listed.config_version, content_hash=listed.content_hash),
        replace(coming, snapshot_id="nowhere"),
    ):
        refused = heads.publish(
            press.database, [replace(good, candidates={WEB: bad})], actor="coordinator", now=press.now
        )
        assert refused["node-a"].code is Code.CONFLICT
        assert press.candidates() == {}
    press.publish()
    assert press.candidates()[WEB].config_version == coming.config_version


def test_candidates_are_no_part_of_a_listing(press: Press) -> None:
    """As the database keeps it, for who reads it there."""
    press.change(WEB_9)
    press.move(1, Step.OFFERED)
    press.publish()
    table = schema.heads
    with press.database.read() as transaction:
        row = transaction.row(table.select().where(table.c.node_id == "node-a"))
    assert row is not None and set(json.loads(row.candidates)) == {WEB}
    with press.database.record(now=press.now) as transaction:
        transaction.run(update(table).where(table.c.node_id == "node-b").values(candidates="{}"))

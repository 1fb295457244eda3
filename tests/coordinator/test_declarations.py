"""Applying declared resources as a whole (protocol 2; rules S69, K21, H38)."""

import pytest
from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, declared_places, schema
from coordinator.database.database import Database
from coordinator.declared.resources import InvalidResources
from coordinator.membership import admission
from coordinator.publishing import declarations
from snapshot.identifiers import Scope
from tests.coordinator.candidates import NOW, admit, contents
from wire.operators.operator_answers import AllowlistEntry

HOW = {"actor": "alice", "now": NOW}
BASE = "kind: Organization\nid: acme\n---\nkind: Node\nid: node-a\nspec: {roles: [core_mesh], organizations: [acme]}\n"


def apply(database: Database, text: str, **options) -> declarations.ApplyPlan:
    return declarations.apply(database, {"a.yaml": text}, **{**HOW, **options})


def keys(database: Database) -> list[tuple[str, str]]:
    with database.read() as transaction:
        return sorted(catalog.resources(transaction))


def test_what_is_applied_is_kept(cluster: Database) -> None:
    plan = apply(cluster, BASE)
    assert [(change.verb, *change.key) for change in plan.changes] == [
        ("create", "Node", "node-a"), ("create", "Organization", "acme"),
    ]  # fmt: skip
    assert keys(cluster) == [("Node", "node-a"), ("Organization", "acme")]
    again = apply(cluster, BASE)
    assert (again.changes, again.unchanged, again.touched) == ((), 2, frozenset())


def test_a_change_is_shown_member_by_member(cluster: Database) -> None:
    apply(cluster, BASE)
    plan = apply(cluster, BASE.replace("core_mesh", "ingress"), dry_run=True)
    assert plan.lines()[:2] == ["~ Node node-a", '    spec.roles: ["core_mesh"] -> ["ingress"]']


def test_a_dry_run_is_the_same_code_stopped_before_the_commit(cluster: Database) -> None:
    admit(cluster, "node-a")
    before = contents(cluster, "resources", "nodes", "cluster", "audit")
    dry = apply(cluster, BASE, dry_run=True)
    assert contents(cluster, "resources", "nodes", "cluster", "audit") == before
    wet = apply(cluster, BASE)
    assert (dry.changes, dry.touched, dry.based_on) == (wet.changes, wet.touched, wet.based_on)
    assert dry.lines() == wet.lines()


def test_prune_deletes_what_no_file_declares(cluster: Database) -> None:
    apply(cluster, BASE)
    other = "kind: Organization\nid: acme\n"
    assert apply(cluster, other).changes == ()
    plan = apply(cluster, other, prune=True)
    assert [change.verb for change in plan.changes] == ["delete"]
    assert plan.lines()[0] == "- Node node-a"
    assert keys(cluster) == [("Organization", "acme")]


def test_what_stays_may_not_be_left_hanging(cluster: Database) -> None:
    """The organization goes, the node that serves it would stay."""
    apply(cluster, BASE)
    before = contents(cluster, "resources", "cluster")
    with pytest.raises(InvalidResources) as caught:
        apply(cluster, "kind: Node\nid: node-a\nspec: {organizations: [acme]}\n", prune=True)
    (problem,) = caught.value.problems
    assert "no Organization acme" in problem.message
    assert contents(cluster, "resources", "cluster") == before


def test_one_fault_keeps_all_of_it_out(cluster: Database) -> None:
    before = contents(cluster, "resources", "cluster")
    with pytest.raises(InvalidResources):
        apply(cluster, BASE + "---\nkind: Service\nid: web\nspec: {organization: nobody, runs_on: {roles: [thin]}}\n")
    assert contents(cluster, "resources", "cluster") == before
    assert len(apply(cluster, BASE).changes) == 2


def test_the_loser_of_two_plans(cluster: Database, second: Database) -> None:
    """rules H38: `concurrent_update`, and nothing of it remains."""
    plan = apply(cluster, BASE, dry_run=True)
    apply(second, "kind: Organization\nid: wayne\n")
    with pytest.raises(Refused) as caught:
        apply(cluster, BASE, based_on=plan.based_on)
    assert caught.value.code is Code.CONCURRENT_UPDATE
    assert keys(cluster) == [("Organization", "wayne")]
    fresh = apply(cluster, BASE, dry_run=True)
    assert len(apply(cluster, BASE, based_on=fresh.based_on).changes) == 2


def test_another_replicas_change_is_seen(cluster: Database, second: Database) -> None:
    """What is remembered of a state has that state's name: another state is read anew."""
    apply(cluster, BASE)
    apply(second, BASE.replace("core_mesh", "thin"))
    with cluster.read() as transaction:
        assert catalog.load(transaction).resources["Node", "node-a"].roles == ("thin",)
    assert apply(cluster, BASE).lines()[0] == "~ Node node-a"


def test_who_still_sees_the_state_before_need_not_read_it_again(cluster: Database, second: Database) -> None:
    """A reading that began before a commit, and one after it, each find their own."""
    apply(cluster, BASE)
    with cluster.read() as transaction:
        known = catalog.load(transaction)
    with cluster.read() as early:
        assert catalog.state_name(early).state_id
        apply(cluster, BASE.replace("core_mesh", "thin"))
        assert catalog.load(early) is known
    with cluster.read() as late:
        assert catalog.load(late).resources["Node", "node-a"].roles == ("thin",)
        assert catalog.load(late) is catalog.load(late)


def test_a_change_raises_the_generations_that_it_touches(cluster: Database) -> None:
    """rules K21"""
    for node_id in ("node-a", "node-b"):
        admit(cluster, node_id)
    before = {entry.node_id: entry.generation for entry in catalog.nodes(cluster)}
    plan = apply(cluster, BASE)
    assert {node_id for node_id, _ in plan.touched} == {"node-a"}
    after = {entry.node_id: entry.generation for entry in catalog.nodes(cluster)}
    assert after == {"node-a": before["node-a"] + 1, "node-b": before["node-b"]}


@pytest.mark.parametrize("few", [500, 0])
def test_a_declaration_may_not_contradict_the_catalog(cluster: Database, monkeypatch, few: int) -> None:
    """Whether rows are asked for by name or all of them are read."""
    monkeypatch.setattr(declarations, "FEW", few)
    """rules H-000-1: file, line and field of it."""
    admit(cluster, "node-a")
    with pytest.raises(InvalidResources) as caught:
        apply(cluster, "kind: Node\nid: node-a\nspec:\n  kind: witness\n")
    problem = caught.value.problems[0]
    assert (problem.line, problem.field) == (4, "spec.kind")
    apply(cluster, "kind: Node\nid: node-b\nspec:\n  kind: witness\n")
    with pytest.raises(Refused) as refused:
        admission.allow(cluster, AllowlistEntry("node-b", "data"), **HOW)
    assert refused.value.code is Code.CONTRADICTION


def test_one_and_true_are_two_settings(cluster: Database) -> None:
    """rules S6, S22: as a node's service reads them."""
    text = BASE.replace("core_mesh", "egress_service") + (
        "---\nkind: Service\nid: web\nspec: {organization: acme, runs_on: {nodes: [node-a]}, settings: {verbose: 1}}\n"
    )
    apply(cluster, text)
    admit(cluster, "node-a")
    assert apply(cluster, text).changes == ()
    plan = apply(cluster, text.replace("verbose: 1", "verbose: true"))
    assert [change.key for change in plan.changes] == [("Service", "web")]
    assert ("node-a", Scope("service_assignment", ("web",))) in plan.touched
    assert plan.lines()[1] == "    spec.settings.verbose: 1 -> true"


def test_every_change_is_in_the_audit_log(cluster: Database) -> None:
    apply(cluster, BASE)
    apply(cluster, BASE.replace("core_mesh", "thin"))
    rows = [row for row in contents(cluster, "audit")["audit"] if "'resource." in row]
    assert len(rows) == 3 and all("alice" in row for row in rows)
    changed = next(row for row in rows if "resource.change" in row)
    assert '"core_mesh"' in changed and '"thin"' in changed


def test_what_is_said_to_be_no_secret_is_in_the_audit_log(cluster: Database) -> None:
    text = BASE.replace("core_mesh", "egress_service") + (
        "---\nkind: Service\nid: web\nspec: {organization: acme, runs_on: {nodes: [node-a]},\n"
        "  settings: {key: sk_test_%s}, exempt: [{at: settings.key, family: stripe_key, because: of a manual}]}\n"
    ) % ("a" * 24)
    apply(cluster, text)
    apply(cluster, text)
    (row,) = [row for row in contents(cluster, "audit")["audit"] if "resource.exempt" in row]
    assert "alice" in row and "Service web" in row and "of a manual" in row and "stripe_key" in row


def test_nothing_is_applied_without_a_state(database: Database) -> None:
    """rules J34"""
    with pytest.raises(Refused) as caught:
        apply(database, BASE)
    assert caught.value.code is Code.NO_STATE


def places(database: Database) -> dict[tuple[str, str], tuple[str, int]]:
    with database.read() as transaction:
        return declared_places.read(transaction, catalog.resources(transaction))


def test_where_each_resource_was_declared_is_kept_with_it(cluster: Database) -> None:
    assert apply(cluster, BASE).moved == 2
    assert places(cluster) == {("Organization", "acme"): ("a.yaml", 1), ("Node", "node-a"): ("a.yaml", 4)}
    assert apply(cluster, BASE).moved == 0


@pytest.mark.parametrize("few", [500, 0])
def test_lines_that_move_are_followed_and_nobody_is_told(cluster: Database, monkeypatch, few: int) -> None:
    """The state stays the one that it is, so a plan that somebody was shown still stands."""
    monkeypatch.setattr(declared_places, "FEW", few)
    admit(cluster, "node-a")
    apply(cluster, BASE)
    before, shown = contents(cluster, "resources", "nodes", "cluster"), apply(cluster, BASE, dry_run=True)
    moved = BASE.replace("---", "\n---\n\n")
    assert apply(cluster, moved, dry_run=True).moved == 1
    assert places(cluster)["Node", "node-a"] == ("a.yaml", 4)
    plan = apply(cluster, moved)
    assert (plan.changes, plan.moved, plan.touched) == ((), 1, frozenset())
    assert places(cluster)["Node", "node-a"] == ("a.yaml", 7)
    assert contents(cluster, "resources", "nodes", "cluster") == before
    apply(cluster, BASE, based_on=shown.based_on)
    assert declarations.apply(cluster, {"b.yaml": BASE}, **HOW).moved == 2
    assert places(cluster)["Organization", "acme"] == ("b.yaml", 1)


def test_what_another_file_declares_keeps_its_place_and_what_is_deleted_has_none(cluster: Database) -> None:
    apply(cluster, BASE)
    declarations.apply(cluster, {"b.yaml": "kind: Organization\nid: umbrella\n"}, **HOW)
    assert places(cluster)["Node", "node-a"] == ("a.yaml", 4)
    apply(cluster, "\nkind: Organization\nid: acme\n", prune=True)
    with cluster.read() as transaction:
        rows = transaction.rows(select(schema.declared_places))
    assert [tuple(row) for row in rows] == [("Organization", "acme", "a.yaml", 2)]

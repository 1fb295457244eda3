"""What an apply would do, worked out beside everybody else (rules H38)."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared import change_impact, peers, references, resources, views
from coordinator.declared.resources import Declared, InvalidResources
from coordinator.publishing import declarations, proposals
from coordinator.reports import heartbeat_form, heartbeats
from snapshot import canonical
from tests.coordinator.candidates import NOW, admit
from tests.coordinator.profiling import entered_files
from tests.coordinator.reports import body

HOW = {"actor": "alice", "now": NOW}
ACME = "kind: Organization\nid: acme\n"
NODES = "".join(
    f"---\nkind: Node\nid: n{number}\nspec: {{roles: [core_mesh], organizations: [acme]}}\n" for number in range(20)
)


def declared(text: str) -> dict[tuple[str, str], Declared]:
    return resources.read({"a.yaml": text})


def keys(database: Database) -> list[tuple[str, str]]:
    with database.read() as transaction:
        return sorted(catalog.resources(transaction))


def test_reports_are_written_while_it_is_worked_out(cluster: Database, second: Database) -> None:
    """The one writer is free: a report that comes in between is on record, and the proposal stands."""
    admit(cluster, "n0")
    proposal = proposals.propose(cluster, declared(ACME + NODES))
    answers = heartbeats.record(second, [heartbeat_form.parse(body("n0", {}))], now=NOW)
    assert answers is not None
    plan = declarations.carry_out(cluster, proposal, **HOW)
    assert len(plan.changes) == 21
    assert {node_id for node_id, _ in plan.touched} == {"n0"}


def test_nothing_is_worked_out_under_the_lock(cluster: Database) -> None:
    for number in range(20):
        admit(cluster, f"n{number}")
    proposal = proposals.propose(cluster, declared(ACME + NODES))
    entered = entered_files(lambda: declarations.carry_out(cluster, proposal, **HOW))
    assert declarations.__file__ in entered
    assert not entered & {peers.__file__, views.__file__, references.__file__, change_impact.__file__}


def test_a_state_that_has_moved_on_is_worked_out_again(cluster: Database, second: Database) -> None:
    """Without a plan to keep to: what is written fits the state that it is written to."""
    proposal = proposals.propose(cluster, declared("kind: Organization\nid: wayne\n"), prune=True)
    declarations.apply(second, {"b.yaml": ACME}, **HOW)
    plan = declarations.carry_out(cluster, proposal, **HOW)
    assert [(change.verb, *change.key) for change in plan.changes] == [
        ("delete", "Organization", "acme"),
        ("create", "Organization", "wayne"),
    ]
    assert keys(cluster) == [("Organization", "wayne")]


def test_what_does_not_hold_together_any_more_is_refused(cluster: Database, second: Database) -> None:
    declarations.apply(cluster, {"a.yaml": ACME}, **HOW)
    proposal = proposals.propose(cluster, declared(NODES))
    declarations.apply(second, {"b.yaml": "kind: Organization\nid: wayne\n"}, prune=True, **HOW)
    with pytest.raises(InvalidResources) as caught:
        declarations.carry_out(cluster, proposal, **HOW)
    assert "no Organization acme" in caught.value.problems[0].message
    assert keys(cluster) == [("Organization", "wayne")]
    assert len(declarations.apply(cluster, {"a.yaml": ACME + NODES}, **HOW).changes) == 21


def test_a_plan_is_kept_to(cluster: Database, second: Database) -> None:
    """rules H38: before it is worked out and before it is written, and nothing of the loser remains."""
    proposal = proposals.propose(cluster, declared(ACME))
    declarations.apply(second, {"b.yaml": "kind: Organization\nid: wayne\n"}, **HOW)
    for late in (
        lambda: proposals.propose(cluster, declared(ACME), based_on=proposal.state_id),
        lambda: declarations.carry_out(cluster, proposal, based_on=proposal.state_id, **HOW),
    ):
        with pytest.raises(Refused) as caught:
            late()
        assert caught.value.code is Code.CONCURRENT_UPDATE
    assert keys(cluster) == [("Organization", "wayne")]
    fresh = proposals.propose(cluster, declared(ACME))
    assert len(declarations.carry_out(cluster, fresh, based_on=fresh.state_id, **HOW).changes) == 1


def test_a_plan_is_the_canonical_json_of_its_changes(cluster: Database) -> None:
    declarations.apply(cluster, {"a.yaml": ACME + "---\nkind: Site\nid: east\n"}, **HOW)
    texts = {"a.yaml": 'kind: Organization\nid: acme\nspec: {name: "Äcme"}\n---\nkind: Node\nid: n1\n'}
    proposal = proposals.propose(cluster, resources.read(texts), prune=True)
    said = [
        {"kind": change.key[0], "id": change.key[1], "verb": change.verb, "before": before, "after": after}
        for change in proposal.changes
        for before, after in [change.specs]
    ]
    assert [entry["verb"] for entry in said] == ["create", "change", "delete"]
    assert proposal.write_out().plan == canonical.dumps(said).decode()

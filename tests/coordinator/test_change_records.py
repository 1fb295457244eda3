"""The records of changes: numbers, compare and swap, rows of nodes, a timeline with an end."""

from dataclasses import asdict, replace

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.changes import records
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.records import (
    MORE,
    MOST_EVENTS,
    CandidateVote,
    ChangedResource,
    ChangeNode,
    ChangeRecord,
)
from coordinator.changes.rollout_policy import DEFAULT, Rollout, parse_rollout
from coordinator.changes.states import ChangeState, Step
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared.kinds import RolloutRing
from snapshot import canonical
from tests.coordinator.candidates import NOW, admit

PLAN = (ChangedResource("Service", "web", "change", {"workers": 1}, {"workers": 1.5}),)
WRITTEN = canonical.dumps([asdict(change) for change in PLAN]).decode()


def begin(database: Database, *node_ids: str, **values: object) -> ChangeRecord:
    """The next change, as it is read again."""
    with database.change(actor="alice", now=NOW) as transaction:
        number = records.next_id(transaction)
        groups = (ChangeGroup("standard", Rollout(rings=(RolloutRing(percent=5),), bake_s=7)),)
        record = ChangeRecord(number, NOW, "alice", "more workers", ChangeState.PREPARING, "sha256:0", "s", groups)
        nodes = [ChangeNode(number, node_id, ("route_policy",)) for node_id in node_ids]
        records.begin(
            transaction, replace(record, **values), canonical.dumps([asdict(one) for one in PLAN]).decode(), nodes
        )
        transaction.audit("apply", "prod")
    with database.read() as transaction:
        return records.get(transaction, number)


def test_what_is_begun_is_read_as_it_was(cluster: Database) -> None:
    first, second = begin(cluster, "node-b", "node-a"), begin(cluster, immediately="it burns", reverts=1)
    assert (first.name, second.name, first.message, first.revision) == ("c-1", "c-2", "more workers", 1)
    assert first.groups[0].rollout == Rollout(rings=(RolloutRing(percent=5),), bake_s=7)
    assert (second.immediately, second.reverts, first.reverts) == ("it burns", 1, None)
    with cluster.read() as transaction:
        assert records.plan_of(transaction, 1) == PLAN
        assert [node.node_id for node in records.nodes_of(transaction, 1)] == ["node-a", "node-b"]
        assert records.list_changes(transaction) == [second, first]
        assert records.list_changes(transaction, [ChangeState.DONE]) == []
        assert records.open_changes(transaction) == [first, second]
    assert parse_rollout(DEFAULT.to_value()) == DEFAULT


def test_names(cluster: Database) -> None:
    assert records.parse_name("c-41") == 41
    for name in ("41", "c-0", "c-041", "c-4 ", "c-x", ""):
        with pytest.raises(Refused) as refused:
            records.parse_name(name)
        assert refused.value.code is Code.BAD_REQUEST
    with cluster.read() as transaction, pytest.raises(Refused) as refused:
        records.get(transaction, 41)
    assert (refused.value.code, refused.value.detail) == (Code.NOT_FOUND, "there is no change c-41")


def save(database: Database, record: ChangeRecord) -> ChangeRecord:
    with database.change(actor="coordinator", now=NOW) as transaction:
        transaction.audit("change", record.name)
        return records.save(transaction, record)


def test_of_two_who_decide_one_does(cluster: Database, second: Database) -> None:
    found = begin(cluster)
    rolling = save(cluster, replace(found, state=ChangeState.ROLLING))
    with pytest.raises(Refused) as refused:
        save(second, replace(found, state=ChangeState.HALTED, why="too late"))
    assert refused.value.code is Code.CONFLICT
    done = save(second, replace(rolling, state=ChangeState.DONE, settled_at=NOW))
    with cluster.read() as transaction:
        assert records.get(transaction, 1) == done
        assert (done.state, done.why, done.revision) == (ChangeState.DONE, "", 3)
        assert records.open_changes(transaction) == []


def move(database: Database, record: ChangeRecord, node_ids: list[str], step: Step, ring: int | None = None) -> None:
    with database.change(actor="coordinator", now=NOW) as transaction:
        transaction.audit("change", record.name)
        records.move(transaction, record, node_ids, step, ring=ring)


def test_who_is_moved_gets_a_new_head_and_keeps_what_it_said(cluster: Database) -> None:
    admit(cluster, "node-a")
    admit(cluster, "node-b")
    found = begin(cluster, "node-a", "node-b")
    before = {entry.node_id: entry.generation for entry in catalog.nodes(cluster)}
    move(cluster, found, ["node-a"], Step.OFFERED)
    after = {entry.node_id: entry.generation for entry in catalog.nodes(cluster)}
    assert after == {"node-a": before["node-a"] + 1, "node-b": before["node-b"]}
    with cluster.change(actor="x", now=NOW) as transaction:
        vote = CandidateVote("sha256:1", "refused", 12, "validator_refused", "no such port", NOW)
        node = ChangeNode(2, "node-c", ("config/a", "config/b"), votes={"config/a": vote}, outcome="refused")
        records.add_nodes(transaction, [node])
        transaction.audit("x", "y")
    move(cluster, found, ["node-a"], Step.RELEASED, 1)
    with cluster.read() as transaction:
        a, b = records.nodes_of(transaction, 1)
        assert (a.step, a.ring, a.released_at, b.step) == (Step.RELEASED, 1, NOW, Step.HELD)
        assert records.nodes_of(transaction, 2) == [node]


def test_a_change_holds_until_it_is_settled_and_a_superseded_one_until_the_next_has_released(cluster: Database) -> None:
    for node_id in ("node-a", "node-b"):
        admit(cluster, node_id)
    first, second, third = (begin(cluster, "node-a", "node-b") for _ in range(3))
    for record, later in ((first, 2), (second, 3)):
        save(cluster, replace(record, state=ChangeState.SUPERSEDED, superseded_by=later, settled_at=NOW))

    def holding() -> dict[str, list[int]]:
        with cluster.read() as transaction:
            found = records.holding(transaction, ["node-a", "node-b", "node-c"])
        return {node_id: [node.change_id for node in nodes] for node_id, nodes in found.items()}

    assert holding() == {"node-a": [1, 2, 3], "node-b": [1, 2, 3]}
    move(cluster, third, ["node-a"], Step.RELEASED, 1)
    assert holding() == {"node-a": [3], "node-b": [1, 2, 3]}
    save(cluster, replace(third, state=ChangeState.DONE, settled_at=NOW))
    assert holding() == {"node-a": [3], "node-b": [1, 2, 3]}, "what node-a was given already is not new to it"
    with cluster.change(actor="x", now=NOW) as transaction:
        transaction.audit("x", "y")
        records.forget_node(transaction, "node-b")
    assert holding() == {}


def test_a_timeline_has_an_end(cluster: Database) -> None:
    begin(cluster)
    with cluster.change(actor="x", now=NOW) as transaction:
        transaction.audit("x", "y")
        for number in range(MOST_EVENTS + 3):
            records.note(transaction, 1, "vote", "node-a", f"{number}\n")
        found = records.events_of(transaction, 1)
    assert (found[0].what, found[0].node_id, found[0].detail) == ("vote", "node-a", "0\\n")
    assert len(found) == MOST_EVENTS + 1
    assert (found[-1].what, found[-1].detail) == (MORE, "3")

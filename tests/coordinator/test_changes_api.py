"""What an operator asks of changes over HTTP, on either database: lists, details, waiting, approving (protocol 2)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from sqlalchemy import update

from coordinator.api import changes_api
from coordinator.changes import records
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.records import CandidateVote, ChangeNode
from coordinator.changes.rollout_policy import DEFAULT
from coordinator.changes.states import ChangeState, GroupPhase, Outcome, Step
from coordinator.database import schema
from coordinator.database.database import Database
from tests.coordinator.afar import Afar
from tests.coordinator.begun_changes import PLAN_HASH, begin, save
from tests.coordinator.candidates import NOW
from tests.coordinator.daemon import Running, refusal, running
from tests.coordinator.founding import Founded
from wire.client import ClientError

HASH = "sha256:" + "c" * 64
YES = CandidateVote(HASH, "accepted", at=NOW + 2)
NO = CandidateVote(HASH, "refused", 12, "validator_refused", "web: no upstream", NOW + 3)


@pytest.fixture
def founded(tmp_path: Path, database_url: str) -> Founded:
    return Founded(tmp_path, database_url, listen='admin = "127.0.0.1:0"')


@pytest.fixture
def beside(founded: Founded) -> Iterator[Database]:
    """What the rollout, or another coordinator, writes."""
    database = Database(founded.url)
    yield database
    database.close()


def node(name: str, **values: object) -> ChangeNode:
    return ChangeNode(0, name, ("route_policy",), **values)


async def test_how_far_each_node_is(founded: Founded, beside: Database) -> None:
    """Each node in as many counts as are true of it, and each refusal in words."""
    nodes = (
        node("n-1", step=Step.RELEASED, votes={"route_policy": YES}, outcome=Outcome.ACTIVE, active_at=NOW + 4),
        node("n-2", step=Step.RELEASED, votes={"route_policy": YES}, outcome=Outcome.GOOD, active_at=NOW + 8),
        node("n-3", step=Step.RELEASED, votes={"route_policy": YES}, outcome=Outcome.REVERTED, detail="check: 500"),
        node("n-4", step=Step.OFFERED, votes={"route_policy": NO}),
        node("n-5", step=Step.OFFERED),
        node("n-6"),
    )
    async with running(founded) as at:
        assert (await at.ask("GET", "/v1/changes")) == {"changes": []}
        begin(beside, *nodes, state=ChangeState.HALTED, immediately="it burns")
        found = await at.ask("GET", "/v1/changes/c-1")
        counts = {"touched": 6, "asked": 5, "accepted": 3, "refused": 1, "silent": 0, "offline": 4}
        counts |= {"given": 3, "active": 2, "good": 1, "reverted": 1}
        assert found["counts"] == counts
        assert found["offline"] == ["n-3", "n-4", "n-5", "n-6"]  # nobody has heard of any of them
        assert found["took"] == {"p50": 4.0, "p99": 8.0}
        assert [(each["node_id"], each["outcome"], each["reason"]) for each in found["refusals"]] == [
            ("n-3", "reverted", ""),
            ("n-4", "refused", "validator_refused"),
        ]
        assert (found["immediately"], found["resources"], found["actor"]) == ("it burns", 1, "operator:ann")
        listed = (await at.ask("GET", "/v1/changes"))["changes"]
        assert listed == [{name: found[name] for name in listed[0]}]


async def test_what_was_kept_of_one_that_is_over(founded: Founded, beside: Database) -> None:
    """Its nodes' rows are gone by then."""
    counts, took = {"good": 3, "active": 1, "refused": 2, "": 1}, {"p50": 2.5, "p99": 9.0}
    group = ChangeGroup("standard", DEFAULT, 3, NOW, GroupPhase.PASSED, counts, took)
    async with running(founded) as at:
        begin(beside, state=ChangeState.DONE, settled_at=NOW + 60, groups=(group,))
        found = await at.ask("GET", "/v1/changes/c-1")
        told = found["counts"]
        assert (told["touched"], told["active"], told["good"], told["refused"], told["offline"]) == (7, 4, 3, 2, 1)
        assert found["took"] == took and found["courses"][0]["phase"] == "passed"


async def test_what_one_keeps_back_is_said_of_its_node(founded: Founded, beside: Database) -> None:
    async with running(founded) as at:
        await at.admit("node-a")
        assert (await at.ask("GET", "/v1/diff"))["held_back"] == {}
        begin(beside, ChangeNode(0, "node-a", ("node_runtime",)), state=ChangeState.HALTED, why="n-7 refused")
        kept_back = {"node_runtime": "by c-1, which is halted: n-7 refused"}
        assert (await at.ask("GET", "/v1/diff?node=node-a"))["held_back"] == {"node-a": kept_back}
        assert (await at.ask("GET", "/v1/nodes/node-a"))["held_back"] == kept_back
        told = (await at.ask("GET", "/v1/nodes/node-a/explain"))["scopes"]
        assert {each["scope"]: each["held_back"] for each in told if each["held_back"]} == kept_back
        (note,) = (await at.ask("GET", "/v1/nodes/node-a/explain/node_runtime"))["notes"][:1]
        assert note == "held back by c-1, which is halted: n-7 refused"


async def test_the_fleet_is_counted_by_change(founded: Founded, beside: Database) -> None:
    """Those that are not over."""
    async with running(founded) as at:
        assert (await at.ask("GET", "/v1/fleet"))["changes"] == []
        begin(beside, node("n-1", step=Step.RELEASED, outcome=Outcome.ACTIVE), node("n-2"), state=ChangeState.HALTED)
        begin(beside, state=ChangeState.DONE, settled_at=NOW)
        begin(beside, approvals=1)
        told = (await at.ask("GET", "/v1/fleet"))["changes"]
        assert [each["change"] for each in told] == ["c-3", "c-1"]
        assert (told[1]["counts"]["active"], told[1]["counts"]["touched"]) == (1, 2)


async def test_they_are_listed_by_state_and_the_newest_first(founded: Founded, beside: Database) -> None:
    async with running(founded) as at:
        for state in (ChangeState.DONE, ChangeState.HALTED, ChangeState.DONE):
            begin(beside, state=state)

        async def names(query: str) -> list[str]:
            return [each["change"] for each in (await at.ask("GET", f"/v1/changes{query}"))["changes"]]

        assert await names("") == ["c-3", "c-2", "c-1"]
        assert await names("?state=done") == ["c-3", "c-1"]
        assert await names("?state=done&state=halted&most=2") == ["c-3", "c-2"]


WHAT_THERE_IS_NOT = [
    ("/v1/changes/c-9", "not_found", "there is no change c-9"),
    ("/v1/changes/c-9/diff", "not_found", "changes list"),
    ("/v1/changes/c-9/wait", "not_found", "changes list"),
    ("/v1/changes/41", "bad_request", "c-1, c-2"),
    ("/v1/changes/c-041", "bad_request", "is no change"),
    ("/v1/changes/c-1%1b%5b31m", "bad_request", "control character"),
    ("/v1/changes?state=gone", "bad_request", "states are proposed"),
    ("/v1/changes/c-1/wait?seen=" + "x" * 200, "bad_request", "mark"),
]


async def test_what_there_is_not_is_named(founded: Founded, beside: Database) -> None:
    begin(beside)
    async with running(founded) as at:
        for path, code, said in WHAT_THERE_IS_NOT:
            with pytest.raises(ClientError) as found:
                await at.ask("GET", path)
            assert found.value.code == code and said in str(found.value), path
            assert "\x1b" not in str(found.value)
            assert (await at.ask("GET", "/v1/changes/c-1"))["change"] == "c-1"


async def test_what_it_changes_is_shown_as_its_plan_was(founded: Founded) -> None:
    """By the API's own words for a plan, and the lines of an apply."""
    async with running(founded) as at:
        before = "{kind: Organization, id: acme, spec: {name: Acme}}"
        shown = await at.apply(before, dry_run=True)
        begin(at.daemon.coordinator.database)
        found = await at.ask("GET", "/v1/changes/c-1/diff")
        assert found["changes"] == shown["changes"] and found["lines"] == shown["lines"][:1]
        assert found["plan_hash"] == PLAN_HASH


# ---- waiting


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is answered because of the time."""
    monkeypatch.setattr(changes_api, "LOOKS", 1_000_000)
    monkeypatch.setattr(changes_api, "NEWS_S", 0.0)
    monkeypatch.setattr(changes_api, "LOOK_S", 0.01)


async def test_waiting_ends_with_a_decision_and_with_a_vote(founded: Founded, beside: Database, patient: None) -> None:
    """Whoever decided, and whatever node has spoken; nothing is missed between two questions."""
    change = begin(beside, node("n-1", step=Step.OFFERED), approvals=1)
    async with running(founded) as at:
        seen = (await at.ask("GET", "/v1/changes/c-1/wait"))["mark"]
        for speak, told in (
            (lambda: vote(beside, "n-1"), lambda found: found["counts"]["accepted"] == 1),
            (lambda: save(beside, change, state=ChangeState.HALTED), lambda found: found["state"] == "halted"),
        ):
            async with trio.open_nursery() as nursery:
                held = await nursery.start(ask_for_news, at, seen)
                with trio.move_on_after(0.2):
                    await held.done.wait()
                assert held.answer is None
                speak()
                with trio.fail_after(60):
                    await held.done.wait()
            assert told(held.answer)
            assert (await at.ask("GET", f"/v1/changes/c-1/wait?seen={seen}"))["mark"] == held.answer["mark"] != seen
            seen = held.answer["mark"]


class Held:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.answer: dict | None = None


async def ask_for_news(at: Running, seen: str, *, task_status: trio.TaskStatus[Held]) -> None:
    held = Held()
    task_status.started(held)
    held.answer = await at.ask("GET", f"/v1/changes/c-1/wait?seen={seen}")
    held.done.set()


def vote(database: Database, node_id: str) -> None:
    table = schema.change_nodes
    with database.record() as transaction:
        said = '{"route_policy":{"at":1,"content_hash":"h","detail":"","reason":"","step":null,"verdict":"accepted"}}'
        transaction.run(update(table).where(table.c.node_id == node_id).values(votes=said))


async def test_nobody_waits_for_ever(founded: Founded, beside: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of many only some are held: the others are answered at once."""
    monkeypatch.setattr(changes_api, "LOOK_S", 0.001)
    monkeypatch.setattr(changes_api, "NEWS_S", 0.0)
    begin(beside, approvals=1)
    async with running(founded) as at:
        seen = (await at.ask("GET", "/v1/changes/c-1/wait"))["mark"]
        assert (await at.ask("GET", f"/v1/changes/c-1/wait?seen={seen}"))["mark"] == seen
        monkeypatch.setattr(changes_api, "WAITING", 0)
        monkeypatch.setattr(changes_api, "LOOK_S", 1_000_000.0)
        assert (await at.ask("GET", f"/v1/changes/c-1/wait?seen={seen}"))["mark"] == seen


# ---- deciding


async def test_a_person_halts_it_and_lets_it_go_on(founded: Founded, beside: Database) -> None:
    """With the reason in its timeline and the audit log; what is not under way, or was not halted, is told so."""
    async with running(founded) as at:
        await at.admit("n-1")
        begin(beside, node("n-1"))

        async def decide(what: str) -> dict:
            return await at.ask("POST", f"/v1/changes/c-1/{what}", {"reason": "look first"})

        assert await refusal(decide("resume")) == "conflict"
        assert (await decide("halt"))["state"] == "halted"
        assert await refusal(decide("halt")) == "conflict"
        found = await at.ask("GET", "/v1/changes/c-1")
        assert found["why"].endswith(": look first")
        assert (await decide("resume"))["state"] == "preparing"
        found = await at.ask("GET", "/v1/changes/c-1")
        moments = [each["what"] for each in found["timeline"]]
        # It goes on at once: that its node is asked may be told already.
        assert [what for what in moments if what in ("halted", "resumed")] == ["halted", "resumed"]
        audited = (await at.ask("GET", "/v1/audit"))["entries"]
        actions = {each["action"]: each for each in audited}
        assert actions["change.halt"]["after"] == {"reason": "look first"}
        assert actions["change.resume"]["after"] == {"state": "preparing", "reason": "look first"}


async def test_a_halt_approves_nothing(founded: Founded, beside: Database) -> None:
    """threats M08: who is halted while it waits for approvals waits for them again; with all of them it begins."""
    async with running(founded) as at:
        await at.admit("n-1")
        begin(beside, node("n-1"), approvals=1)
        await at.ask("POST", "/v1/changes/c-1/halt", {"reason": "look first"})
        assert (await at.ask("POST", "/v1/changes/c-1/resume", {"reason": "go"}))["state"] == "proposed"
        assert (await at.ask("POST", "/v1/changes/c-1/approve", {"plan_hash": PLAN_HASH}))["state"] == "preparing"
        await at.ask("POST", "/v1/changes/c-1/halt", {"reason": "look again"})
        assert (await at.ask("POST", "/v1/changes/c-1/resume", {"reason": "go"}))["state"] == "preparing"


async def test_what_a_later_change_has_touched_is_not_taken_back(founded: Founded, beside: Database) -> None:
    """The later one is named, nothing is done; and what nobody has touched is put back, as a change of its own."""
    async with running(founded) as at:
        await at.declare("{kind: Organization, id: acme, spec: {name: Acme}}")
        begin(beside)
        await at.declare("{kind: Organization, id: acme, spec: {name: Other}}")
        with pytest.raises(ClientError) as found:
            await at.ask("POST", "/v1/changes/c-1/revert", {})
        assert found.value.code == "conflict" and "Organization acme" in str(found.value)
        await at.declare("{kind: Organization, id: acme, spec: {name: Acme}}")
        answer = await at.ask("POST", "/v1/changes/c-1/revert", {"message": "it was wrong"})
        assert (answer["change"], answer["reverts"], answer["message"]) == ("c-2", "c-1", "it was wrong")
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []
        assert await refusal(at.ask("POST", "/v1/changes/c-1/revert", {})) == "conflict"


# ---- approving


async def test_four_eyes_over_tls(founded: Founded, beside: Database) -> None:
    """By certificate; the author, a viewer and another plan are refused over the same way, and nothing has begun."""
    async with running(founded) as at:
        change = begin(beside, approvals=2)
        people = {
            name: await Afar(at, name).added(role=role)
            for name, role in (("ann", "admin"), ("bob", "approver"), ("vic", "viewer"), ("aut", "author"))
        }

        async def approve(name: str, plan_hash: str = PLAN_HASH) -> dict:
            return await people[name].ask("POST", "/v1/changes/c-1/approve", {"plan_hash": plan_hash})

        for name in ("ann", "vic", "aut"):
            assert await refusal(approve(name)) == "permission_denied"
        assert await refusal(approve("bob", "sha256:other")) == "conflict"
        assert (await people["vic"].ask("GET", "/v1/changes/c-1"))["approvals"] == 0
        assert (await approve("bob"))["state"] == "proposed"
        assert await refusal(approve("bob")) == "conflict"
        found = await at.ask("POST", "/v1/changes/c-1/approve", {"plan_hash": change.plan_hash})
        assert (found["state"], found["approvals"], found["approvals_needed"]) == ("preparing", 2, 2)
        given = (await at.ask("GET", "/v1/changes/c-1"))["approved_by"]
        assert [each["operator"].partition(":")[0] for each in given] == ["operator", "uid"]
        assert await refusal(at.ask("POST", "/v1/changes/c-1/approve", {"plan_hash": PLAN_HASH})) == "conflict"
        with beside.read() as transaction:
            assert records.get(transaction, 1).state is not ChangeState.PROPOSED


STATE = """
{kind: Cluster, id: prod, spec: {coordinators: ['https://localhost:7443']}}
---
{kind: Organization, id: acme}
---
{kind: RolloutPolicy, id: strict, spec: {approvals: 1}}
---
{kind: Node, id: n-1, spec: {roles: [egress_service], organizations: [acme]}}
---
{kind: Service, id: web, spec: {organization: acme, runs_on: {roles: [egress_service]}, settings: {workers: WORKERS}}}
"""


async def test_who_approves_what_another_apply_has_replaced_is_told_so(founded: Founded) -> None:
    """By the name of what stands in its place, and what to do with that; that one can be approved."""
    async with running(founded) as at:
        bob = await Afar(at, "bob").added(role="approver")
        await at.admit("n-1")
        await at.apply(STATE.replace("WORKERS", "1"))
        shown = await at.apply(STATE.replace("WORKERS", "2"))
        seen = await bob.ask("GET", f"/v1/changes/{shown['change']}")
        assert (seen["state"], seen["approvals_needed"]) == ("proposed", 1)
        await at.ask("POST", f"/v1/changes/{seen['change']}/halt", {"reason": "another one is better"})
        later = await at.apply(STATE.replace("WORKERS", "3"))
        with pytest.raises(ClientError) as found:
            await bob.ask("POST", f"/v1/changes/{seen['change']}/approve", {"plan_hash": seen["plan_hash"]})
        assert found.value.code == "conflict"
        assert f"{seen['change']} is outdated" in str(found.value) and f"changes diff {later['change']}" in str(
            found.value
        )
        stands = await bob.ask("GET", f"/v1/changes/{later['change']}")
        assert (stands["state"], stands["approvals"]) == ("proposed", 0)
        given = {"plan_hash": stands["plan_hash"]}
        assert (await bob.ask("POST", f"/v1/changes/{later['change']}/approve", given))["state"] == "preparing"


async def test_a_plan_that_another_apply_has_made_outdated_is_not_carried_out(founded: Founded) -> None:
    """Whoever has looked at it is told, with what to do; of the other one nothing is undone."""
    async with running(founded) as at:
        await Afar(at, "bob").added(role="approver")
        await at.admit("n-1")
        await at.apply(STATE.replace("WORKERS", "1"))
        seen = await at.apply(STATE.replace("WORKERS", "2"), dry_run=True)
        other = await at.apply(STATE.replace("WORKERS", "3"))
        with pytest.raises(ClientError) as found:
            await at.apply(STATE.replace("WORKERS", "2"), based_on=seen["based_on"])
        assert found.value.code == "concurrent_update" and "diff again" in str(found.value)
        assert (await at.ask("GET", "/v1/changes"))["changes"][0]["change"] == other["change"]
        again = await at.apply(STATE.replace("WORKERS", "2"), dry_run=True)
        made = await at.apply(STATE.replace("WORKERS", "2"), based_on=again["based_on"])
        assert (await at.ask("GET", f"/v1/changes/{made['change']}"))["waits_for"] == other["change"]


async def test_more_approvals_than_operators_are_refused_with_file_and_line(founded: Founded) -> None:
    async with running(founded) as at:
        await Afar(at, "bob").added(role="approver")
        await at.admit("n-1")
        asking = STATE.replace("WORKERS", "1").replace("approvals: 1", "approvals: 2")
        with pytest.raises(ClientError) as found:
            await at.apply(asking)
        assert found.value.code == "invalid_resources"
        assert "RolloutPolicy strict asks for 2 approvals, and beside you 1 may approve" in str(found.value)
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []
        await Afar(at, "cleo").added(role="approver")
        assert (await at.apply(asking))["change"] == "c-1"

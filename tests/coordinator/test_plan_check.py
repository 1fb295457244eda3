"""Plans that are in form, and are refused for what they would make of the nodes: over HTTP, on both databases."""

from dataclasses import replace

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.changes import records
from coordinator.changes.records import ChangeRequest
from coordinator.database import audit_log, catalog, cluster_state
from coordinator.publishing import declarations, plan_check
from coordinator.publishing.backlog import Backlog
from coordinator.reports import heartbeats
from tests.coordinator import copies, reports
from tests.coordinator.bundles import Bundles
from tests.coordinator.candidates import admit, members
from tests.coordinator.daemon import running
from tests.coordinator.founding import Founded
from tests.coordinator.publishing import Press, copied
from tests.coordinator.test_admin_api import refused_apply, refused_files


@pytest.fixture
def founded(tmp_path, database_url) -> Founded:
    """A coordinator on either database."""
    return Founded(tmp_path, database_url, settings="joins_per_minute = 1000")


# ---- what is too much: judged, refused, and let pass


def fleet(count: int, table: int = 20, *, service: bool = True) -> str:
    """So many nodes, and a table of so many routes for each."""
    parts = ["{kind: Organization, id: acme}"]
    spec = "{roles: [core_mesh, egress_service], organizations: [acme]}"
    parts += [f"{{kind: Node, id: node-{number}, spec: {spec}}}" for number in range(count)]
    nodes = ", ".join(f"node-{number}" for number in range(count))
    parts += [f"{{kind: Service, id: web, spec: {{organization: acme, runs_on: {{nodes: [{nodes}]}}}}}}"]
    parts += [f"{{kind: Route, id: r{number}, spec: {{organization: acme, service: web}}}}" for number in range(table)]
    if service:
        runs_on = "{roles: [egress_service]}"
        parts += [f"{{kind: Service, id: quota, spec: {{organization: acme, runs_on: {runs_on}}}}}"]
    return "\n---\n".join(parts)


@pytest.fixture
def press(database) -> Press:
    """Three members with what `fleet` says."""
    bundles, kept = copies.made(database, "what fleet says", fill)
    return Press(database, bundles=replace(bundles), kept=copied(kept))


def fill(database) -> tuple[Bundles, Backlog]:
    members(database, *NODES)
    made = Press(database)
    made.add_bundle()
    made.apply(fleet(3))
    made.publish()
    return replace(made.bundles), copied(made.kept)


def carry(press, text, *, allow="", prune=True, dry_run=False):
    ask = ChangeRequest(allow=allow)
    judged = plan_check.judge(press.database, press.propose(text, prune=prune), ask)
    how = {"actor": "alice", "now": press.now, "ask": ask, "dry_run": dry_run}
    return declarations.carry_out(press.database, judged, **how)


def refused(press, text, **how):
    """The refusal; nothing has changed, and no node is told anything else."""
    before = everything(press)
    with pytest.raises(Refused) as caught:
        carry(press, text, **how)
    assert everything(press) == before
    assert press.due() == []
    return caught.value


def everything(press):
    with press.database.read() as transaction:
        state_id = cluster_state.standing(transaction).state_id
        known = catalog.resources(transaction)
        return state_id, known, records.list_changes(transaction), {n: press.listing(n) for n in NODES}


NODES = ("node-0", "node-1", "node-2")


def test_a_plan_that_empties_everything_is_refused(press):
    """An apply from an empty folder, with --prune; a script that deletes what it should not (AWS 2017, Rogers 2022)."""
    refusal = refused(press, "{kind: Organization, id: acme}")
    assert refusal.code is Code.TOO_MUCH_CHANGE
    assert any("3 of 3 nodes would lose a scope (100 %)" in line for line in refusal.lines)
    good = carry(press, fleet(3, 21))
    assert good.change is not None
    assert not good.change.record.allowed


def test_a_table_that_loses_half_is_refused_with_its_numbers(press):
    refusal = refused(press, fleet(3, 10))
    (line,) = refusal.lines
    assert line == (
        "route_policy of node-0 and 2 more: 10 of 20 entries removed (50 %); at most 30 % at a time, from 10 on"
    )
    assert refusal.remedy.startswith("look at the plan; if it is meant: holdfastctl apply --allow sha256:")


def test_a_node_that_joins_makes_no_other_plan(press):
    """Who looks at a plan of a fleet that grows could never let it pass otherwise."""
    half = fleet(3, 10)
    allow = carry(press, half, dry_run=True).plan_hash
    admit(press.database, "newcomer")
    press.publish()
    assert carry(press, half, allow=allow).change.record.allowed


def test_what_else_is_declared_meanwhile_makes_it_another_plan(press):
    """Its changes are the same, and what they do may be more than what was looked at."""
    half, other = fleet(3, 10), "\n---\n{kind: Organization, id: other}"
    allow = carry(press, half, dry_run=True).plan_hash
    carry(press, fleet(3) + other)
    assert refused(press, half + other, allow=allow).code is Code.PLAN_DIFFERS


def test_the_plan_that_is_named_passes_once(press):
    half = fleet(3, 10)
    allow = carry(press, half, dry_run=True).plan_hash
    assert allow in refused(press, half).remedy
    done = carry(press, half, allow=allow)
    assert done.change is not None
    assert done.change.record.allowed
    assert [line for line in done.verdict.warnings if line.startswith("allowed: route_policy")]
    (row,) = audit_log.read(press.database, action=declarations.ALLOWED)
    assert row.actor == "alice"
    assert row.after["plan_hash"] == allow
    back = fleet(3, 20)
    carry(press, back)
    assert refused(press, half, allow=allow).code is Code.PLAN_DIFFERS
    assert refused(press, half).code is Code.TOO_MUCH_CHANGE


def test_what_names_another_plan_lets_nothing_pass(press):
    half = fleet(3, 10)
    other = carry(press, fleet(3, 11), dry_run=True).plan_hash
    refusal = refused(press, half, allow=other)
    assert refusal.code is Code.PLAN_DIFFERS
    assert other in refusal.detail
    assert refused(press, fleet(3, 21), allow=other).code is Code.PLAN_DIFFERS  # nor one that needs nobody's leave
    assert carry(press, fleet(3, 21)).change is not None


def test_a_plan_that_needs_nobodys_leave_is_not_marked(press):
    text = fleet(3, 21)
    done = carry(press, text, allow=carry(press, text, dry_run=True).plan_hash)
    assert not done.change.record.allowed


def test_a_plan_that_is_only_shown_is_shown_with_what_it_would_be_refused_for(press):
    shown = carry(press, fleet(3, 10), dry_run=True)
    assert [refusal.code for refusal in shown.verdict.refusals] == [Code.TOO_MUCH_CHANGE]


def test_first_publications_are_never_too_much(press):
    """Whoever has nothing loses nothing: a new fleet, and a new member of an old one."""
    admit(press.database, "node-3")
    assert carry(press, fleet(4, 24)).change is not None


def test_what_is_taken_back_is_not_too_much(press):
    """Else nobody could undo what the guard let pass."""
    half = fleet(3, 10)
    change = carry(press, half, allow=carry(press, half, dry_run=True).plan_hash).change
    ask = ChangeRequest(reverts=change.record.change_id)
    judged = plan_check.judge(press.database, press.propose(fleet(3, 0)), ask)
    assert judged.verdict is None


def test_what_services_can_take_is_known_when_a_plan_is_judged(press):
    """The node that would say no is named before it is asked; a limit that a report has no more counts no more."""
    limits = {"route_policy": {"entries": 22, "bytes": None, "removed_percent": None}}
    report(press, "node-1", limits=limits)
    assert carry(press, fleet(3, 22), dry_run=True).verdict.refusals == ()
    refusal = refused(press, fleet(3, 23))
    assert refusal.lines == ("route_policy of node-1: 23 entries; at most 22 by what a service there says",)
    report(press, "node-1")
    assert carry(press, fleet(3, 23)).change is not None


def report(press, node_id, **more):
    heartbeats.record(press.database, [reports.heartbeat(node_id, **more)], now=press.now)


# ---- Expectations

QUOTA = """
{kind: Organization, id: acme}
---
{kind: Node, id: node-a, spec: {roles: [egress_service], organizations: [acme], labels: {tier: edge}}}
---
kind: Service
id: quota
spec:
  organization: acme
  runs_on: {nodes: [node-a]}
  settings: {policy: {region: NAME, limit: 5}}
"""
WANTED = """
kind: Expectation
id: regions-are-named
spec:
  of: {labels: {tier: edge}}
  scope: service_assignment/quota
  pointer: /services/quota/settings/policy/region
  is: {at_least: 1}
"""
FOUND = (
    "regions-are-named: service_assignment/quota /services/quota/settings/policy/region of node-a:"
    ' found "", expected at least 1'
)
BLANK = QUOTA.replace("NAME", '""')
GOOD = QUOTA.replace("NAME", "eu-1")
BETTER = QUOTA.replace("NAME", "eu-2")


async def test_a_blank_field_is_refused_with_file_line_and_what_was_found(founded):
    """The quota that named no region, and every machine that read it fell (Google Cloud, June 2025)."""
    async with running(founded) as at:
        files = {"quota.yaml": GOOD, "expected/quota.yaml": "\n---" + WANTED}
        assert (await at.ask("POST", "/v1/apply", {"files": files}))["refusals"] == []
        before = await at.ask("GET", "/v1/resources")
        answer = await refused_files(at, {**files, "quota.yaml": BLANK}, 422)
        assert answer["code"] == "expectation_failed"
        (problem,) = answer["problems"]
        assert (problem["file"], problem["line"], problem["field"]) == ("expected/quota.yaml", 3, "spec.is")
        assert problem["message"] == FOUND
        assert await at.ask("GET", "/v1/resources") == before
        done = await at.ask("POST", "/v1/apply", {"files": {**files, "quota.yaml": BETTER}})
        assert done["outcome"] == "applied"


async def test_also_by_who_applies_another_file_and_has_never_seen_the_expectation(founded):
    async with running(founded) as at:
        await at.ask("POST", "/v1/apply", {"files": {"a.yaml": GOOD, "wanted.yaml": WANTED}})
        (problem,) = (await refused_apply(at, BLANK))["problems"]
        assert (problem["file"], problem["line"]) == ("wanted.yaml", 2)
        assert (await at.apply(BETTER))["outcome"] == "applied"


async def test_a_plan_that_is_only_shown_says_what_it_would_be_refused_for(founded):
    async with running(founded) as at:
        await at.ask("POST", "/v1/apply", {"files": {"a.yaml": GOOD, "wanted.yaml": WANTED}})
        shown = await at.apply(BLANK, dry_run=True)
        assert [refusal["code"] for refusal in shown["refusals"]] == ["expectation_failed"]
        assert shown["changes"]


async def test_what_warns_only_is_carried_out(founded):
    async with running(founded) as at:
        warning = WANTED.replace("is: {", "action: warn\n  is: {")
        done = await at.ask("POST", "/v1/apply", {"files": {"a.yaml": BLANK, "wanted.yaml": warning}})
        assert done["outcome"] == "applied"
        assert f"Expectation {FOUND}" in done["warnings"]


async def test_one_that_concerns_no_node_is_warned_of(founded):
    async with running(founded) as at:
        lost = WANTED.replace("tier: edge", "tier: core")
        done = await at.ask("POST", "/v1/apply", {"files": {"a.yaml": GOOD, "wanted.yaml": lost}})
        assert "Expectation regions-are-named concerns no node; correct its `of` or its `scope`" in done["warnings"]
        assert done["outcome"] == "applied"


async def test_a_pointer_out_of_form_is_a_fault_of_the_file(founded):
    async with running(founded) as at:
        answer = await refused_apply(at, WANTED.replace("pointer: /services", "pointer: services"))
        assert answer["code"] == "invalid_resources"
        assert [problem["field"] for problem in answer["problems"]] == ["spec.pointer"]


async def test_what_was_judged_in_another_state_is_judged_again(founded, monkeypatch):
    """rules H38: between the judgement and the writing another change came, and this one breaks what that expects."""
    judge, late = plan_check.judge, [WANTED]

    def slow_judge(database, proposal, ask):
        judged = judge(database, proposal, ask)
        while late:
            declarations.apply(database, {"wanted.yaml": late.pop()}, actor="somebody", now=1.0)
        return judged

    async with running(founded) as at:
        await at.apply(GOOD)
        monkeypatch.setattr(plan_check, "judge", slow_judge)
        assert (await refused_apply(at, BLANK))["code"] == "expectation_failed"
        assert (await at.ask("GET", "/v1/resources/Service/quota"))["spec"]["settings"]["policy"]["region"] == "eu-1"
        assert (await at.apply(BETTER))["changes"]

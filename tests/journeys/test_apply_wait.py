"""`holdfastctl apply --wait` with the programs as they are shipped: what is seen of a change from its apply to its end,
and what a person can do of it meanwhile (docs/changes.md)."""

import json
import re
import signal
from collections.abc import Callable, Iterator

import pytest

from holdfast.ctl.change_watch import INTERRUPTED
from holdfast.ctl.socket import NOT_DONE, REFUSED
from tests.holdfast.operator_lab import Lab
from tests.holdfast.watching import BAR, Watching, on_a_screen
from tests.journeys import edges
from tests.journeys.edges import THREE_RINGS, Edges

SLOW = "bake_s: 600, rings: [{nodes: 1}, {percent: 100}]"
NAMES = {"edge-1", "edge-2", "edge-3", "edge-4"}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edges]:
    with edges.running(tmp_path_factory.mktemp("edges"), len(NAMES)) as fleet:
        yield fleet


@pytest.fixture
def fleet(started: Edges) -> Edges:
    """All of whose nodes are there, and go by the same."""
    hosts = started.hosts("edge-1")
    started.until(lambda: all(started.hosts(name) == hosts for name in NAMES))
    return started


@pytest.fixture
def watch(fleet: Edges, tmp_path) -> Iterator[Callable[..., Watching]]:
    begun: list[Watching] = []

    def start(*arguments: object) -> Watching:
        begun.append(Watching(fleet.lab, tmp_path / f"said-{len(begun)}", *arguments))
        return begun[-1]

    yield start
    for each in begun:
        each.end()


def applying(fleet: Edges, message: str, *options: object) -> tuple[object, ...]:
    return ("apply", "-f", fleet.declared, "-m", message, "--yes", "--wait", *options)


def test_it_is_seen_from_the_vote_through_the_rings_to_its_end(fleet: Edges) -> None:
    fleet.declare("second.example")
    ran = fleet.lab.good(*applying(fleet, "another host"))
    lines = ran.out.splitlines()
    change = re.search(r"by (c-\d+) \(holdfastctl changes wait", ran.out)[1]
    assert f"{change} preparing: 4/4 accepted" in lines
    assert [number for number in (1, 2, 3) if f"{change} rolling: ring {number}/3" in ran.out] == [1, 2, 3]
    assert re.fullmatch(rf"{change} done in .* s: 4 of 4 nodes run it", lines[-1]), lines[-1]
    fleet.until_all_run("second.example")
    listed = fleet.lab.good("changes", "list").out.splitlines()[1].rstrip()
    assert listed.startswith(change) and re.search(r" done +4/4 +another host$", listed)


def test_scripts_get_a_line_for_each_step(fleet: Edges) -> None:
    fleet.declare("scripted.example")
    ran = fleet.lab.good(*applying(fleet, "for scripts", "--json"))
    applied, *told = map(json.loads, ran.out.splitlines())
    assert applied["outcome"] == "applied" and {line["change"] for line in told} == {applied["change"]}
    states = [line["state"] for line in told]
    assert states == sorted(states, key=["preparing", "rolling", "done"].index) and states[-1] == "done"
    assert max(line["counts"]["accepted"] for line in told) == 4
    rings = [line["courses"][0]["ring"] for line in told]
    assert rings == sorted(rings) and rings[-1] == 3
    assert told[-1]["counts"]["active"] == 4 and set(told[-1]["took"]) == {"p50", "p99"}


def test_somebody_who_looks_sees_a_bar(fleet: Edges) -> None:
    fleet.declare("looked-at.example")
    with on_a_screen(fleet.lab, *applying(fleet, "a bar")) as screen:
        screen.until("rolling: ring 1/3")
        assert BAR in screen.text
        screen.until("4 of 4 nodes run it")
        assert screen.ended() == 0


def test_what_one_proxy_refuses_nobody_runs_and_the_status_says_so(fleet: Edges) -> None:
    """rules S53: halted with nobody changed; the next apply takes its place, and goes through"""
    before = fleet.hosts("edge-1")
    fleet.declare("forbidden.example")
    ran = fleet.lab.ctl(*applying(fleet, "a mistake"))
    assert ran.status == NOT_DONE
    assert re.search(r"refused route_policy at step 12, validator_refused: .*this host is not ours", ran.out)
    assert "0 of 4 nodes were given it" in ran.out and "holdfastctl changes revert" in ran.out
    assert all(fleet.hosts(name) == before for name in NAMES)
    assert all(fleet.nodes[name].status["state"] == "active" for name in NAMES)
    change = re.search(r"^(c-\d+) halted", ran.out, re.MULTILINE)[1]
    shown = fleet.lab.good("changes", "show", change).out
    assert re.search(r"edge-\d refused route_policy at step 12", shown) and "a mistake" in shown
    fleet.declare("mended.example")
    assert f"supersedes {change}" in fleet.lab.good(*applying(fleet, "mended")).out
    fleet.until_all_run("mended.example")
    assert fleet.change(change)["state"] == "superseded"


def test_damage_takes_one_node_for_a_second_and_the_change_goes_back(fleet: Edges) -> None:
    """With `on_failure: revert` nobody is asked for it."""
    before = fleet.hosts("edge-1")
    fleet.declare("damaging.example", policy=f"{THREE_RINGS}, on_failure: revert")
    ran = fleet.lab.ctl(*applying(fleet, "harm"))
    assert ran.status == NOT_DONE and re.search(r"^c-\d+ reverted: 1 of 1 nodes of ring 1", ran.out, re.MULTILINE)
    assert "502 all the way" in ran.out
    fleet.until(lambda: all(fleet.hosts(name) == before for name in NAMES))
    fleet.declare("healed.example")
    fleet.lab.good(*applying(fleet, "healed"))
    fleet.until_all_run("healed.example")


def test_ctrl_c_ends_the_watching_and_a_person_decides(fleet: Edges, watch) -> None:
    """Halted where it is, let go on, halted once more, taken back: each word of it stands in the timeline."""
    before = fleet.hosts("edge-1")
    fleet.declare("long.example", policy=SLOW)
    watching = watch(*applying(fleet, "a long one"))
    watching.until("rolling: ring 1/2")
    watching.process.send_signal(signal.SIGINT)
    status, said = watching.ended()
    change = re.search(r"(c-\d+) goes on", said)[1]
    assert status == INTERRUPTED
    assert f"holdfastctl changes wait {change}" in said and f"holdfastctl changes halt {change}" in said
    fleet.until(lambda: len(fleet.run("long.example")) == 1)
    assert fleet.change(change)["state"] == "rolling"
    assert "halted" in fleet.lab.good("changes", "halt", change, "--reason", "lunch").out
    assert fleet.lab.ctl("changes", "wait", change).status == NOT_DONE
    assert "rolling" in fleet.lab.good("changes", "resume", change, "--yes").out
    again = fleet.lab.ctl("changes", "resume", change, "--yes")
    assert again.status == REFUSED and "was not halted" in again.err
    assert '-> ["long.example"]' in fleet.lab.good("changes", "diff", change).out
    taken = fleet.lab.good("changes", "revert", change, "--now", "it was long enough", "--yes", "--wait").out
    assert re.search(r"^c-\d+ done", taken, re.MULTILINE)
    fleet.until(lambda: all(fleet.hosts(name) == before for name in NAMES))
    shown = fleet.lab.good("changes", "show", change).out
    assert "halted: by uid:" in shown and "lunch" in shown and "resumed" in shown
    assert fleet.change(change)["state"] == "reverted"
    assert f"reverts {change}" in fleet.lab.good("changes", "list").out


def test_why_a_node_does_not_have_it_yet_is_said_wherever_one_looks(fleet: Edges) -> None:
    """Of who has it, nothing is said; and once it is taken back, of nobody."""
    fleet.declare("long.example", policy=SLOW)
    change = fleet.apply("-m", "a long one")
    fleet.until(lambda: len(fleet.run("long.example")) == 1)
    (canary,) = fleet.run("long.example")
    waiting = min(NAMES - {canary})
    fleet.lab.good("changes", "halt", change, "--reason", "lunch")
    why = re.compile(rf"by {change}, which is halted: by uid:\d+: lunch")
    for words in (("nodes", "show"), ("explain",)):
        said = {name: fleet.lab.good(*words, name).out for name in (waiting, canary)}
        assert why.search(" ".join(said[waiting].split())), (words, said[waiting])
        assert "halted" not in said[canary], (words, said[canary])
    held_back = fleet.lab.good("diff", "--json").json["held_back"]
    assert held_back.keys() == NAMES - {canary} and why.match(held_back[waiting]["route_policy"])
    assert f"by {change}" in fleet.lab.good("diff").out
    fleet.lab.good("changes", "revert", change, "--now", "it was long enough", "--yes", "--wait")
    assert "HELD BACK" not in fleet.lab.good("nodes", "show", waiting).out


def test_who_is_switched_off_is_named_holds_nothing_up_and_gets_it_later(fleet: Edges) -> None:
    away = fleet.nodes["edge-4"]
    away.kill()
    fleet.declare("absent.example")
    change = fleet.apply("-m", "without one")
    ended = fleet.until_state(change, "done", "halted")
    counts = ended["counts"]
    assert (ended["state"], counts["active"], counts["offline"]) == ("done", 3, 1), ended
    shown = fleet.lab.good("changes", "show", change).out
    assert re.search(r"switched off, and they get it when they return: edge-4$", shown, re.MULTILINE), shown
    assert "3 of 4 nodes run it, 1 offline and left out" in fleet.lab.good("changes", "wait", change).out
    assert set(fleet.run("absent.example")) == NAMES - {"edge-4"}
    away.start()
    fleet.until_all_run("absent.example")


def test_a_node_that_restarts_in_the_middle_votes_and_gets_it(fleet: Edges, watch) -> None:
    """Its vote, or what it had before that, is lost with its memory and nothing else."""
    fleet.declare("restarted.example")
    watching = watch(*applying(fleet, "with a restart"))
    watching.until("applied: ")
    fleet.nodes["edge-2"].kill()
    fleet.nodes["edge-2"].start()
    status, said = watching.ended()
    assert status == 0 and "4 of 4 nodes run it" in said, said
    fleet.until_all_run("restarted.example")


def test_what_goes_at_once_says_why_for_ever(fleet: Edges) -> None:
    fleet.declare("urgent.example", policy=SLOW)
    said = fleet.lab.good(*applying(fleet, "urgent", "--now", "the certificate is burnt")).out
    change = re.search(r"^(c-\d+) done", said, re.MULTILINE)[1]
    fleet.until_all_run("urgent.example")
    assert re.search(rf"^{change} .*urgent \(now\) *$", fleet.lab.good("changes", "list").out, re.MULTILINE)
    assert "the certificate is burnt" in fleet.lab.good("changes", "show", change).out
    audit = fleet.lab.good("audit", "--json").json["entries"]
    (begun,) = (entry for entry in audit if entry["action"] == "change.begin" and entry["subject"] == change)
    assert begun["after"]["immediately"] == "the certificate is burnt"


def test_a_coordinator_that_is_killed_meanwhile_goes_on_and_so_does_who_watches(fleet: Edges, watch) -> None:
    fleet.declare("outlived.example", policy="bake_s: 5, rings: [{nodes: 1}, {percent: 100}]")
    watching = watch(*applying(fleet, "over a restart"))
    watching.until("rolling: ring 1/2")
    fleet.lab.process.kill()
    fleet.lab.process.wait()
    watching.until("it is asked again")
    fleet.lab.start()
    status, said = watching.ended()
    assert status == 0 and "4 of 4 nodes run it" in said, said
    fleet.until_all_run("outlived.example")


def test_what_needs_a_second_pair_of_eyes_waits_for_it(fleet: Edges) -> None:
    """Who has made it does not approve it; nobody is told of it before."""
    lab, policy = fleet.lab, f"{THREE_RINGS}, approvals: 1"
    for name, role in (("alice", "author"), ("bob", "approver")):
        lab.good("operators", "key", name, "--out", lab.folder)
        lab.good("operators", "add", name, "--certificate", f"{name}.crt", "--role", role, "--yes")
    before = fleet.hosts("edge-1")
    fleet.declare(before[0], policy=policy)
    fleet.apply("-m", "two of us from now on")
    fleet.declare("agreed.example", policy=policy)
    change = lab.good(*by("alice", lab), "apply", "-f", fleet.declared, "--yes", "--json").json["change"]
    own = lab.ctl(*by("alice", lab), "changes", "approve", change, "--yes")
    assert own.status == REFUSED and "permission_denied" in own.err
    assert fleet.change(change)["state"] == "proposed" and fleet.hosts("edge-1") == before
    lab.good(*by("bob", lab), "changes", "approve", change, "--yes")
    lab.good("changes", "wait", change)
    fleet.until_all_run("agreed.example")
    assert re.search(r"approved by +operator:bob: 1 of 1", lab.good("changes", "show", change).out)


def by(name: str, lab: Lab) -> tuple[object, ...]:
    """As an operator has it on another machine."""
    url, ca = f"https://localhost:{lab.ports['operators']}", lab.folder / "state/tls/ca.pem"
    return ("--url", url, "--ca", ca, "--certificate", f"{name}.crt", "--key", f"{name}.key")

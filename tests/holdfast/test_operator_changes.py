"""`holdfastctl changes` and `apply --wait` against a real coordinator: shown, watched, approved (docs/changes.md)."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.changes import records
from coordinator.changes.records import CandidateVote, ChangeNode, ChangeRecord
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.setup.opening import with_history
from holdfast.ctl.change_watch import INTERRUPTED
from holdfast.ctl.socket import DIFFERENT, NOT_DONE, NOT_FOUND, REFUSED, UNCONFIRMED
from tests.coordinator.begun_changes import PLAN_HASH, begin, save
from tests.holdfast.operator_lab import UNGUARDED, Lab, running
from tests.holdfast.watching import BAR, Watching, on_a_screen

NO = CandidateVote("sha256:c", "refused", 12, "validator_refused", "web: \x1b[31mno upstream", 1.0)
REFUSING = ChangeNode(0, "n-7", ("route_policy",), step=Step.OFFERED, votes={"route_policy": NO})
SILENT = ChangeNode(0, "n-8", ("route_policy",))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture
def beside(lab: Lab) -> Iterator[Database]:
    database = with_history(Database(f"sqlite:///{lab.folder}/state/coordinator.db"), lab.folder / "state" / "keys")
    yield database
    database.close()


def name_of(record: ChangeRecord) -> str:
    return f"c-{record.change_id}"


def newest(database: Database) -> ChangeRecord:
    with database.read() as transaction:
        return records.list_changes(transaction, most=1)[0]


def test_they_are_listed_and_shown(lab: Lab, beside: Database) -> None:
    """Also what a node wrote: none of it reaches the terminal as it is (threats D-59)."""
    change = name_of(begin(beside, REFUSING, SILENT, state=ChangeState.HALTED, why="1 of 1 did not accept it"))
    with beside.change(actor="uid:0", now=1.0) as transaction:
        records.note(transaction, int(change[2:]), "later than this program", "n-7", "a\x1b[2Jb")
        transaction.audit("change", change)
    listed = lab.good("changes", "list").out
    assert re.search(rf"^{change} .* operator:ann .*halted .*0/2 .*more of it$", listed, re.MULTILINE)
    assert change in lab.good("changes", "list", "--state", "halted").out
    assert change not in lab.good("changes", "list", "--state", "done").out
    assert lab.good("changes", "list", "--json").json["changes"][0]["change"] == change
    shown = lab.good("changes", "show", change).out
    assert "n-7 refused route_policy at step 12, validator_refused: web: " in shown and "\x1b" not in shown
    assert "1 of 1 did not accept it" in shown and "n-7 later than this program" in shown
    assert "2 touched, 1 asked, 1 refused" in shown and PLAN_HASH in shown
    diff = lab.good("changes", "diff", change).out
    assert "+ Organization acme" in diff and PLAN_HASH in diff
    assert lab.good("changes", "diff", change, "--json").json["changes"][0]["verb"] == "create"


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [("c-999", NOT_FOUND, "holdfastctl changes list"), ("nothing", REFUSED, "changes are c-1, c-2"), ("", REFUSED, "")],
)
@pytest.mark.parametrize("command", ["show", "diff", "wait", "approve"])
def test_what_there_is_not(lab: Lab, command: str, change: str, status: int, said: str) -> None:
    ran = lab.ctl("changes", command, change)
    assert ran.status in (status, NOT_FOUND) and said in ran.err and not ran.out and "Traceback" not in ran.err


@pytest.fixture
def watch(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Watching]]:
    started: list[Watching] = []

    def start(*arguments: object) -> Watching:
        started.append(Watching(lab, tmp_path / f"log-{len(started)}", *arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.parametrize(
    ("state", "status", "said"),
    [
        (ChangeState.DONE, 0, "0 of 2 nodes run it"),
        (ChangeState.HALTED, NOT_DONE, "halted: because"),
        (ChangeState.REVERTED, NOT_DONE, "reverted: because"),
        (ChangeState.SUPERSEDED, NOT_DONE, "superseded by c-1"),
    ],
)
def test_how_it_ends_is_the_exit_status(lab: Lab, beside: Database, watch, state, status: int, said: str) -> None:
    """In plain lines, each said once, where nobody looks at a screen."""
    record = begin(beside, REFUSING, SILENT, approvals=2)
    watching = watch("changes", "wait", name_of(record))
    watching.until("0 of 2 approvals")
    lab.good("changes", "approve", name_of(record), "--yes")
    watching.until("1 of 2 approvals")
    save(beside, newest(beside), state=state, why="because", superseded_by=1, settled_at=record.at + 9)
    ended, told = watching.ended()
    assert (ended, told.count("proposed")) == (status, 2) and said in told


def test_each_line_is_an_answer_for_scripts(lab: Lab, beside: Database, watch) -> None:
    record = begin(beside, REFUSING, approvals=1)
    watching = watch("changes", "wait", name_of(record), "--json")
    watching.until("\n")
    save(beside, record, state=ChangeState.HALTED, why="because")
    status, told = watching.ended()
    lines = [json.loads(line) for line in told.splitlines()]
    assert status == NOT_DONE and [line["state"] for line in lines] == ["proposed", "halted"]
    assert lines[0]["refusals"][0]["node_id"] == "n-7" and len({line["mark"] for line in lines}) == 2


def test_ctrl_c_ends_the_watching_and_not_the_change(lab: Lab, beside: Database, watch) -> None:
    record = begin(beside, SILENT, approvals=1)
    watching = watch("changes", "wait", name_of(record))
    watching.until("proposed")
    watching.process.send_signal(signal.SIGINT)
    status, told = watching.ended()
    assert status == INTERRUPTED and f"holdfastctl changes wait {name_of(record)}" in told
    assert newest(beside) == record


def test_a_coordinator_that_restarts_ends_no_watching(lab: Lab, beside: Database, watch) -> None:
    """Said once, asked again with a pause; the next answer goes on where it was."""
    record = begin(beside, SILENT, approvals=1)
    watching = watch("changes", "wait", name_of(record))
    watching.until("proposed")
    lab.stop()
    watching.until("it is asked again")
    lab.start()
    save(beside, record, state=ChangeState.DONE, settled_at=record.at)
    status, told = watching.ended()
    assert status == 0 and told.count("it is asked again") == 1 and "done" in told


def test_a_place_that_never_answered_is_told_at_once(lab: Lab, tmp_path: Path) -> None:
    ran = lab.ctl("changes", "wait", "c-1", "--socket", tmp_path / "nobody" / "admin.sock")
    assert ran.status == 3 and "asked again" not in ran.err


def test_a_bar_where_somebody_looks(lab: Lab, beside: Database) -> None:
    """It says how far it is, and is gone at the end: what it came to stands there."""
    record = begin(beside, REFUSING, SILENT, approvals=1)
    with on_a_screen(lab, "changes", "wait", name_of(record)) as screen:
        screen.until("proposed: 0 of 1 approvals")
        assert BAR in screen.text
        save(beside, record, state=ChangeState.HALTED, why="because")
        screen.until("halted: because")
        assert screen.ended() == NOT_DONE


def test_a_plan_is_shown_and_approved_or_not(lab: Lab, beside: Database) -> None:
    """By who is somebody else; the plan that is approved is the one that was shown."""
    change = name_of(begin(beside, approvals=2))
    asked = lab.ctl("changes", "approve", change, stdin="n\n")
    assert asked.status == UNCONFIRMED and "+ Organization acme" in asked.out and "Approve this plan" in asked.err
    other = lab.ctl("changes", "approve", change, "--plan", "sha256:other", "--yes")
    assert other.status == REFUSED and "conflict" in other.err and PLAN_HASH in other.err
    assert "1 of 2 approvals" in lab.good("changes", "approve", change, "--yes").out
    twice = lab.ctl("changes", "approve", change, "--yes")
    assert twice.status == REFUSED and "counts once" in twice.err
    shown = lab.good("changes", "show", change).out
    assert re.search(r"approved by\s+uid:\d+: 1 of 2", shown)


# ---- where changes are not guarded


def test_words_of_a_change_are_not_dropped_in_silence(tmp_path: Path) -> None:
    """It is applied, at once to all; what was asked for beyond that is named, and no script takes it for done."""
    with running(tmp_path, settings=UNGUARDED) as lab:
        (lab.folder / "a.yaml").write_text("{kind: Organization, id: acme}")
        applied = lab.ctl("apply", "-f", "a.yaml", "-m", "why", "--now", "in haste", "--wait", "--yes")
        assert "warning: guarded_changes is false" in applied.err
        assert applied.status == DIFFERENT and "there is no change to wait for" in applied.err
        assert lab.good("changes", "list", "--json").json["changes"] == []
        (lab.folder / "a.yaml").write_text("{kind: Organization, id: acme, spec: {name: Acme}}")
        assert "warning" not in lab.good("apply", "-f", "a.yaml", "--yes").err

"""What a person asks of a change: to take it back, and that it goes on."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.changes import records
from coordinator.changes.records import ChangeRecord
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.rollout import commands
from coordinator.runtime import retention
from tests.coordinator.publishing import DAY, Press

FILE = "kind: Config\nid: edge\nspec: {{to: {{nodes: [node-a]}}, files: {{motd: {{text: '{text}', template: true}}}}}}"
ONE, TWO = "${node.id} one", "${node.id} two"


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b", also=FILE.format(text=ONE))


def pass_by(press: Press, seconds: float) -> None:
    press.now += seconds
    press.publish()
    retention.trim(press.database, now=press.now, settings=press.settings)


# ---- revert


def test_what_a_file_held_a_week_ago_comes_back(press: Press) -> None:
    """Nothing that is declared names it, and no document has the text of a template."""
    press.change(FILE.format(text=TWO))
    press.move(1, Step.RELEASED, ring=1)
    press.become(1, ChangeState.DONE)
    pass_by(press, 6 * DAY)
    reader = press.reader().follow()
    assert reader.text("config/edge").endswith(b"two")
    plan = commands.revert(press.database, 1, actor="operator:ann", now=press.now)
    assert plan.change is not None and list(plan.change.held) == ["node-a"]
    press.move(2, Step.RELEASED, ring=1)
    press.publish()
    assert reader.follow().text("config/edge").endswith(b"one")


def test_what_is_kept_no_more_is_said_and_applied_from_files(press: Press) -> None:
    press.change(FILE.format(text=TWO))
    press.move(1, Step.RELEASED, ring=1)
    press.become(1, ChangeState.DONE)
    pass_by(press, 8 * DAY)
    before = press.listing()
    with pytest.raises(Refused) as caught:
        commands.revert(press.database, 1, actor="operator:ann", now=press.now)
    assert (caught.value.code, caught.value.remedy) == (
        Code.CONFLICT,
        "apply the files as they were: they are uploaded again",
    )
    assert press.due() == [] and press.listing() == before
    assert press.change(FILE.format(text=ONE)).record.name == "c-2"


# ---- resume


@pytest.mark.parametrize("chain", [1, 2])
def test_one_that_waits_for_a_halted_one_is_told_which_and_what_to_do(press: Press, chain: int) -> None:
    """However many lie between; and then each of the ways that it names leads on."""
    for text in ("two", "three", "four")[: chain + 1]:
        press.change(FILE.format(text=text))
    last = chain + 1
    commands.halt(press.database, 1, "too slow", actor="operator:ann", now=press.now)
    before = record(press, last)
    with pytest.raises(Refused) as caught:
        commands.resume(press.database, last, "", actor="operator:ann", now=press.now)
    assert caught.value.code is Code.CONFLICT
    assert caught.value.detail == f"c-{last} waits for c-1, which is halted: by operator:ann: too slow"
    assert "holdfastctl changes resume c-1" in caught.value.remedy
    assert "holdfastctl changes revert c-1" in caught.value.remedy
    assert record(press, last) == before
    assert commands.resume(press.database, 1, "", actor="operator:ann", now=press.now).state is ChangeState.PREPARING
    commands.halt(press.database, 1, "too slow", actor="operator:ann", now=press.now)
    newest = press.change(FILE.format(text="five"))
    assert [change.name for change in newest.superseded] == [f"c-{number}" for number in range(1, last + 1)]


def test_one_that_waits_for_another_that_goes_on_is_told_that(press: Press) -> None:
    press.change(FILE.format(text="two"))
    press.change(FILE.format(text="three"))
    with pytest.raises(Refused) as caught:
        commands.resume(press.database, 2, "", actor="operator:ann", now=press.now)
    assert caught.value.detail == "c-2 was not halted: it waits for c-1, which is preparing"
    assert caught.value.remedy == "wait for that: holdfastctl changes wait c-1"


def test_one_that_waits_for_nobody_was_not_halted(press: Press) -> None:
    press.change(FILE.format(text="two"))
    with pytest.raises(Refused) as caught:
        commands.resume(press.database, 1, "", actor="operator:ann", now=press.now)
    assert caught.value.detail == "c-1 is preparing, and was not halted"


def record(press: Press, change_id: int) -> ChangeRecord:
    with press.database.read() as transaction:
        return records.get(transaction, change_id)

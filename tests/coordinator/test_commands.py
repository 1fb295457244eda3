"""What a person asks of a change: to take it back, and that it goes on."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.rollout import commands
from coordinator.runtime import retention
from tests.coordinator.publishing import DAY, Press

FILE = "kind: Config\nid: edge\nspec: {{to: {{nodes: [node-a]}}, files: {{motd: {{text: '{text}', template: true}}}}}}"
ONE, TWO = "${node.id} one", "${node.id} two"


@pytest.fixture
def press(database: Database) -> Press:
    made = Press.founded(database, "node-a", "node-b")
    made.apply(FILE.format(text=ONE))
    made.publish()
    return made


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

"""What is said of a change in each of its states, and of each node that is not with it. Pure."""

from dataclasses import replace

import pytest

from holdfast.ctl import change_words
from holdfast.ctl.change_words import OVER, ending, moment_words, refusal_words, sentence
from wire.operators.change_answers import ChangeCounts, ChangeCourse, ChangeMoment, ChangeNews, ChangeRefusal

COURSE = ChangeCourse("standard", "baking", 2, 3, 1.0, "all", 30, 99, "halt")
REFUSAL = ChangeRefusal("n-7", "refused", "service_assignment/web", 12, "validator_refused", "web: no upstream", 5.0)
NEWS = ChangeNews(
    change="c-41",
    at=100.0,
    actor="operator:ann",
    message="more of it",
    state="preparing",
    why="",
    plan_hash="sha256:a",
    resources=2,
    counts=ChangeCounts(touched=40, asked=38, accepted=12, offline=2),
    courses=(COURSE,),
    immediately="",
    allowed=False,
    reverts=None,
    waits_for=None,
    superseded_by=None,
    settled_at=None,
    approvals=0,
    approvals_needed=0,
    revision=3,
    mark="3-a",
    refusals=(),
    refusals_total=0,
    offline=("n-1", "n-2"),
    took={},
)
FULL = ChangeCounts(touched=40, asked=40, accepted=40, given=4, active=4)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "c-41 preparing: 12/38 accepted, 2 offline and left out"),
        (
            {"state": "proposed", "approvals": 1, "approvals_needed": 2},
            "c-41 proposed: 1 of 2 approvals, holdfastctl changes approve c-41",
        ),
        ({"waits_for": "c-40"}, "c-41 preparing: waits for c-40, which changes the same"),
        ({"state": "rolling", "counts": FULL}, "c-41 rolling: ring 2/3 bakes 30 s, 4/40 nodes run it"),
        (
            {"state": "rolling", "counts": replace(FULL, active=3, reverted=1)},
            "c-41 rolling: ring 2/3, 3/40 nodes run it, 1 went back",
        ),
        (
            {"state": "rolling", "counts": FULL, "courses": (COURSE, replace(COURSE, policy="", phase="passed"))},
            "c-41 rolling: standard ring 2/3 bakes 30 s, default all rings passed, 4/40 nodes run it",
        ),
        ({"state": "halted", "why": "by hand"}, "c-41 halted: by hand"),
        ({"state": "done"}, "c-41 done"),
    ],
)
def test_how_far_it_is_in_one_line(values: dict, said: str) -> None:
    assert sentence(replace(NEWS, **values)) == said


def test_what_a_state_means() -> None:
    assert change_words.standing(replace(NEWS, state="halted")).startswith("halted: it waits for a person")
    assert change_words.standing(replace(NEWS, state="of a later version")) == "of a later version"
    assert change_words.how_far(replace(NEWS, state="halted", why="by hand")) == ""


def test_what_it_came_to() -> None:
    done = replace(NEWS, state="done", counts=replace(FULL, active=38, offline=2))
    assert ending(done, 94.4) == ["c-41 done in 1 min 34 s: 38 of 40 nodes run it, 2 offline and left out"]
    assert ending(replace(NEWS, state="superseded", superseded_by="c-42"), None) == [
        "c-41 superseded by c-42, which changes the same"
    ]
    assert ending(replace(NEWS, state="reverted", why="n-1 went back"), 3) == ["c-41 reverted: n-1 went back"]
    counts = replace(FULL, given=0, active=0, refused=1)
    halted = replace(NEWS, state="halted", why="1 of 40 no", counts=counts, refusals=(REFUSAL,), refusals_total=13)
    first, who, more, *advice = ending(halted, None)
    assert first == "c-41 halted: 1 of 40 no; 0 of 40 nodes were given it"
    assert who == "    n-7 refused service_assignment/web at step 12, validator_refused: web: no upstream"
    assert more == "    and 12 more"
    assert "changes resume c-41" in advice[0] and "changes revert c-41" in advice[1]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"outcome": "silent", "scope": "", "step": None, "reason": "", "detail": ""}, "n-7 was not heard of"),
        (
            {"outcome": "reverted", "scope": "", "step": None, "reason": "", "detail": "check: 500"},
            "n-7 went back, check: 500",
        ),
        ({"outcome": "odd", "step": None, "detail": ""}, "n-7 odd service_assignment/web, validator_refused"),
    ],
)
def test_each_no_in_words(values: dict, said: str) -> None:
    assert refusal_words(replace(REFUSAL, **values)) == said


def test_a_line_of_the_timeline() -> None:
    assert moment_words(ChangeMoment(1.0, "approved", "", "operator:bob")) == "approved: operator:bob"
    assert moment_words(ChangeMoment(1.0, "of a later version", "n-1", "")) == "n-1 of a later version"


def test_a_halted_change_is_waited_for_no_longer() -> None:
    """It waits for a person; who is proposed, or goes back, goes on."""
    assert {"done", "halted", "reverted", "superseded"} == OVER
    assert change_words.course_words(COURSE) == (
        "all are asked before, 3 rings, each bakes 30 s, 99 % have to take it, else halt; baking, ring 2"
    )


def test_how_a_vote_begins() -> None:
    """Nobody is told that none of none have accepted."""
    assert sentence(replace(NEWS, counts=ChangeCounts(touched=40))) == "c-41 preparing: 40 nodes to ask"


def test_whom_it_was_done_without() -> None:
    said = moment_words(ChangeMoment(1.0, "left_out", "", "2 nodes: n-1, n-2"))
    assert said == "was done without those that are switched off, and they get it when they return: 2 nodes: n-1, n-2"

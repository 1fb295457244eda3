"""What validators have said is not asked twice, and is forgotten in time."""

from dataclasses import dataclass

import pytest

from agent.services.judgements import (
    AGAIN_S,
    KEPT_S,
    MOST,
    ActivationAnswers,
    Judgements,
    SeenState,
    ValidatorAnswer,
)

YES, NO, NONE = ValidatorAnswer(), ValidatorAnswer("web: exit 1"), ValidatorAnswer("web: too slow", judged=False)


def seen(content: str, service: str = "web", revoked: tuple[str, ...] = ()) -> SeenState:
    return SeenState(service, frozenset({("route_policy", content)}), frozenset(revoked))


@dataclass
class Time:
    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def kept(time):
    return Judgements(lambda _, high: high, time)


def test_an_answer_is_of_one_service_and_one_state(kept):
    kept.note(seen("a"), YES)
    kept.note(seen("b"), NO)
    assert (kept.find(seen("a")), kept.find(seen("b"))) == (YES, NO)
    for other in (seen("c"), seen("a", "db"), seen("a", revoked=("s1",))):
        assert kept.find(other) is None


def test_no_judgement_is_asked_again_seldom_and_a_no_never(kept, time):
    kept.note(seen("a"), NONE)
    kept.note(seen("b"), NO)
    pauses = []
    for _ in range(8):
        assert kept.find(seen("a")) == NONE
        pauses.append(kept.rest_s())
        time.at += pauses[-1] + 1
        assert kept.find(seen("a")) is None and kept.rest_s() == 0
        kept.note(seen("a"), NONE)
    assert pauses[0] >= AGAIN_S and pauses == sorted(pauses) and max(pauses) <= 3600
    assert kept.find(seen("b")) == NO
    kept.note(seen("a"), YES)
    assert kept.find(seen("a")) == YES


def test_what_nobody_asks_about_is_forgotten_after_a_while_and_not_at_once(kept, time):
    """a release comes with a head that lists no candidate any more"""
    kept.note(seen("a"), YES)
    kept.find(seen("a"))
    time.at += 10 * KEPT_S
    kept.end_round()
    assert kept.accepts(seen("a")), "as long as it is listed"
    kept.end_round()
    time.at += KEPT_S - 1
    kept.end_round()
    assert kept.accepts(seen("a"))
    time.at += 2
    kept.end_round()
    assert not kept.accepts(seen("a"))


def test_what_is_asked_about_again_stays(kept, time):
    kept.note(seen("a"), YES)
    kept.end_round()
    time.at += KEPT_S - 1
    kept.find(seen("a"))
    kept.end_round()
    time.at += KEPT_S - 1
    kept.end_round()
    assert kept.accepts(seen("a"))


def test_nobody_waits_for_a_state_that_is_gone(kept, time):
    kept.note(seen("a"), NONE)
    kept.find(seen("a"))
    kept.end_round()
    kept.end_round()
    time.at += 2 * AGAIN_S
    assert kept.rest_s() > 0


def test_it_is_bounded(kept):
    for number in range(3 * MOST):
        kept.note(seen(str(number)), YES)
        kept.find(seen(str(number)))
        kept.end_round()
    assert sum(kept.accepts(seen(str(number))) for number in range(3 * MOST)) == MOST
    assert kept.accepts(seen(str(3 * MOST - 1)))


def test_an_activation_takes_a_yes_of_before_and_asks_again_where_it_was_a_no(kept):
    kept.note(seen("a"), YES)
    kept.note(seen("b"), NO)
    answers = ActivationAnswers(kept)
    assert answers.find(seen("a")) == YES
    assert answers.find(seen("b")) is None
    answers.note(seen("c"), YES)
    answers.note(seen("d"), NO)
    assert (answers.find(seen("c")), answers.find(seen("d"))) == (YES, None)
    assert not kept.accepts(seen("c")), "what is to be run leaves nothing behind"

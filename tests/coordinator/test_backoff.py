"""How long a node rests that nothing could be published for, and who goes before it."""

from coordinator.base.backoff import LEAST_S, MOST_S, Resting


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_rests_ever_longer_up_to_a_bound() -> None:
    """rules P1"""
    clock = Clock()
    resting = Resting(clock)
    rests = []
    for _ in range(9):
        resting.note_failure("a")
        start = clock.now
        while resting.ready(["a"]) != ["a"]:
            clock.now += LEAST_S
        rests.append(clock.now - start)
    assert rests == [1, 2, 4, 8, 16, 32, MOST_S, MOST_S, MOST_S]


def test_who_has_not_failed_goes_first() -> None:
    clock = Clock()
    resting = Resting(clock)
    for node_id in ("a", "a", "b"):
        resting.note_failure(node_id)
    assert (resting.ready(["a", "b", "c", "d"]), len(resting)) == (["c", "d"], 2)
    clock.now += MOST_S
    assert resting.ready(["a", "b", "c", "d"]) == ["c", "d", "b", "a"]
    resting.note_success("a")
    assert resting.ready(["a", "b", "c", "d"]) == ["a", "c", "d", "b"]


def test_who_was_outrun_rests_least_and_stays_in_its_place() -> None:
    """Else a conflict is compiled again as fast as others ask for their heads."""
    clock = Clock()
    resting = Resting(clock)
    for _ in range(5):
        resting.outrun("a")
        assert resting.ready(["a", "b"]) == ["b"]
        clock.now += LEAST_S
        assert resting.ready(["a", "b"]) == ["a", "b"]


def test_how_often_one_was_outrun_is_counted_until_it_is_published_or_fails_or_is_due_no_more() -> None:
    resting = Resting(Clock())
    for settle in (
        resting.note_success,
        resting.note_failure,
        lambda _: resting.ready(["b"]),
        lambda _: resting.clear(),
    ):
        resting.outrun("a")
        resting.outrun("a")
        resting.ready(["a"])
        assert resting.times_outrun("a") == 2
        settle("a")
        assert resting.times_outrun("a") == 0


def test_what_is_due_no_more_or_may_be_mended_is_forgotten() -> None:
    clock = Clock()
    resting = Resting(clock)
    resting.note_failure("a")
    assert resting.ready(["b"]) == ["b"]
    assert (resting.has_failed("a"), resting.ready(["a"])) == (False, ["a"])
    resting.note_failure("a")
    resting.clear()
    assert resting.ready(["a"]) == ["a"]

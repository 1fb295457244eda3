import pytest

from holdfast.terminal.durations import in_words, read, until


@pytest.mark.parametrize(("seconds", "words"), [
    (0, "0 s"), (0.9, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (599, "9 min 59 s"), (600, "10 min"),
    (659, "10 min"), (3600, "1 h"), (5400, "1 h 30 min"), (86_400, "1 d"), (100_000, "1 d 3 h"),
    (1_000_000, "11 d"), (-61, "1 min 1 s"), (86_430, "1 d"),
])  # fmt: skip
def test_in_words(seconds, words):
    assert in_words(seconds) == words


def test_until():
    now = 1_900_000_000
    assert until("2030-03-17T17:46:50Z", now) == "in 10 s"
    assert until("2030-03-17T17:46:40Z", now) == "0 s ago"
    assert until(None, now) == "never"


@pytest.mark.parametrize(("text", "seconds"), [("72h", 259_200), ("3d", 259_200), ("90min", 5_400), ("0s", 0)])
def test_as_one_writes_it(text, seconds):
    assert read(text) == seconds


@pytest.mark.parametrize("text", ["", "72", "h", "1y", "-1h", "1.5h", "1 h", "1h30min", "\u0661h", "9" * 10 + "s"])
def test_what_is_no_span(text):
    with pytest.raises(ValueError, match="no span"):
        read(text)

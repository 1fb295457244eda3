"""Waiting for a change, with its progress: a bar where somebody looks, plain lines elsewhere, JSON lines for scripts.

The coordinator holds each question until something is new. A coordinator that restarts meanwhile, or a network that is
away, ends nothing: the change goes on without whoever watches it, so the question is asked again, with a pause that
grows. Ctrl-C ends the watching and never the change.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from holdfast.ctl import change_words, output
from holdfast.ctl.change_words import DONE, OVER, PREPARING, ROLLING
from holdfast.ctl.socket import NOT_DONE, UNANSWERED, CoordinatorClient, Failed
from holdfast.terminal.shown import say, say_json_line
from wire.operators.change_answers import ChangeNews

FLOOR_S, CAP_S = 0.5, 8.0  # between questions that nobody answers
EACH_S = 0.2  # between questions that were answered
INTERRUPTED = 130  # as shells have it
_COMES_BACK = frozenset({"unavailable", "overloaded", "shutting_down", "timed_out", "too_many_requests", "not_ready"})

Tell = Callable[[ChangeNews], None]


def watch(asked: CoordinatorClient, change: str) -> None:
    """Until it is over: SystemExit with NOT_DONE where it came to anything but `done`."""
    try:
        last = _follow(asked, change)
    except KeyboardInterrupt:
        say(
            f"{change} goes on without you: holdfastctl changes wait {change} watches it again,",
            f"holdfastctl changes halt {change} stops it where it is",
            err=True,
        )
        raise SystemExit(INTERRUPTED) from None
    if not asked.as_json:
        say(*change_words.ending(last, _lasted_s(last)))
    if last.state != DONE:
        raise SystemExit(NOT_DONE)


def _follow(asked: CoordinatorClient, change: str) -> ChangeNews:
    with _teller(asked) as tell:
        for news in _news(asked, change):
            tell(news)
            if news.state in OVER:
                break
    return news


def _news(asked: CoordinatorClient, change: str) -> Iterator[ChangeNews]:
    """Without end; the first at once."""
    seen: str | None = None
    pause_s = FLOOR_S
    while True:
        try:
            news = asked.wait(ChangeNews, "changes", change, "wait", seen=seen)
        except Failed as failed:
            if seen is None or not _comes_back(failed):
                raise
            if pause_s == FLOOR_S:
                say(f"holdfastctl: {failed.message}; {change} goes on, and it is asked again", err=True)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, CAP_S)
            continue
        if news.mark != seen:
            yield news
        seen, pause_s = news.mark, FLOOR_S
        time.sleep(EACH_S)


def _comes_back(failed: Failed) -> bool:
    return failed.exit_code == UNANSWERED or failed.code in _COMES_BACK


def _lasted_s(news: ChangeNews) -> float | None:
    """By one clock, the coordinator's."""
    return None if news.settled_at is None else news.settled_at - news.at


# ---- how it is told


def _teller(asked: CoordinatorClient) -> AbstractContextManager[Tell]:
    if asked.as_json:
        return _json_lines()
    return _bar() if output.is_looked_at() else _lines()


@contextmanager
def _json_lines() -> Iterator[Tell]:
    yield lambda news: say_json_line(news.to_value())


@contextmanager
def _lines() -> Iterator[Tell]:
    """One where something else is to be said. How the vote came out is among them, also where it was over at once."""
    told: list[str] = []

    def tell(news: ChangeNews) -> None:
        lines = [] if news.state in OVER else [change_words.sentence(news)]
        if news.state == ROLLING and news.counts.asked:
            lines.insert(0, change_words.sentence(replace(news, state=PREPARING)))
        new = [line for line in lines if line not in told]
        told.extend(new)
        say(*new)

    yield tell


@contextmanager
def _bar() -> Iterator[Tell]:
    """It is gone at the end, and what it came to stands there."""
    with output.steps() as show:
        yield lambda news: show(change_words.sentence(news), *_share(news))


def _share(news: ChangeNews) -> tuple[int, int]:
    """So many of so many: while they are asked of those that are, then of all."""
    counts = news.counts
    if news.state == PREPARING:
        return counts.accepted + counts.refused, max(counts.asked, 1)
    return counts.active, max(counts.touched - counts.offline, 1)

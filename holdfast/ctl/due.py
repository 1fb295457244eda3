"""`holdfastctl due`: everything that ends, with its date, what happens then, and the command that renews it."""

import re
from collections.abc import Iterable

import click

from holdfast.client import unix_seconds
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from holdfast.terminal.durations import until
from holdfast.terminal.shown import say
from snapshot.ending import Urgency, short
from wire.endings import EndingThing
from wire.operators.operator_answers import Endings

SOON, ENDED = 1, 3  # exit statuses
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def _seconds(_: click.Context, __: click.Parameter, value: str) -> int:
    """`30d`, `12h`, `2w`; a number alone is seconds."""
    found = re.fullmatch(r"([0-9]{1,9})([smhdw]?)", value, re.ASCII)
    if found is None:
        raise click.BadParameter(f"{value!r} is no time: write 30d, 12h, 2w")
    return int(found[1]) * _UNITS[found[2] or "s"]


@click.command()
@click.option("--within", default="30d", show_default=True, metavar="TIME", callback=_seconds,
              help="What ends in this time counts as due: 30d, 12h, 2w.")  # fmt: skip
@click.option("--all", "whole", is_flag=True, help="Each node's certificate in a line of its own.")
@asks_the_coordinator
def due(asked: CoordinatorClient, within: int, whole: bool) -> None:
    """Everything that ends: when, what happens then, and the command that renews it.

    Due is what ends within that time, and what has a third of its lifetime left or less. What renews itself is due only
    when it has missed that.

    \b
    Exit status, for cron: 0 nothing is due, 1 something is, 2 wrong usage,
    3 something has ended (or nobody answers: then nothing stands on standard output).
    """
    answer = asked.get(Endings, "due", within_s=within, all=int(whole))
    asked.show(answer, _render)
    status = {str(Urgency.SOON): SOON, str(Urgency.ENDED): ENDED}.get(answer.urgency, 0)
    click.get_current_context().exit(status)


def render_things(things: Iterable[EndingThing], now: float | None = None) -> None:
    """Three lines each: what ends and when, what happens then, what renews it."""
    for thing in things:
        left = "" if now is None else f", {until(thing.ends, now)}"
        say(f"{_mark(thing.urgency):8} {thing.what.replace('_', ' ')} {short(thing.name)}")
        say(f"{'':8} {_verb(thing.urgency)} {thing.ends}{left}: {thing.then}")
        say(f"{'':8} {thing.remedy}")


def _render(answer: Endings) -> None:
    render_things(answer.things, unix_seconds(answer.now))
    members = answer.members
    if members.certificates:
        first = members.first_ends
        say("", f"{members.certificates} node certificates renew themselves; the first ends {first} (--all)")
    words: dict[str, str] = {Urgency.SOON: "something is due", Urgency.ENDED: "something HAS ENDED"}
    say("", words.get(answer.urgency, "nothing is due"))


def _mark(urgency: str) -> str:
    return urgency.upper() if urgency in (Urgency.SOON, Urgency.ENDED) else urgency


def _verb(urgency: str) -> str:
    return "ended" if urgency == Urgency.ENDED else "ends"

"""`holdfastctl storage`: the stores that nodes read where no coordinator answers, and how far behind each is."""

import click

from holdfast.ctl import output
from holdfast.ctl.socket import DIFFERENT, CoordinatorClient, asks_the_coordinator
from holdfast.terminal.durations import in_words
from holdfast.terminal.shown import say
from wire.operators.operator_answers import StorageStanding, StorageStandings

_WRONG = ("failing", "silent")
_SHOWN = 5


@click.command()
@asks_the_coordinator
def storage(asked: CoordinatorClient) -> None:
    """The declared stores: how each is written to, what it lacks and for how long, and what is wrong with it.

    `elsewhere`: no coordinator writes there, somebody else keeps it up to date.

    Exit status 1 where one of them is failing, or nothing was heard of whoever keeps it up.
    """
    answer = asked.get(StorageStandings, "storage")
    asked.show(answer, _render)
    if answer.undeclared or any(store.state in _WRONG for store in answer.stores):
        raise SystemExit(DIFFERENT)


def summary(answer: StorageStandings) -> list[str]:
    """Each store in a few words, those that something is wrong with first."""
    wrong_first = sorted(answer.stores, key=lambda store: store.state in ("current", "elsewhere"))
    said = [_in_short(store) for store in wrong_first[:_SHOWN]]
    return said + ([f"{len(wrong_first) - _SHOWN} more (holdfastctl storage)"] if len(wrong_first) > _SHOWN else [])


def _in_short(store: StorageStanding) -> str:
    words = [store.state, *([store.fault] if store.fault else [])]
    if store.behind:
        words.append(f"lacks {store.behind} files for {in_words(store.lag_s)}")
    if store.held is not None:
        words.append(f"its node keeps {store.held.files} files")
    return f"{store.id} {', '.join(words)}"


def _render(answer: StorageStandings) -> None:
    rows = (
        (
            store.id,
            store.state,
            store.files,
            store.behind,
            in_words(store.lag_s) if store.behind else "-",
            output.time(store.good_at),
            store.coordinator_id or "-",
            store.way or store.url,
        )
        for store in answer.stores
    )
    output.table(("storage", "state", "files", "lacks", "for", "whole at", "by", "way"), rows, nothing="none")
    for store in answer.stores:
        for sentence in _sentences(store):
            say(f"{store.id}: {sentence}")
    for name in answer.undeclared:
        say(f"{name}: [storage.{name}] is configured, and no StorageEndpoint {name} is declared")


def _sentences(store: StorageStanding) -> list[str]:
    said = [f"{store.fault}: {store.detail} ({store.remedy})"] if store.fault else []
    if store.held is not None:
        used = f"{store.held.bytes >> 20} of {store.held.most_bytes >> 20} MiB"
        said.append(f"its node keeps {store.held.files} files, {used}, as it reported at {output.time(store.held.at)}")
    if store.state == "silent":
        said.append(f"nothing was heard of {store.coordinator_id}, which keeps it up")
    return said

"""How `holdfastctl` prints: tables for people, JSON for scripts."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from holdfast.terminal.shown import say, shown
from snapshot.identifiers import format_time

PIPE_WIDTH = 240  # nothing is cut off where nobody looks at a screen


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, nothing: str) -> None:
    """One line for each row; `nothing` is said where there is none."""
    lines = [[text(cell) for cell in row] for row in rows]
    if not lines:
        say(nothing)
        return
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for line in lines:
        made.add_row(*line)
    console().print(made)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Name and value, a line each; what is empty is left out."""
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], (), {}):
            made.add_row(name, text(value))
    console().print(made)


def console() -> Console:
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def text(value: object) -> str:
    """Any value as words for people, safe for a terminal."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(text, value)) or "-"
        case dict():
            return ", ".join(f"{shown(name)}={text(inner)}" for name, inner in value.items()) or "-"
        case _:
            return shown(value)


def time(seconds: float | None) -> str:
    return "-" if seconds is None else format_time(int(seconds))


def is_looked_at() -> bool:
    """Whether somebody looks at a screen."""
    return sys.stdout.isatty()


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for so many of so many, with a line that says what is going on; it is gone at the end."""
    columns = (BarColumn(), TextColumn("{task.fields[said]}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console(), transient=True) as bar:
        task = bar.add_task("", total=None, said="")

        def show(said: str, count: int, of: int) -> None:
            bar.update(task, completed=count, total=of, said=shown(said))

        yield show


def progress(total: int) -> Progress:
    """A bar for so many bytes that go somewhere: on standard error, if somebody looks, and not for nothing."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    return Progress(*columns, console=console, transient=True, disable=total == 0 or not console.is_terminal)

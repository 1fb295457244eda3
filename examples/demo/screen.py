"""What is seen: on a terminal a table that follows the nodes, elsewhere the same table where something changed."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from examples.demo.node import Node

WIDTH = 110  # where nobody says how wide it is
WIDE = 105  # columns of the table with names beside it; else they stand above
LOW = 12  # lines beside the table
GOOD, DOUBTFUL, BAD = "green", "yellow", "red"
STYLES = {"active": GOOD, "degraded": DOUBTFUL, "fenced": BAD, "fresh": GOOD, "stale": DOUBTFUL, "expired": BAD}
MINUTE, HOUR, DAY = 60, 3_600, 86_400
# What is left out once it has been seen: it does not change in this story.
QUIET = ("node_bootstrap", "node_runtime", "storage_directory", "qos_policy", "peer_directory")


class Screen:
    def __init__(self) -> None:
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=WIDTH)
        self._live: Live | None = None
        self._render: Callable[[], RenderableType] | None = None
        self._began = time.monotonic()
        self._seen_whole = False

    def heading(self, title: str, about: str = "") -> None:
        """`about`: in a sentence or two, what is to be seen."""
        self.console.print()
        self.console.print(Rule(f"{title}  ({self.seconds:.0f} s)", align="left", style="bold"))
        if about:
            self.console.print(Text(about, style="italic"))

    def say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def did(self, command: str, printed: str = "", lines: int = 6) -> None:
        """A command as a user would type it, and the end of what it printed."""
        self.console.print(Text(f"$ {command}", style="bold cyan"))
        found = [line.rstrip() for line in printed.strip().splitlines()]
        if len(found) > lines:
            found = ["...", *found[-lines:]]
        for line in found:
            self.console.print(Text(f"  {line}", style="dim"), soft_wrap=True)

    def proved(self, claim: str) -> None:
        row = Table.grid(padding=(0, 2))
        row.add_row(Text("  proved", style="bold green"), claim)
        self.console.print(row)

    @contextlib.contextmanager
    def watching(self, render: Callable[[], RenderableType]) -> Iterator[None]:
        """Shows it for the block: again and again on a terminal, at its end elsewhere."""
        self._render = render
        try:
            if self.console.is_terminal:
                with Live(render(), console=self.console, auto_refresh=False) as self._live:
                    yield
                    self.look()
            else:
                yield
                self.console.print(render())
        finally:
            self._live = self._render = None
            self._seen_whole = True

    def look(self) -> None:
        if self._live is not None and self._render is not None:
            self._live.update(self._render(), refresh=True)

    def nodes(self, nodes: Sequence[Node]) -> RenderableType:
        """Node, state, scope, version, age, expiry: every scope the first time, later those that this is about."""
        narrow = self.console.width < WIDE
        columns = ("NODE", "STATE", "SCOPE", "VERSION", "AGE", "EXPIRES", "GRADE", "REFUSED")
        table = _table(*columns[2 if narrow else 0 :])
        low = self.console.is_terminal and self.console.height < LOW + 9 * len(nodes)
        for node in nodes:
            status = node.status()
            state = str(status.get("state", "not running"))
            named = (Text(node.node_id), Text(state, style=STYLES.get(state, "red")))
            if narrow:
                table.add_row(Text.assemble(named[0], "  ", named[1]))
            for number, row in enumerate(_rows(status, QUIET if low or self._seen_whole else ())):
                first = () if narrow else named if number == 0 else ("", "")
                table.add_row(*first, *row)
        return table

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def answers(rows: Sequence[tuple[str, bool, str, int | None]]) -> RenderableType:
    """What `may` said: question, answer, reason, until (Unix seconds)."""
    table = _table("HOLDFAST MAY", "ANSWER", "REASON", "FOR THE NEXT")
    for question, allowed, reason, until in rows:
        answer = Text("yes", style="green") if allowed else Text("no", style="red")
        table.add_row(question, answer, reason, "" if until is None else span(until - now()))
    return table


def span(seconds: float) -> str:
    for unit, length in (("d", DAY), ("h", HOUR)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    minutes, rest = divmod(round(seconds), MINUTE)
    return f"{minutes} min {rest} s" if minutes >= 2 else f"{seconds:.0f} s"


def now() -> float:
    """Unix seconds."""
    return datetime.now(UTC).timestamp()


def _rows(status: dict[str, Any], quiet: Sequence[str]) -> Iterator[tuple[str | Text, ...]]:
    """The head first: how long ago the coordinator confirmed all of it, and until when that holds."""
    if not status:
        yield ("", "", "", "", "", "")
        return
    head = status["head"]
    if head:
        yield ("head", str(head["generation"]), "", _left(head["expires_at"]), _grade(head["grade"]), "")
    for name, scope in status["scopes"].items():
        if name in quiet:
            continue
        shown = name.replace("service_assignment/", "service ")  # the table fits 80 columns
        active, refused = scope["active"], scope["last_rejected"]
        superseded = active and refused and active["applied_at"] > refused["at"]
        why = refused["reason"] if refused and not superseded else ""
        if active:
            version = f"{active['authority_epoch']}.{active['config_version']}"
            age = span(-_until(active["applied_at"]))
            yield (shown, version, age, _left(active["expires_at"]), _grade(active["grade"]), why)
        else:
            yield (shown, "-", "", "", "", why)


def _grade(grade: str) -> Text:
    return Text(grade, style=STYLES.get(grade, ""))


def _left(moment: str) -> str:
    seconds = _until(moment)
    return span(seconds) if seconds > 0 else "over"


def _until(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() - now()


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=True)
    return table

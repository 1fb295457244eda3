"""A command of subcommands, each loaded when it is called: what `holdfast` and `holdfastctl` have in common.

What `--help` and a shell's Tab say of each stands in the table beside its place. click asks the commands themselves, so
that it loads all of them for either.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from holdfast.terminal.shown import show_usage


class Subcommands(click.Group):
    """`places`: by the name of a subcommand the module that holds it, its name there, and what it does."""

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str, str]], **given: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **given)
        self._places = places

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        with show_usage():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, name, _ = self._places[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._places[name][2]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        known = [CompletionItem(name, help=self._places[name][2]) for name in names]
        return known + click.Command.shell_complete(self, ctx, incomplete)

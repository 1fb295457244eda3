"""A command of subcommands, each loaded when it is called: what `holdfast` and `holdfastctl` have in common."""

import importlib
from collections.abc import Mapping
from typing import Any

import click

from holdfast.terminal.shown import show_usage


class Subcommands(click.Group):
    """`places`: by the name of a subcommand the module that holds it, and its name there."""

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str]], **given: Any) -> None:  # noqa: ANN401 - click's
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
        module, name = self._places[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

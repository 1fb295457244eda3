"""`holdfast`: the command on a node. Each subcommand is loaded when it is called."""

import importlib
import os
import sys
from typing import Any, TextIO

import click

from holdfast.node.agent_options import NOT_WRITTEN, fail
from holdfast.terminal.shown import usage_shown
from wire.version import VERSION

# Subcommand -> the module that holds it, under the name `command`.
COMMANDS = {
    "diff": "holdfast.node.diff_command",
    "explain": "holdfast.node.explain_command",
    "get": "holdfast.node.get_command",
    "import": "holdfast.node.import_command",
    "join": "holdfast.node.join_command",
    "may": "holdfast.node.may_command",
    "status": "holdfast.node.status_command",
    "store": "holdfast.node.store_command",
    "trust": "holdfast.node.trust_command",
    "verify": "holdfast.node.verify_command",
    "watch": "holdfast.node.watch_command",
}


class NodeCommands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        with usage_shown():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command

    def main(self, *args: Any, **given: Any) -> Any:  # noqa: ANN401 - as click has it
        try:
            return super().main(*args, **given)
        except OSError as error:
            if error.filename is not None:  # what a command does with files, it answers for
                raise
            _drop_what_is_left(sys.stdout)
            fail(f"the answer could not be written: {error.strerror}", NOT_WRITTEN)


def _drop_what_is_left(output: TextIO) -> None:
    """Python would try it once more as it ends, in vain."""
    try:
        output.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, output.fileno())
        os.close(nowhere)


@click.command(cls=NodeCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="holdfast", message="%(prog)s %(version)s")
def main() -> None:
    """Look at, and steer, the configuration that this node runs on."""

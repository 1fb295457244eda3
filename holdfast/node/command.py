"""`holdfast`: the command on a node. Each subcommand is loaded when it is called."""

import os
import sys
from typing import Any, TextIO

import click

from holdfast.node.agent_options import NOT_WRITTEN, fail
from holdfast.terminal.commands import Subcommands
from wire.version import VERSION

# Subcommand -> the module that holds it, and its name there.
COMMANDS = {
    "dev": ("holdfast.node.dev_command", "command"),
    "diff": ("holdfast.node.diff_command", "command"),
    "exec": ("holdfast.node.exec_command", "command"),
    "explain": ("holdfast.node.explain_command", "command"),
    "get": ("holdfast.node.get_command", "command"),
    "import": ("holdfast.node.import_command", "command"),
    "join": ("holdfast.node.join_command", "command"),
    "may": ("holdfast.node.may_command", "command"),
    "quarantine": ("holdfast.node.quarantine_command", "command"),
    "show-certificate": ("holdfast.node.show_certificate_command", "command"),
    "status": ("holdfast.node.status_command", "command"),
    "store": ("holdfast.node.store_command", "command"),
    "trust": ("holdfast.node.trust_command", "command"),
    "verify": ("holdfast.node.verify_command", "command"),
    "watch": ("holdfast.node.watch_command", "command"),
}


class NodeCommands(Subcommands):
    """An answer that a full disk or a closed pipe does not take is no fault of what was asked."""

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


@click.command(cls=NodeCommands, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="holdfast", message="%(prog)s %(version)s")
def main() -> None:
    """Look at, and steer, the configuration that this node runs on."""

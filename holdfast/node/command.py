"""`holdfast`: the command on a node. Each subcommand is loaded when it is called."""

import os
import sys
from typing import Any, TextIO

import click

from holdfast.terminal.commands import Subcommands
from wire.version import VERSION

# Subcommand -> the module that holds it, its name there, and what `--help` and a shell say of it.
COMMANDS = {
    "dev": ("holdfast.node.dev_command", "command", "Serve a folder of plain files, to develop a service."),
    "diff": ("holdfast.node.diff_command", "command", "What differs from the version before, or from what waits."),
    "exec": ("holdfast.node.exec_command", "command", "Run a program with its settings, and the secrets in them."),
    "explain": (
        "holdfast.node.explain_command",
        "command",
        "Where a scope comes from, why one was refused, what next.",
    ),
    "get": ("holdfast.node.get_command", "command", "Print a service, route, file, section, or a whole scope."),
    "import": ("holdfast.node.import_command", "command", "Hand documents in files to the agent."),
    "join": ("holdfast.node.join_command", "command", "Join a cluster, by a join file or a token."),
    "may": ("holdfast.node.may_command", "command", "Ask the gate of degraded mode."),
    "quarantine": (
        "holdfast.node.quarantine_command",
        "command",
        "Content that failed its probation, and is kept out.",
    ),
    "show-certificate": (
        "holdfast.node.show_certificate_command",
        "command",
        "Show this node's certificate and its fingerprint.",
    ),
    "status": ("holdfast.node.status_command", "command", "What this node runs on, what confirms it, what is amiss."),
    "store": ("holdfast.node.store_command", "command", "Look at this node's durable store, or reset its identity."),
    "trust": ("holdfast.node.trust_command", "command", "The root keys that this node believes."),
    "verify": ("holdfast.node.verify_command", "command", "Judge documents in files as the agent would."),
    "watch": ("holdfast.node.watch_command", "command", "Print what changes, as it does."),
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
            from holdfast.node.agent_options import NOT_WRITTEN, fail  # noqa: PLC0415 - with the client, for a fault

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

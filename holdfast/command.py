"""`holdfast`: the command on a node. Each subcommand is loaded when it is called."""

import importlib

import click

# Subcommand -> the module that holds it, under the name `command`.
COMMANDS = {
    "diff": "holdfast.diff_command",
    "explain": "holdfast.explain_command",
    "get": "holdfast.get_command",
    "import": "holdfast.import_command",
    "join": "holdfast.join_command",
    "may": "holdfast.may_command",
    "status": "holdfast.status_command",
    "store": "holdfast.store_command",
    "verify": "holdfast.verify_command",
    "watch": "holdfast.watch_command",
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Look at, and steer, the configuration that this node runs on."""

"""`holdfastctl`: the operator's command. Each subcommand is loaded when it is called."""

from pathlib import Path

import click

from holdfast.terminal.commands import Subcommands
from wire.version import VERSION

# Subcommand -> the module that holds it, and its name there.
COMMANDS = {
    "allow": ("holdfast.ctl.allow", "allow"),
    "apply": ("holdfast.ctl.apply", "apply"),
    "audit": ("holdfast.ctl.audit", "audit"),
    "backup": ("holdfast.ctl.backup", "backup"),
    "changes": ("holdfast.ctl.changes", "changes"),
    "coordinators": ("holdfast.ctl.coordinators", "coordinators"),
    "diff": ("holdfast.ctl.apply", "diff"),
    "drill": ("holdfast.ctl.drill", "drill"),
    "due": ("holdfast.ctl.due", "due"),
    "epoch": ("holdfast.ctl.epoch", "epoch"),
    "export": ("holdfast.ctl.move", "export"),
    "explain": ("holdfast.ctl.explain", "explain"),
    "fleet": ("holdfast.ctl.fleet", "fleet"),
    "import": ("holdfast.ctl.move", "import_"),
    "init": ("holdfast.ctl.init", "init"),
    "nodes": ("holdfast.ctl.nodes", "nodes"),
    "operators": ("holdfast.ctl.operators", "operators"),
    "publish": ("holdfast.ctl.publish", "publish"),
    "recover": ("holdfast.ctl.recover", "recover"),
    "render": ("holdfast.ctl.render", "render"),
    "resources": ("holdfast.ctl.resources", "resources"),
    "restore": ("holdfast.ctl.backup", "restore"),
    "revoke": ("holdfast.ctl.revoke", "revoke"),
    "rotate": ("holdfast.ctl.rotate", "rotate"),
    "show-certificate": ("holdfast.ctl.certificate", "show_certificate"),
    "status": ("holdfast.ctl.fleet", "status"),
    "storage": ("holdfast.ctl.storage", "storage"),
    "test": ("holdfast.ctl.rehearse", "test"),
    "tokens": ("holdfast.ctl.tokens", "tokens"),
    "trust": ("holdfast.ctl.trust", "trust"),
}


_FILE = click.Path(path_type=Path)


@click.command(cls=Subcommands, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="holdfastctl", message="%(prog)s %(version)s")
@click.option("--url", metavar="https://HOST:PORT", envvar="HOLDFAST_ADMIN_URL",
              help="The admin listener of a coordinator elsewhere.")  # fmt: skip
@click.option("--ca", type=_FILE, envvar="HOLDFAST_ADMIN_CA", help="The CA file of its certificate.")
@click.option("--certificate", type=_FILE, envvar="HOLDFAST_ADMIN_CERTIFICATE", help="The operator's own certificate.")
@click.option("--key", type=_FILE, envvar="HOLDFAST_ADMIN_KEY", help="Its key; an encrypted one is asked about.")
def main(**afar: object) -> None:
    """Decide what a cluster's nodes run on, and who may decide it.

    The coordinator of this machine is asked over its admin socket; with --url (and --ca, --certificate, --key, or
    the variables HOLDFAST_ADMIN_URL, _CA, _CERTIFICATE, _KEY) another one over TLS.

    \b
    Exit status: 0 done, 1 there is a difference, 2 wrong usage, 3 the coordinator does not answer,
    4 not found, 5 not confirmed (nothing was changed), 6 refused (nothing was changed),
    7 a change ended otherwise than done, 74 the answer could not be written (what was asked for may be done).
    """
    click.get_current_context().obj = afar

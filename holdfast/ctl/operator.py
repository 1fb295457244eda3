"""`holdfastctl`: the operator's command. Each subcommand is loaded when it is called."""

from pathlib import Path

import click

from holdfast.terminal.commands import Subcommands
from wire.version import VERSION

# Subcommand -> the module that holds it, its name there, and what `--help` and a shell say of it.
COMMANDS = {
    "allow": ("holdfast.ctl.allow", "allow", "The allowlist: nodes that may join, and as what."),
    "apply": ("holdfast.ctl.apply", "apply", "Show what files change, ask, and change it at once."),
    "audit": ("holdfast.ctl.audit", "audit", "Who changed what and when, the newest first."),
    "backup": ("holdfast.ctl.backup", "backup", "Write all of a coordinator into one file, while it works."),
    "changes": ("holdfast.ctl.changes", "changes", "What was applied, and how far its nodes are with it."),
    "coordinators": (
        "holdfast.ctl.coordinators",
        "coordinators",
        "The coordinators that share the cluster, and who they are.",
    ),
    "diff": ("holdfast.ctl.apply", "diff", "How files, what is declared and what is published differ."),
    "drill": ("holdfast.ctl.drill", "drill", "Foresee what happens, by the code that decides it then."),
    "due": ("holdfast.ctl.due", "due", "Everything that ends, when, and what renews it."),
    "epoch": ("holdfast.ctl.epoch", "epoch", "The authority epoch."),
    "export": ("holdfast.ctl.move", "export", "Hand the whole cluster over to another coordinator."),
    "explain": ("holdfast.ctl.explain", "explain", "Why a node is told what it is told."),
    "fleet": ("holdfast.ctl.fleet", "fleet", "The nodes: states, versions, and who is behind and why."),
    "import": ("holdfast.ctl.move", "import_", "Make an exported cluster the one of this machine."),
    "init": ("holdfast.ctl.init", "init", "Make a cluster: its keys, trust bundle and coordinator."),
    "nodes": ("holdfast.ctl.nodes", "nodes", "Members of the cluster."),
    "operators": ("holdfast.ctl.operators", "operators", "Who may ask over TLS."),
    "publish": ("holdfast.ctl.publish", "publish", "Bring a directory up to what is published now."),
    "recover": ("holdfast.ctl.recover", "recover", "Let a node go back to an earlier version of a scope."),
    "render": ("holdfast.ctl.render", "render", "Show what a node would be given by files."),
    "resources": ("holdfast.ctl.resources", "resources", "What is declared."),
    "restore": ("holdfast.ctl.backup", "restore", "Put a backup back, on a machine where no coordinator is."),
    "revoke": ("holdfast.ctl.revoke", "revoke", "Take back what was granted, from the next heads on."),
    "rotate": ("holdfast.ctl.rotate", "rotate", "Keys that come and keys that go."),
    "show-certificate": (
        "holdfast.ctl.certificate",
        "show_certificate",
        "The certificate that nodes are shown, and its CA file.",
    ),
    "status": ("holdfast.ctl.fleet", "status", "The coordinator: its state, and how publishing goes."),
    "storage": ("holdfast.ctl.storage", "storage", "The declared stores, and what each of them lacks."),
    "test": ("holdfast.ctl.rehearse", "test", "Say what an apply of files would be refused for."),
    "tokens": ("holdfast.ctl.tokens", "tokens", "Join tokens: each is good for one node, or for several."),
    "trust": ("holdfast.ctl.trust", "trust", "The trust bundle: what it says, its renewal, signing it."),
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

"""`holdfast show-certificate`: this node's own certificate and its fingerprint, from the disk (rules K11, P15).

Neither network nor agent is needed: it is asked for when neither answers. The key beside it is never printed.
"""

import ssl

import click

from agent.enrolment.identity import OwnCertificate, read_certificate
from holdfast.node.agent_options import NOT_FOUND, fail
from holdfast.node.store_root import DEFAULT_ROOT, find_root
from holdfast.terminal.shown import say, say_json
from snapshot.identifiers import format_time
from store.base.errors import StoreError
from store.base.layout import Root

UNREADABLE = 2
EXITS = "\b\nExit status: 0 done, 2 wrong usage, or the directory cannot be read; 4 the node has no certificate."


@click.command("show-certificate", epilog=EXITS)
@click.option("--root", default=DEFAULT_ROOT, show_default=True, help="The agent's state directory.")
@click.option("--cluster", default="", help="Which cluster, where the root has several.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def command(root: str, cluster: str, as_json: bool) -> None:
    """The certificate that this node shows to coordinators and peers, and its fingerprint: what they pin it by.

    To be compared with `holdfastctl nodes show NODE`. Run as root, or as the agent's account; the agent may run. Before
    the node is admitted it is the certificate that it asks to join with.
    """
    try:
        path, name = find_root(root, cluster)
        folder = Root.look(path).paths(name).identity
    except StoreError as error:
        fail(str(error), UNREADABLE)
    shown = read_certificate(folder)
    if shown is None:
        fail(f"no certificate can be read in {folder}: the node makes one when it joins (holdfast join)", NOT_FOUND)
    facts, pem = _facts(shown), ssl.DER_cert_to_PEM_cert(shown.certificate.der)
    if as_json:
        say_json({**facts, "certificate": pem})
        return
    width = max(map(len, facts))
    say(*(f"{name.replace('_', ' '):{width}}  {_words(value)}" for name, value in facts.items()), *pem.splitlines())


def _facts(shown: OwnCertificate) -> dict[str, object]:
    found = shown.certificate
    return {
        "fingerprint": found.fingerprint,
        "names": list(found.names),
        "not_before": format_time(int(found.not_before)),
        "not_after": format_time(int(found.not_after)),
        "admitted": shown.is_admitted,
        "file": str(shown.file),
    }


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

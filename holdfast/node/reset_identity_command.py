"""`holdfast store reset-identity`: the node's key and membership end, what it must not forget stays (rules L13, A9)."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.node.store_root import find_root, options
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say
from snapshot.identifiers import format_time
from store.base.disk import refusal
from store.base.environment import MAP_BYTES
from store.base.errors import StoreError, StoreFault
from store.base.layout import Root
from store.store import Store

if TYPE_CHECKING:
    from agent.enrolment.identity_reset import IdentityOnDisk

EXITS = """\b
Exit status: 0 done, or nothing was left to do; 1 not confirmed, and nothing was changed;
2 wrong usage, the agent runs, or the store refuses."""
STOP = "stop the agent first: systemctl stop holdfast-agent.socket holdfast-agent.service"


@click.command("reset-identity", epilog=EXITS, short_help="End this node's identity; it joins anew with a token.")
@options
@click.option("--yes", "typed", metavar="NODE_ID", help="Do not ask: this node is meant.")
@click.option("--json", "as_json", is_flag=True, help="What has ended, as JSON; the question is on standard error.")
def command(root: str, cluster: str, typed: str | None, as_json: bool) -> None:
    """End this node's identity: its private key is destroyed, its membership is over, its scopes are let go.

    The agent must not run. Asks for the node id to be typed. The pinned root keys, the trust bundle, the floors of what
    was accepted and the journal stay, so the node joins the same cluster under the same id, with a new token, and
    accepts nothing older than what it had. It is the way back for a node that is REVOKED and was readmitted.
    """
    from agent.enrolment import identity_reset  # noqa: PLC0415 - the other commands on a store do not wait for it

    path, name = find_root(root, cluster)
    with _hold(path) as held, _open(held, name) as store:
        former = identity_reset.look(store)
        if not former.exists:
            nothing = f"no identity is left in {path}: the node joins with a token, holdfast join"
            say(_json(former, is_reset=False) if as_json else nothing)
            return
        if not former.node_id:
            raise StoreError(StoreFault.STORE_CORRUPT, f"nothing in {store.paths.identity} says whose it is")
        say(*_lines(former, name), err=as_json)
        _confirm(former.node_id, typed, err=as_json)
        try:
            identity_reset.reset(store, held.disk, former, now=wall_clock())
        except OSError as error:
            raise refusal(error) from error
    say(*([_json(former, is_reset=True)] if as_json else _next(former)))


def _json(former: "IdentityOnDisk", *, is_reset: bool) -> str:
    about = {"node_id": former.node_id, "certificate_sha256": former.fingerprint, "scopes": list(former.scopes)}
    return json.JSONEncoder(sort_keys=True).encode({"reset": is_reset, **about, "revoked": former.revoked})


def _hold(path: Path) -> Root:
    try:
        return Root.open(path)
    except StoreError as error:
        if error.fault is StoreFault.STORE_LOCKED:
            raise StoreError(error.fault, f"{error.detail}; {STOP}") from error
        raise


def _open(root: Root, cluster: str) -> Store:
    """Mapped as far as the agent may have been told to."""
    data = root.paths(cluster).store / "data.mdb"
    size = data.stat().st_size if data.exists() else 0
    return Store.open(root, cluster, now=wall_clock(), map_bytes=max(MAP_BYTES, 2 * size))


def _confirm(node_id: str, typed: str | None, *, err: bool) -> None:
    if typed is None:
        say("Type the node id to go on: ", nl=False, err=err)
        sys.stdout.flush()
        typed = sys.stdin.readline().strip()
    if typed != node_id:
        say(f"holdfast store: this is not {typed[:80]!r}, nothing was changed", err=True)
        raise SystemExit(1)


def _lines(former: "IdentityOnDisk", cluster: str) -> list[str]:
    until = f", until {format_time(former.not_after)}" if former.not_after is not None else ""
    roots = "pinned root keys" if former.is_enrolled else "no root keys, since none were pinned"
    key = "certificate (its private key is a credential)" if former.given_key else "private key and certificate"
    return [
        f"This ends the identity of {former.node_id} in {cluster}{' (revoked)' if former.revoked else ''}.",
        f"  lost  {key} {former.fingerprint}{until}",
        "  lost  the membership: the coordinator is not told, and knows the old certificate until it is replaced",
        f"  lost  what is active: {', '.join(former.scopes) or 'nothing'}; its services have no configuration",
        f"  kept  {roots}, trust bundle, floors and marks, used nonces: nothing older is accepted later",
        f"  kept  the journal; {former.undelivered} events are delivered after the next join",
    ]


def _next(former: "IdentityOnDisk") -> list[str]:
    ways = [f"holdfastctl tokens create --node {former.node_id}"]
    if former.revoked:
        ways = [f"holdfastctl nodes readmit {former.node_id}", "the next trust bundle, where it names the node", *ways]
    lines = [
        f"reset: {former.node_id} has no identity any more, its key is destroyed",
        f"next, for the operator: {'; '.join(ways)}",
        "then, on this node: start the agent, holdfast join",
    ]
    if former.given_key:
        lines.append("put another key into the credential holdfast.node-key, or the new certificate has the old key")
    return lines

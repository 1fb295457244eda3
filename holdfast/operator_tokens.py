"""`holdfastctl tokens`: what a node needs once, to join (rules K25, K26)."""

import os
import re
from pathlib import Path
from typing import Any

import click

from holdfast import operator_output as output
from holdfast.operator_socket import Asked, asks_the_coordinator, confirm

_UNITS = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_LIFETIME = re.compile(r"([1-9][0-9]{0,8})(s|min|h|d)?", re.ASCII)


def lifetime(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Seconds, from `24h`, `90min` or a number of seconds."""
    if value is None:
        return None
    found = _LIFETIME.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r}: write 600s, 90min, 24h or 7d")
    return int(found[1]) * _UNITS[found[2] or ""]


@click.group()
def tokens() -> None:
    """Join tokens: each is good for one node, once."""


@tokens.command()
@click.option("--node", "node_id", help="For this node alone.")
@click.option("--site", "site_id", metavar="ID", help="To join this site.  [default: the node's own, else default]")
@click.option("--lifetime", "lifetime_s", callback=lifetime, metavar="TIME", help="10min to 7d.  [default: 24h]")
@click.option("--out", type=click.Path(path_type=Path), help="Write it to a new file (0600) and do not show it.")
@asks_the_coordinator
def create(asked: Asked, out: Path | None, **given: object) -> None:
    """A new token. It is shown once and kept nowhere: put it into /etc/holdfast/join.token on the node."""
    descriptor = None if out is None else os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        answer = asked.post("tokens", body={name: value for name, value in given.items() if value is not None})
    except BaseException:
        if out is not None:
            out.unlink()
        raise
    if descriptor is not None:
        with os.fdopen(descriptor, "w") as file:
            file.write(answer.pop("token") + "\n")
    asked.show(answer, lambda _: _render_one(answer, out))


@tokens.command("list")
@asks_the_coordinator
def list_(asked: Asked) -> None:
    """Every token that has not been forgotten yet."""
    asked.show(asked.get("tokens"), _render)


@tokens.command()
@click.argument("jti")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def revoke(asked: Asked, jti: str, yes: bool) -> None:
    """A token is good for nothing any more, at once."""
    confirm(f"Revoke the token {jti}?", yes=yes)
    asked.say(asked.delete("tokens", jti), f"revoked: token {jti}")


def _render_one(answer: dict[str, Any], out: Path | None) -> None:
    for_whom = f"{answer['node_id'] or 'any allowed node'} at {answer['site_id']}"
    click.echo(f"token {answer['jti']}, until {output.time(answer['expires_at'])}, for {for_whom}", err=True)
    click.echo(answer["token"] if out is None else str(out))


def _render(answer: dict[str, Any]) -> None:
    rows = (
        (
            each["jti"],
            each["node_id"] or "any",
            each["site_id"],
            _state(each),
            output.time(each["expires_at"]),
            each["issued_by"],
        )
        for each in answer["tokens"]
    )
    output.table(("token", "node", "site", "state", "expires", "issued by"), rows, nothing="no tokens")


def _state(each: dict[str, Any]) -> str:
    if each["revoked_at"] is not None:
        return "revoked"
    return "unused" if each["used_by"] is None else f"used by {each['used_by']}"

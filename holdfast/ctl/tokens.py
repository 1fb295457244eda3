"""`holdfastctl tokens`: what a node needs once, to join (rules K25, K26)."""

import re
from dataclasses import asdict
from pathlib import Path

import click

from holdfast.ctl import output
from holdfast.ctl.join_file import facts_for_nodes, join_file_options, new_file, write
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm
from holdfast.terminal.shown import say
from wire.operators.operator_answers import IssuedToken, RevokedToken, TokenEntry, TokenList
from wire.operators.operator_messages import TokenRequest

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
    """Join tokens: each is good for one node, once; or for as many as it says."""


@tokens.command()
@click.option("--node", "node_id", help="For this node alone.")
@click.option("--site", "site_id", metavar="ID", help="To join this site.  [default: the node's own, else default]")
@click.option("--lifetime", "lifetime_s", callback=lifetime, metavar="TIME", help="10min to 7d.  [default: 24h]")
@click.option("--out", type=click.Path(path_type=Path), help="Write it to a new file (0600) and do not show it.")
@click.option("--uses", type=click.IntRange(1, 10_000), help="For so many nodes of the site, each once.  [default: 1]")
@click.option("--nodes", metavar="BEGIN*", help="Let in ids that begin so, as gw-*, without an entry for each.")
@join_file_options
@asks_the_coordinator
def create(
    asked: CoordinatorClient,
    out: Path | None,
    join_file: Path | None,
    join_urls: tuple[str, ...],
    node_ca: Path | None,
    uses: int | None,
    lifetime_s: int | None,
    **given: str | None,
) -> None:
    """A new token. It is shown once and kept nowhere: put it into /etc/holdfast/join.token on the node.

    For an image: --site S --uses N --nodes 'gw-*' --join-file FILE. Each of N nodes joins by the same file, under the
    id that it has from its own configuration or host name. Without --nodes it has to be on the allowlist.
    """
    if out is not None and join_file is not None:
        raise click.UsageError("--out and --join-file are two files for one token; give one of them")
    body = TokenRequest(**given, lifetime_s=lifetime_s, uses=uses or 1)
    file = out or join_file
    if file is None:
        answer = asked.post(IssuedToken, "tokens", body=body)
    else:
        with new_file(file) as opened:
            facts = None if join_file is None else facts_for_nodes(asked, join_urls, node_ca)
            answer = asked.post(IssuedToken, "tokens", body=body)
            if facts is None:
                opened.write(answer.token + "\n")
            else:
                write(opened, facts, answer)
    told = {name: value for name, value in asdict(answer).items() if file is None or name != "token"}
    asked.show(told, lambda _: _render_one(answer, file))


@tokens.command("list")
@asks_the_coordinator
def list_(asked: CoordinatorClient) -> None:
    """Every token that has not been forgotten yet."""
    asked.show(asked.get(TokenList, "tokens"), _render)


@tokens.command()
@click.argument("jti")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def revoke(asked: CoordinatorClient, jti: str, yes: bool) -> None:
    """A token is good for nothing any more, at once."""
    confirm(f"Revoke the token {jti}?", yes=yes)
    asked.say(asked.delete(RevokedToken, "tokens", jti), f"revoked: token {jti}")


def _render_one(answer: IssuedToken, out: Path | None) -> None:
    for_whom = f"{_whom(answer)} at {answer.site_id}"
    say(f"token {answer.jti}, until {output.time(answer.expires_at)}, for {for_whom}", err=True)
    say(answer.token if out is None else str(out))


def _render(answer: TokenList) -> None:
    rows = (
        (
            token.jti,
            _whom(token),
            token.site_id,
            _state(token),
            output.time(token.expires_at),
            token.issued_by,
        )
        for token in answer.tokens
    )
    output.table(("token", "node", "site", "state", "expires", "issued by"), rows, nothing="no tokens")


def _state(each: TokenEntry) -> str:
    if each.revoked_at is not None:
        return "revoked"
    if each.uses > 1:
        return f"{each.used} of {each.uses} used"
    return "unused" if each.used_by is None else f"used by {each.used_by}"


def _whom(each: TokenEntry | IssuedToken) -> str:
    if each.node_id is not None:
        return each.node_id
    beside = f" or {each.nodes}" if each.nodes else ""
    return f"any allowed node{beside}" if each.uses == 1 else f"{each.uses} allowed nodes{beside}"

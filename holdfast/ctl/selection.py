"""Which members a command is about: the options that `nodes list` and `fleet` have in common."""

from collections.abc import Callable

import click

SITE = click.option("--site", metavar="ID", help="Those of this site.")
LABEL = click.option("--label", "labels", metavar="NAME=VALUE", multiple=True,
                     help="Those that are declared with this label; again for further ones.")  # fmt: skip
STATE = click.option("--state", metavar="STATE",
                     help="Those in this state: unseen, silent, revoked, or as nodes say themselves.")  # fmt: skip


def selects_nodes(function: Callable[..., None]) -> Callable[..., None]:
    return SITE(LABEL(STATE(function)))

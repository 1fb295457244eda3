"""Which root, and which cluster in it, the commands of `holdfast store` mean.

Run as root they become the store's owner first: a lock file of root's would keep the agent out.
"""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import click

from holdfast.terminal.shown import say
from store.base.errors import StoreError, StoreFault
from store.base.layout import Root

DEFAULT_ROOT = "/var/lib/holdfast"
P = ParamSpec("P")


def options(function: Callable[P, None]) -> Callable[P, None]:
    """The root and the cluster, and errors as one line with exit 2."""

    @click.option("--root", default=DEFAULT_ROOT, show_default=True, help="The agent's state directory.")
    @click.option("--cluster", default="", help="Which cluster, where the root has several.")
    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:

        try:
            function(*args, **kwargs)
        except StoreError as error:
            say(f"holdfast store: {error}", err=True)
            raise SystemExit(2) from error

    return wrapper


def find_root(root: str, cluster: str) -> tuple[Path, str]:
    """The root as its owner sees it, and the one cluster that is meant."""

    path = Path(root).absolute()
    become_owner(path)
    clusters = Root.look(path).clusters
    if cluster and cluster not in clusters:
        raise StoreError(
            StoreFault.NOT_FOUND, f"no cluster {cluster[:80]!r} in {path}; there are: {', '.join(clusters)}"
        )
    if not cluster and len(clusters) != 1:
        raise StoreError(
            StoreFault.NOT_FOUND, f"name one with --cluster; in {path} are: {', '.join(clusters) or 'none'}"
        )
    return path, cluster or clusters[0]


def become_owner(path: Path) -> None:
    """As root: give up everything that the agent does not have."""
    try:
        owner = path.stat()
    except OSError:
        return  # said by the check of permissions that follows
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)

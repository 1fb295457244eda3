"""The options that say how a coordinator is set up on its machine: of `init`, and of `coordinators prepare`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from coordinator.base.places import DEFAULT_PATH
from coordinator.setup.configuration import OPTIONAL
from holdfast.ctl.socket import REFUSED, Failed

AMONG_COORDINATORS = "0.0.0.0:7446"
STATE = Path("/var/lib/holdfast-coordinator")

_PATH = click.Path(path_type=Path)
_OPTIONS = (
    click.option("--url", required=True, metavar="https://HOST:PORT", help="Where nodes will find the coordinator."),
    click.option("--host", "hosts", multiple=True,
                 help="A further name or address of the server, for its certificate."),
    click.option("--state", type=_PATH, default=STATE, show_default=True, help="The coordinator's own directory."),
    click.option("--configuration", "path", type=_PATH, default=DEFAULT_PATH, show_default=True,
                 help="The coordinator's configuration, written if it is not there."),
    click.option("--listen", default="0.0.0.0:7443", show_default=True, help="For members."),
    click.option("--listen-join", default="0.0.0.0:7444", show_default=True, help="For nodes that want to join."),
    click.option("--listen-probes", default=OPTIONAL["listen", "probes"], show_default=True,
                 help="For probes and metrics, over plain HTTP."),
    click.option("--admin-socket", type=_PATH, default=OPTIONAL["listen", "admin_socket"], show_default=True,
                 help="For operators here."),
    click.option("--listen-admin", default="", help="For operators from elsewhere.  [default: nobody]"),
    click.option("--listen-coordinators", default=None, metavar="HOST:PORT",
                 help="For the other coordinators.  [default: 0.0.0.0:7446; with SQLite nobody]"),
    click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts."),
)  # fmt: skip


@contextmanager
def with_a_coordinators_libraries() -> Iterator[None]:
    """An operator's machine need not have them; what makes a coordinator does."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = "on a coordinator's machine: apt install holdfast-coordinator, or pip install 'holdfast[coordinator]'"
        raise Failed(f"this makes a coordinator and needs {error.name}; do it {remedy}", REFUSED) from None


def set_up_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command has these options, in this order."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function

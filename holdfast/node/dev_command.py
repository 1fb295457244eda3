"""`holdfast dev DIR`: a folder of plain files at the local API, for whoever writes a service."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click
import trio

from agent.base.clock import SystemClock
from agent.development.development import Place, Served
from agent.development.plain_files import PlainFileError
from holdfast.node.agent_options import PLACE, fail
from holdfast.terminal.shown import say
from wire.unix import SocketError

USAGE, NOT_SERVED = 2, 1


@click.command("dev")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--socket", "socket_path", type=PLACE, help="Where to answer; by default DIR/.holdfast/agent.sock.")
@click.option("--files", type=PLACE, help="Where to project files; by default DIR/.holdfast/active.")
def command(folder: Path, socket_path: Path | None, files: Path | None) -> None:
    """Serve the plain files in DIR as an agent serves what is active: local API and projected files, without
    coordinator and keys. It ends with Ctrl-C.

    \b
    DIR/services/<id>/settings.json   and endpoints.json, workload.json
    DIR/routes.json                   {"<id>": {...}}
    DIR/config/<id>/<path>            a file of a Config, any bytes
    DIR/<scope>/<section>.json        any other scope, as in /run/holdfast/active

    A change of a file is seen within a second. Every answer is marked `development` (Holdfast-Source); nothing here is
    signed or verified, so it is no configuration of any node.
    """
    hidden = folder.absolute() / ".holdfast"
    if socket_path is None or files is None:
        hidden.mkdir(mode=0o700, exist_ok=True)
    place = Place(folder.absolute(), socket_path or hidden / "agent.sock", files or hidden / "active")
    try:
        trio.run(_until_told_to_stop, place, strict_exception_groups=False)
    except PlainFileError as error:
        fail(str(error), USAGE)
    except SocketError as error:
        fail(str(error), NOT_SERVED)


async def _until_told_to_stop(place: Place) -> None:
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            nursery.start_soon(Served(place, SystemClock()).run, _saying(place))
            async for _ in received:
                nursery.cancel_scope.cancel()


def _saying(place: Place) -> Callable[[], None]:
    def ready() -> None:
        say(f"export HOLDFAST_SOCKET={place.socket} HOLDFAST_FILES={place.files}")
        say("development: plain files, nothing is signed")
        sys.stdout.flush()

    return ready

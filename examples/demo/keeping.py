"""`make demo KEEP=1`: it is left running, and this says how to look around and how to end it."""

import shlex
import shutil
from pathlib import Path

from examples.demo.world import INTRANET, World

LOOK_AROUND = """
It is left running in {folder}. Some things to try:

  export HOLDFAST_SOCKET={socket} HOLDFAST_ADMIN_SOCKET={admin}
  {bin}/holdfast status --watch
  {bin}/holdfast explain route_policy
  {bin}/holdfast may open_session --resource aurora-intranet
  curl --unix-socket {socket} http://localhost/v1/scopes/route_policy
  curl -H 'Host: {host}' http://127.0.0.1:{port}/
  {bin}/holdfastctl fleet
  {bin}/holdfastctl explain {node}
  {bin}/holdfastctl audit

{missing}  sh {stop}        ends it and removes it

The storage endpoints of examples/fabric are not on this machine: `holdfast status` says so. Nothing needs them.
"""

NO_CURL = """\
  There is no curl here; tools/system-packages demo says how to have it.

"""

# A pid may be another's by the time that somebody runs this: ours were started where the logs are.
STOP = """\
#!/bin/sh
ours() {{ [ "$(readlink /proc/$1/cwd)" = {logs} ]; }}
for pid in {pids}; do ours $pid && kill $pid; done
for pid in {pids}; do while ours $pid; do sleep 0.1; done; done
rm -rf {folder}
"""


def keep(world: World, programs: Path) -> str:
    """Writes a script that ends it; the text to show."""
    stop = world.folder / "stop"
    pids = " ".join(str(process.pid) for process in reversed(world.processes.running.values()))
    stop.write_text(STOP.format(pids=pids, logs=_word(world.processes.folder), folder=_word(world.folder)))
    return LOOK_AROUND.format(
        folder=world.folder,
        socket=_word(world.ingress.socket),
        admin=_word(world.coordinator.socket),
        bin=_word(programs),
        host=INTRANET,
        port=world.gateway.port,
        node=world.ingress.node_id,
        stop=_word(stop),
        missing="" if shutil.which("curl") else NO_CURL,
    )


def _word(path: Path) -> str:
    """As a shell reads it back: there are folders with spaces in their names."""
    return shlex.quote(str(path))

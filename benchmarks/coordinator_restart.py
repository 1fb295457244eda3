"""What a coordinator costs that is started beside a fleet which has all of its documents: its start, memory, database.

    python -m benchmarks.coordinator_restart [--nodes 10 100 1000 10000]

The program is the one that is shipped, as a process of its own; each node has eight scopes. Processor time until it
serves; its anonymous memory and what it has used by then, once it has found that nothing is due; the database's file.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.agent import processor_s
from benchmarks.changes import state
from benchmarks.coordinator import with_members
from benchmarks.figures import note
from benchmarks.publishing import publish_due
from coordinator.database.database import Database
from tests.citations import ROOT
from tests.coordinator.founding import Founded
from tests.coordinator.publishing import Press

PROGRAM = "from coordinator.command import main; main()"
ROUNDS = 3
SETTLED_S, LOOK_S = 3.0, 0.01


def fleet(folder: Path, nodes: int) -> Founded:
    """All of it published."""
    founded = Founded(folder, f"sqlite:///{folder}/state.db")
    (folder / "coordinator.toml").write_text(founded.text())
    database = Database(founded.url)
    with_members(database, nodes, founded.now)
    press = Press(database, bundles=founded.bundles, now=founded.now)
    press.apply(state(nodes, 1, 5))
    publish_due(press)
    database.close()
    return founded


def started(folder: Path) -> tuple[float, float, float]:
    """Milliseconds until it serves, and with what it finds to do then; MiB."""
    command = [sys.executable, "-c", PROGRAM, "--config", str(folder / "coordinator.toml")]
    environment = {**os.environ, "NOTIFY_SOCKET": ""}
    log = folder / "log"
    with log.open("w") as said, subprocess.Popen(command, cwd=ROOT, env=environment, stderr=said) as process:
        try:
            while '"serving"' not in log.read_text():
                assert process.poll() is None, log.read_text()
                time.sleep(LOOK_S)
            until_served = processor_s(process.pid)
            time.sleep(SETTLED_S)
            assert process.poll() is None, log.read_text()
            return until_served * 1e3, processor_s(process.pid) * 1e3, anonymous_kib(process.pid) / 1024
        finally:
            process.terminate()


def anonymous_kib(pid: int) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("RssAnon:"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1_000, 10_000])
    for nodes in options.parse_args().nodes:
        with tempfile.TemporaryDirectory() as name:
            fleet(Path(name), nodes)
            rounds = [started(Path(name)) for _ in range(ROUNDS)]
            mib = sum(path.stat().st_size for path in Path(name).glob("state.db*")) / (1 << 20)
        served, settled, anonymous = zip(*rounds, strict=True)
        note("restart/until it serves", "ms", served, size=nodes)
        note("restart/until it has found nothing to do", "ms", settled, size=nodes)
        note("restart/anonymous memory", "MiB", anonymous, size=nodes)
        note("restart/database", "MiB", [mib], size=nodes)
        print(
            f"{nodes} nodes: serves after {min(served):.0f} ms of the processor, settled after {min(settled):.0f};"
            f" {max(anonymous):.0f} MiB anonymous; database {mib:.1f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()

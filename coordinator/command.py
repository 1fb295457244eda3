"""`holdfast-coordinator`: its arguments. The daemon, which takes most of a second, is loaded once they ask for it.

holdfast-coordinator [--config /etc/holdfast/coordinator.toml]
"""

import argparse
from pathlib import Path

from coordinator.base.places import DEFAULT_PATH
from wire.version import VERSION


def main() -> None:
    parser = argparse.ArgumentParser(prog="holdfast-coordinator", description="The Holdfast coordinator of a cluster.")
    parser.add_argument("--config", type=Path, help=f"coordinator.toml (default: {DEFAULT_PATH})")
    parser.add_argument("path", nargs="?", type=Path, metavar="CONFIG", help="the same, by its place")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    asked = parser.parse_args()
    from coordinator import run  # noqa: PLC0415 - as the head says

    run.run(asked.config or asked.path or DEFAULT_PATH)

"""`holdfast-agent`: its arguments. The agent is loaded once they ask for it.

holdfast-agent [--config /etc/holdfast/agent.toml] [--check]
"""

import argparse
import signal
from pathlib import Path

from wire.version import VERSION

DEFAULT_CONFIG = Path("/etc/holdfast/agent.toml")


def main() -> None:
    signal.signal(signal.SIGHUP, _ignore_hangup)
    parser = argparse.ArgumentParser(prog="holdfast-agent", description="The Holdfast agent of this node.")
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="agent.toml (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="look at the configuration, and start nothing")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    asked = parser.parse_args()
    from agent import run  # noqa: PLC0415 - as the head says

    run.run(asked.config, is_check=asked.check)


def _ignore_hangup(number: int, frame: object) -> None:
    """A hangup before anybody waits for one: it ends nothing. Not ignored, since commands would inherit that."""


if __name__ == "__main__":
    main()

"""Whether agent.toml names a node, and waiting for one that does not yet (rules A2, K29).

A file that cannot be read meanwhile, since somebody is at it, is said and waited for.
"""

import tomllib
from pathlib import Path

import trio

from agent.config.configuration import AgentSettings, ConfigurationError, load, parse
from snapshot.frozen import mutable
from wire.logs import log

LOOK_EVERY_S = 1.0
ABOUT_A_NODE = ("node", "coordinator", "manual")
_NOBODY = {
    "node": {"cluster_id": "none", "node_id": "none"},
    "coordinator": {"urls": ["https://none:1"], "ca_file": "/none"},
}


def settings_without_a_node(path: Path) -> AgentSettings | None:
    """None also where the file cannot be read as TOML: that is for `load` to say. ConfigurationError for the rest."""
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if any(name in value for name in ABOUT_A_NODE):
        return None
    return parse({**value, **_NOBODY})


@mutable
class Awaited:
    """The file that does not name a node yet; `named` once it does, and whatever else is right with it."""

    path: Path
    named: bool = False

    async def come(self) -> None:
        """Until it has. It is looked at first of all: it may have come since the process has read it."""
        seen: tuple[int, ...] | None = ()
        said = ""
        while not self.named:
            await trio.sleep(LOOK_EVERY_S)
            if (stamp := _stamp(self.path)) == seen:
                continue
            seen = stamp
            try:
                self.named = settings_without_a_node(self.path) is None and load(self.path) is not None
            except ConfigurationError as error:
                if str(error) != said:
                    said = str(error)
                    log.error("not taken up", problems=error.problems)  # noqa: TRY400 - no trace needed


def _stamp(path: Path) -> tuple[int, ...] | None:
    """A stat of one local file: no thread's work."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

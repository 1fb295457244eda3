"""Where the daemon's configuration lies, for its own command and for those of operators."""

from pathlib import Path

DEFAULT_PATH = Path("/etc/holdfast/coordinator.toml")

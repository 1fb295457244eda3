"""What systemd hands to the agent: credentials, each a file under `$CREDENTIALS_DIRECTORY` (rules K14, L40).

    LoadCredential=holdfast.node-key      the node's private key; without it the agent makes its own
    LoadCredential=holdfast.join-token    the join token

Without a path after the name, systemd looks for them in /etc/credstore and with its own manager, and a missing one is
no error.
"""

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "CREDENTIALS_DIRECTORY"
NODE_KEY, JOIN_TOKEN = "holdfast.node-key", "holdfast.join-token"


def credential(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Its file; None where it was not given."""
    folder = credentials_directory(environment)
    return folder / name if folder is not None and (folder / name).is_file() else None


def credentials_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    return Path(environment[VARIABLE]) if environment.get(VARIABLE) else None

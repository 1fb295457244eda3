"""The join token: opaque to the node, sent once, never logged (rules K14, K16; threats D-34, D-61, J12)."""

import base64
import errno
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.credentials import credentials_directory
from snapshot.identifiers import is_id

TOKEN_BYTES = 8 << 10
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class BadTokenFileError(ValueError):
    """There is a file, and it is not one to take a token from; the text names it and the remedy, never its content."""


def read_token(file: Path) -> str | None:
    """The token as it stands in its file, opaque to us; None where there is no file. BadTokenFileError."""
    try:
        data = _read(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadTokenFileError(f"{file} is a symbolic link: put the token itself there") from error
        raise BadTokenFileError(f"{file}: {error.strerror}") from error
    return parse_token(data, str(file))


def parse_token(data: bytes, where: str) -> str:
    """One line; BadTokenFileError names `where`."""
    text = data.decode("ascii", "replace").strip()
    if not text or len(data) > TOKEN_BYTES or not text.isprintable() or not text.isascii():
        raise BadTokenFileError(f"there is no token in {where}: one line of at most {TOKEN_BYTES} characters")
    return text


@dataclass(frozen=True)
class Found:
    """In the order of the files; `trouble` with those that hold none."""

    tokens: tuple[str, ...]
    trouble: str = ""


def find_tokens(files: Sequence[Path]) -> Found:
    tokens, troubles = [], []
    for file in files:
        try:
            token = read_token(file)
        except BadTokenFileError as error:
            troubles.append(str(error))
            continue
        tokens += [token] if token is not None else []
    return Found(tuple(tokens), "; ".join(troubles))


def cluster_of(token: str) -> str | None:
    """The cluster that a token says it is for, unverified: it selects nothing but a warning (rules K27, X10)."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        cluster = claims.get("cluster")
    except (IndexError, ValueError, AttributeError, RecursionError):
        return None
    return cluster if is_id(cluster) else None


def _read(file: Path) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadTokenFileError(f"{file} is no file")
        # systemd opens a credential to its user by an access list, whose mask stands where the group's bits are.
        open_to = stat.S_IRWXO if file.parent == credentials_directory() else _OTHERS
        if status.st_mode & open_to:
            raise BadTokenFileError(f"{file} is open to others: revoke that token, or chmod 0600 {file}")
        return opened.read(TOKEN_BYTES + 1)

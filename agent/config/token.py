"""The join token: sent once, never logged (rules K14, K16; threats D-34, D-61, J12).

Its signature is the coordinator's business. What the node reads in it is what the operator who made it says of the
cluster: which one it is, and which root keys sign its first trust bundle. A second line of its file says that the
operator knows of none, and takes those of the first answer (threats D-19).
"""

import base64
import errno
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agent.config.credentials import credentials_directory
from snapshot.frozen import frozen
from snapshot.identifiers import is_hash, is_id, is_integer

TOKEN_BYTES = 8 << 10
FIRST_USE_LINE = "trust-on-first-use"
MOST_ROOTS = 64
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class BadTokenFileError(ValueError):
    """There is a file, and it is not one to take a token from; the text names it and the remedy, never its content."""


@frozen
class RootPins:
    """The root keys that sign the first trust bundle, and how many of them must have."""

    root_key_ids: frozenset[str]
    threshold: int


@frozen
class JoinToken:
    """`trusts_first_use`: as its file says, the root keys of the first answer are taken."""

    text: str = field(repr=False)
    trusts_first_use: bool = False

    @property
    def cluster_id(self) -> str | None:
        """The cluster that it says it is for, unverified: it selects nothing but a warning (rules K27, X10)."""
        cluster = self._claims().get("cluster")
        return cluster if isinstance(cluster, str) and is_id(cluster) else None

    @property
    def pins(self) -> RootPins | None:
        """None where it names no root keys that could be pinned."""
        claims = self._claims()
        named, threshold = claims.get("root_key_ids"), claims.get("root_threshold")
        if not isinstance(named, list) or not all(map(is_hash, named)) or not is_integer(threshold):
            return None
        fits = 1 <= int(str(threshold)) <= len(set(named)) <= MOST_ROOTS
        return RootPins(frozenset(named), int(str(threshold))) if fits else None

    def lines(self) -> str:
        """As it stands in its file."""
        return f"{self.text}\n{FIRST_USE_LINE}\n" if self.trusts_first_use else f"{self.text}\n"

    def _claims(self) -> Mapping[str, object]:
        parts = self.text.split(".")
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        except (IndexError, ValueError, RecursionError):
            return {}
        return claims if isinstance(claims, dict) else {}


def read_token(file: Path) -> JoinToken | None:
    """As it stands in its file; None where there is no file. BadTokenFileError."""
    try:
        data = _read(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadTokenFileError(f"{file} is a symbolic link: put the token itself there") from error
        raise BadTokenFileError(f"{file}: {error.strerror}") from error
    return parse_token(data, str(file))


def parse_token(data: bytes, where: str) -> JoinToken:
    """One line, or two of which the second is known; BadTokenFileError names `where`."""
    lines = data.decode("ascii", "replace").strip().splitlines()
    trusts_first_use = lines[1:] == [FIRST_USE_LINE]
    text = "\n".join(lines[:1] if trusts_first_use else lines).strip()
    if not text or len(data) > TOKEN_BYTES or not text.isprintable() or not text.isascii():
        raise BadTokenFileError(f"there is no token in {where}: one line of at most {TOKEN_BYTES} characters")
    return JoinToken(text, trusts_first_use)


@frozen
class Found:
    """In the order of the files; `trouble` with those that hold none."""

    tokens: tuple[JoinToken, ...]
    trouble: str = ""


def find_tokens(files: Sequence[Path]) -> Found:
    """The tokens of all files; a file that is out of form is named and keeps none of the others out."""
    tokens, troubles = [], []
    for file in files:
        try:
            token = read_token(file)
        except BadTokenFileError as error:
            troubles.append(str(error))
            continue
        tokens += [token] if token is not None else []
    return Found(tuple(tokens), "; ".join(troubles))


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

"""Secrets, fetched by the program that needs them: `{"secret_ref": "<resolver>:<path>"}` becomes the secret itself.

    credential:NAME    a credential of systemd that the unit has loaded (LoadCredential=, LoadCredentialEncrypted=, ...)
    file:/PATH         a file that is this account's alone, or root's and at most readable by a group

This runs in the service's own process, before its program: neither the agent nor a coordinator ever has the secret,
and who may read a Config learns the name of a secret at most. That the agent should resolve references, and hand out
what it finds, was rejected: it would have to be let into every service's secrets.

No error here quotes a value. One line break at the end goes, since editors and `echo` put one there.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

CREDENTIALS = "CREDENTIALS_DIRECTORY"
MOST_BYTES = 1 << 20  # systemd's own bound of a credential

_CREDENTIAL = re.compile(r"(?!\.\.?$)[A-Za-z0-9._@:-]{1,255}", re.ASCII)


class UnresolvedError(ValueError):
    """A secret that cannot be had; the text names the reference and the remedy, and no value."""


def resolve(value: object, environment: Mapping[str, str]) -> object:
    """The same JSON value with each reference replaced by its secret. UnresolvedError names the member as well."""
    try:
        return _resolve(value, environment, "")
    except RecursionError:
        raise UnresolvedError("is nested too deep") from None


def _resolve(value: object, environment: Mapping[str, str], place: str) -> object:
    match value:
        case {"secret_ref": str(reference), **others} if not others:
            try:
                return _secret(reference, environment)
            except UnresolvedError as error:
                raise UnresolvedError(f"{place}: {error}" if place else str(error)) from None
        case dict():
            within = f"{place}." if place else ""
            return {name: _resolve(inner, environment, f"{within}{name}") for name, inner in value.items()}
        case list():
            return [_resolve(inner, environment, f"{place}[{at}]") for at, inner in enumerate(value)]
        case _:
            return value


def _secret(reference: str, environment: Mapping[str, str]) -> str:
    name, _, path = reference.partition(":")
    if name not in RESOLVERS:
        known = ", ".join(f"{resolver}:..." for resolver in RESOLVERS)
        raise UnresolvedError(f"{reference}: nothing resolves {name!r} here; there are {known}")
    try:
        data = RESOLVERS[name](path, environment)
    except OSError as error:
        raise UnresolvedError(f"{reference}: {error.strerror}: {_REMEDIES[name]}") from None
    try:
        return data.removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        raise UnresolvedError(f"{reference}: is no UTF-8 text: encode it, as base64") from None


def _credential(name: str, environment: Mapping[str, str]) -> bytes:
    folder = environment.get(CREDENTIALS)
    if not folder:
        raise UnresolvedError(f"credential:{name}: this process was given no credentials: {_REMEDIES['credential']}")
    if not _CREDENTIAL.fullmatch(name):
        raise UnresolvedError(f"credential:{name}: is no name of a credential")
    descriptor = os.open(Path(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    return _read(descriptor, f"credential:{name}")


def _file(path: str, _environment: Mapping[str, str]) -> bytes:
    if not path.startswith("/"):
        raise UnresolvedError(f"file:{path}: must be a path from the root")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return _read(descriptor, f"file:{path}", _refuse_others)


def _refuse_others(status: os.stat_result, reference: str) -> None:
    """UnresolvedError for a file that others than its reader may read or change."""
    if status.st_uid not in (0, os.geteuid()):
        raise UnresolvedError(
            f"{reference}: belongs to uid {status.st_uid}: give it to this account or to root (chown)"
        )
    shared = 0o027 if status.st_uid == 0 else 0o077
    if stat.S_IMODE(status.st_mode) & shared:
        raise UnresolvedError(
            f"{reference}: others may read or change it: chmod {'0640' if status.st_uid == 0 else '0600'}"
        )


def _read(
    descriptor: int, reference: str, refuse: Callable[[os.stat_result, str], None] = lambda _status, _reference: None
) -> bytes:
    """Judged by the descriptor, so that nobody puts another file there meanwhile."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnresolvedError(f"{reference}: is no regular file")
        refuse(status, reference)
        data = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise UnresolvedError(f"{reference}: has more than {MOST_BYTES} bytes")
    return data


RESOLVERS: Mapping[str, Callable[[str, Mapping[str, str]], bytes]] = {"credential": _credential, "file": _file}
_REMEDIES = {
    "credential": "load it in the unit (LoadCredential=NAME:/path, LoadCredentialEncrypted=NAME)",
    "file": "put it there, for this account alone",
}

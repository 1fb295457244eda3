r"""A file of a Config that says what a program's environment variables are. Pure.

    read_variables(path, data)    a JSON value, for `variables` and `resolve`

`*.env`: one NAME=VALUE a line, the value as it stands to the end of the line; empty lines and those that begin with `#`
say nothing. Quotes, `\`, `$` and spaces around a value mean something else to each program that reads such files
(shells, systemd, Docker), so they are refused here: JSON says them without a doubt. Any other name: one JSON object.
"""

import json
import re
from collections.abc import Iterator

from snapshot import canonical

DEFAULT_FILE = "env.json"
ENV_SUFFIX = ".env"
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII)
_DOUBTFUL = re.compile(r"""^[ \t]|[ \t]$|["'`\\$]""")


class NoVariablesFileError(ValueError):
    """A file that cannot be read so; the text names the place and the remedy, and no value."""


def read_variables(path: str, data: bytes) -> object:
    """NoVariablesFileError."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NoVariablesFileError(f"{path}: is no UTF-8 text") from None
    if path.endswith(ENV_SUFFIX):
        return _unique(path, _lines(path, text))
    try:
        value = json.loads(text, object_pairs_hook=lambda members: _unique(path, iter(members)))
    except json.JSONDecodeError as error:
        raise NoVariablesFileError(f"{path}: is no JSON at line {error.lineno}: write names and values") from None
    except RecursionError:
        raise NoVariablesFileError(f"{path}: is nested too deep") from None
    try:
        canonical.dumps(value)
    except ValueError:
        raise NoVariablesFileError(
            f"{path}: has a number that not every reader takes alike: write it as text"
        ) from None
    return value


def _lines(path: str, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise NoVariablesFileError(f"{path}: line {number} is no NAME=VALUE")
        name, value = match.groups()
        if _DOUBTFUL.search(value):
            raise NoVariablesFileError(
                f"{path}: {name} has a quote, `\\`, `$` or a space at an end, which not every reader takes alike:"
                f" write it as JSON, in {DEFAULT_FILE}"
            )
        yield name, value


def _unique(path: str, members: Iterator[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in members:
        if name in found:
            raise NoVariablesFileError(f"{path}: {name} stands there twice: leave one out")
        found[name] = value
    return found

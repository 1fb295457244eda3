"""The commands that pages show: lines of code blocks that call one of our programs, judged by the programs' parsers."""

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.ctl import operator
from holdfast.node import command

PROGRAMS: dict[str, click.Command] = {"holdfast": command.main, "holdfastctl": operator.main}
DAEMONS = {"holdfast-agent": {"--check", "--config"}, "holdfast-coordinator": {"--config"}}

_BLOCK = re.compile(r"(?:^(?: {4}|\t).*\n?)+|^```[a-z]*\n(?:.*\n)*?^```", re.MULTILINE)
_CALL = re.compile(r"^\s*(?:\$ )?(?:sudo )?((?:holdfast|holdfastctl|holdfast-agent|holdfast-coordinator) .*)$")
_INLINE = re.compile(r"`((?:holdfast|holdfastctl) [a-z][^`\n]*)`")


def shown(page: Path) -> Iterator[str]:
    """Each call in a block of code, lines joined where they go on."""
    for block in _BLOCK.findall(page.read_text()):
        for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
            if match := _CALL.match(line):
                yield re.split(r"\s+(?:[|>&]|#)", match[1])[0].strip()


def mentioned(page: Path) -> Iterator[str]:
    """Calls within a sentence: the command must exist, its arguments may be left out. `a|b` is two."""
    for call in _INLINE.findall(_BLOCK.sub("", page.read_text())):
        words = [word.split("|") for word in call.split(" ")]
        yield from (" ".join(chosen) for chosen in itertools.product(*words))


def fault(call: str, *, whole: bool = True) -> str:
    """What the program would say to it before it does anything; empty for nothing. `whole`: arguments are all there."""
    program, *words = shlex.split(call)
    if program in DAEMONS:
        return ", ".join(word for word in words if word.startswith("-") and word not in DAEMONS[program])
    try:
        found, rest = _descend(PROGRAMS[program], words)
        return _judged(found, rest) if whole else _judged_options(found, rest)
    except click.UsageError as error:
        return error.format_message()


def _descend(found: click.Command, words: list[str]) -> tuple[click.Command, list[str]]:
    while isinstance(found, click.Group) and words and words not in (["--help"], ["-h"]):
        _, rest, _ = found.make_parser(click.Context(found)).parse_args(list(words))
        if not rest:
            break  # a group that is a command, too
        words = rest
        inner = found.get_command(click.Context(found), words[0])
        if inner is None:
            raise click.UsageError(f"there is no {words[0]}")
        found, words = inner, words[1:]
    return found, words


def _judged(found: click.Command, words: list[str]) -> str:
    if words in (["--help"], ["-h"]):
        return ""
    values, surplus, _ = found.make_parser(click.Context(found)).parse_args(list(words))
    if surplus:
        return f"surplus: {surplus}"
    if isinstance(found, click.Group) and not (found.invoke_without_command and words):
        return "a group is no command"
    # What is not given is None, an empty tuple or a mark of click's own, by its version.
    missing = [each.name for each in found.params if each.required and not _is_given(values.get(each.name))]
    return f"missing: {missing}" if missing else ""


def _is_given(value: object) -> bool:
    return isinstance(value, str | tuple | list) and bool(value)


def _judged_options(found: click.Command, words: list[str]) -> str:
    known = {name for each in found.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    return ", ".join(word for word in words if word.startswith("-") and word.split("=")[0] not in known)

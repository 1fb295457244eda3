"""The manual pages of the commands: parts written by hand (packaging/man/*.in), and every option as click knows it.

    python -m tests.packaging.manual            says which differ from the code
    python -m tests.packaging.manual --write    writes them anew

`@COMMANDS@` in a part stands for all subcommands. Nothing here depends on click's version, terminal or clock.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from holdfast.ctl import operator
from holdfast.node import command
from tests.citations import ROOT
from tests.packaging import settings

MANUAL = ROOT / "packaging/man"
IN_COMMON = {"--socket", "--files"}  # of nearly every command: the part describes them once
FILES: dict[str, Callable[[], Iterator[str]]] = {
    "agent.toml.5.in": settings.agents,
    "coordinator.toml.5.in": settings.coordinators_own,
}
PROGRAMS: dict[str, click.Command] = {"holdfast": command.main, "holdfastctl": operator.main}


def page(part: Path) -> str:
    text = part.read_text()
    if part.name in FILES:
        return text.replace("@SETTINGS@\n", "".join(f"{line}\n" for line in FILES[part.name]()))
    program = PROGRAMS.get(part.name.split(".")[0])
    if program is None:
        return text
    context = click.Context(program, info_name=part.name.split(".")[0])
    return text.replace("@COMMANDS@\n", "".join(f"{line}\n" for line in _commands(program, context)))


def pages() -> dict[Path, str]:
    """Each page, and what should stand there."""
    return {part.with_suffix(""): page(part) for part in sorted(MANUAL.glob("*.in"))}


def _commands(group: click.Command, context: click.Context) -> Iterator[str]:
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        inner = click.Context(found, info_name=name, parent=context)
        if isinstance(found, click.Group):
            yield from _described(found, inner)
            yield from _commands(found, inner)
        else:
            yield from _described(found, inner)


def _described(found: click.Command, context: click.Context) -> Iterator[str]:
    arguments = [each for each in found.params if isinstance(each, click.Argument)]
    options = [each for each in found.params if isinstance(each, click.Option) and not IN_COMMON & {*each.opts}]
    words = [context.command_path, *(["[OPTIONS]"] if options else []), *map(_place, arguments)]
    words += ["COMMAND ..."] if isinstance(found, click.Group) else []
    yield f'.SS "{escaped(" ".join(words))}"'
    yield from _paragraphs(found.help or "")
    for option in options:
        yield from _option(option)


def _place(argument: click.Argument) -> str:
    if isinstance(argument.type, click.Choice):
        return f"{{{'|'.join(map(str, argument.type.choices))}}}"
    name = argument.metavar or str(argument.name).upper()
    several = "..." if argument.nargs != 1 and not name.endswith("...") else ""
    return f"{name}{several}" if argument.required or name.startswith("[") else f"[{name}]{several}"


def _option(option: click.Option) -> Iterator[str]:
    names = ", ".join(rf"\fB{escaped(name)}\fR" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else rf" \fI{escaped(_value(option))}\fR"
    yield ".TP"
    yield names + value
    said = [option.help or ""]
    if option.required:
        said.append("Needed.")
    if option.show_default and isinstance(option.default, str | int | Path) and not option.is_flag:
        said.append(f"Default: {option.default}.")
    elif isinstance(option.show_default, str):
        said.append(f"Default: {option.show_default}.")
    if isinstance(option.envvar, str):
        said.append(f"Environment: {option.envvar}.")
    yield _line(" ".join(filter(None, said)))


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    match option.type:
        case click.Choice(choices=choices):
            return "|".join(map(str, choices))
        case click.types.IntParamType() | click.types.FloatParamType():
            return "N"
        case click.Path() | click.File():
            return "PATH"
    return "TEXT"


def _paragraphs(text: str) -> Iterator[str]:
    """click's: a paragraph under \\b keeps its lines."""
    for paragraph in filter(None, (each.strip("\n") for each in text.split("\n\n"))):
        lines = [line.strip() for line in paragraph.splitlines()]
        yield ".PP"
        if lines[0] == "\b":
            yield from (".nf", *map(_line, lines[1:]), ".fi")
        else:
            yield from map(_line, lines)


def _line(text: str) -> str:
    text = escaped(text)
    return rf"\&{text}" if text.startswith((".", "'")) else text


def escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")


def main() -> int:
    behind = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    for path in behind:
        if "--write" in sys.argv[1:]:
            path.write_text(pages()[path])
        print(path.relative_to(ROOT))
    return 1 if behind and "--write" not in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())

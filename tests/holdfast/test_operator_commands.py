"""docs/keys.md shows commands that exist, with options that exist."""

import re
import shlex

import click
import pytest

from holdfast.ctl import operator
from holdfast.node import command
from tests.holdfast.operator_lab import ROOT

GUIDE = ROOT / "docs" / "keys.md"
SHOWN = [line.strip() for line in GUIDE.read_text().splitlines() if line.startswith("    ")]
OURS = [line for line in SHOWN if line.split()[0] in ("holdfastctl", "holdfast")]


def found(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and the words that are left."""
    at: click.Command = operator.main if words.pop(0) == "holdfastctl" else command.main
    while isinstance(at, click.Group) and not words[0].startswith("-"):
        inner = at.get_command(click.Context(at), words[0])
        assert inner is not None, f"there is no command {words[0]}"
        at = inner
        words.pop(0)
    return at, words


@pytest.mark.parametrize("line", OURS)
def test_a_command_of_the_guide_exists(line: str) -> None:
    shown, rest = found(shlex.split(line))
    try:
        shown.make_context(shown.name or "", rest)
    except click.UsageError as error:
        assert "does not exist" in error.message, f"{line}: {error.message}"


def test_the_guide_shows_every_ceremony() -> None:
    """Each command that root keys sign for, and each subcommand of rotate, trust, revoke, epoch."""
    groups = ("rotate", "trust", "revoke", "epoch")
    wanted = {"recover", "init"}
    for name in groups:
        group = operator.main.get_command(click.Context(operator.main), name)
        wanted |= {f"{name} {inner}" for inner in group.list_commands(click.Context(group))}
    text = "\n".join(SHOWN) + GUIDE.read_text()
    missing = {each for each in wanted if not re.search(rf"holdfastctl {each}\b", text)}
    assert missing == {"epoch show"}


def test_other_commands_are_the_service_managers() -> None:
    assert {line.split()[0] for line in SHOWN} == {"holdfastctl", "holdfast", "systemctl"}

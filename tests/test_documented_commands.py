"""Every command that a page shows can be given: its subcommand, options and arguments exist."""

import click
import pytest

from tests.citations import ROOT
from tests.documented_commands import PROGRAMS, fault, mentioned, shown

PAGES = sorted(path for pattern in ("*.md", "docs/*.md", "examples/**/*.md") for path in ROOT.glob(pattern))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_shows_can_be_typed(page):
    assert {call: said for call in shown(page) if (said := fault(call))} == {}
    assert {call: said for call in mentioned(page) if (said := fault(call, whole=False))} == {}


def test_there_are_commands_to_judge():
    assert len(list(shown(ROOT / "docs/operating.md"))) > 40
    assert len(list(shown(ROOT / "docs/keys.md"))) > 20


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("holdfastctl nodes show gw-1", ""),
        ("holdfastctl nodes shew gw-1", "shew"),
        ("holdfastctl nodes show", "missing"),
        ("holdfastctl nodes show gw-1 gw-2", "surplus"),
        ("holdfastctl nodes", "group"),
        ("holdfastctl fleet --jsn", "--jsn"),
        ("holdfast may open_route --scope", "--scope"),
        ("holdfast-agent --configuration x", "--configuration"),
        ("holdfast-agent --config x", ""),
    ],
)
def test_what_is_said_of_a_call(call, said):
    assert said in fault(call) if said else fault(call) == ""


def test_calls_are_found_in_blocks_of_both_kinds(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Type `holdfast get SCOPE`.\n\n    $ holdfastctl init a \\\n        --url b\n    holdfast status | less\n"
        "    cluster  x\n\n```\nholdfast watch  # for ever\n```\n"
    )
    assert list(shown(page)) == ["holdfastctl init a --url b", "holdfast status", "holdfast watch"]
    assert list(mentioned(page)) == ["holdfast get SCOPE"]


def every(found: click.Command, name: str):
    yield name, found
    if isinstance(found, click.Group):
        for inner in found.list_commands(click.Context(found)):
            yield from every(found.get_command(click.Context(found), inner), f"{name} {inner}")


def test_every_command_that_answers_has_an_answer_for_scripts():
    """operating.md: `--json`."""
    commands = [pair for name, program in PROGRAMS.items() for pair in every(program, name)]
    leaves = {name: found for name, found in commands if not isinstance(found, click.Group)}
    assert len(leaves) > 50
    without = {name for name, found in leaves.items() if not any("--json" in each.opts for each in found.params)}
    assert without == {"holdfast dev", "holdfast exec"}  # one serves, the other becomes another program


def test_nothing_but_a_removal_and_a_recovery_can_be_forced():
    """rules P12: what needs more rights than an admin's asks for root keys, and stands in the audit log (leaving.py,
    owner_recovery.py)
    """
    commands = [pair for name, program in PROGRAMS.items() for pair in every(program, name)]
    assert len(commands) > 60
    options = {(name, option) for name, found in commands for each in found.params for option in each.opts}
    forced = {"holdfastctl nodes remove", "holdfastctl coordinators recover"}
    assert {pair for pair in options if "force" in pair[1]} == {(name, "--force") for name in forced}
    assert {(name, "--root-key") for name in forced} <= options

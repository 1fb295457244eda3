"""The pages made from the code say what the code says now, and leave nothing out."""

from typing import get_args

import pytest

from agent.config.configuration import AgentSettings
from coordinator.base.settings import CoordinatorSettings
from coordinator.declared.kinds import KINDS
from tests.citations import ROOT
from tests.pages import PAGES, comments
from tests.pages.configuration import TABLES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_what_the_code_says(path):
    """rules P26"""
    assert path.read_text() == PAGES[path](), "run `python -m tests.pages --write`"


def test_each_key_of_the_configuration_is_on_the_page():
    page = (ROOT / "docs/configuration.md").read_text()
    for _, table in TABLES:
        for name, each in table.__dataclass_fields__.items():
            assert each.metadata["about"].endswith("."), f"{name} does not say what it is for"
            assert f"| `{name}` |" in page
    assert all(f"| `{name}` |" in page for name in CoordinatorSettings.__dataclass_fields__)


def test_each_table_of_the_configuration_is_on_the_page():
    """By the types of the settings: a table that is added to agent.toml cannot be forgotten."""
    shown = {table for _, table in TABLES}
    for name, each in AgentSettings.__dataclass_fields__.items():
        named = AgentSettings.__annotations__[name]
        deep = [one for each in get_args(named) for one in get_args(each)]
        inside = {named, *get_args(named), *deep}
        assert inside & shown, f"{name} ({each.type}) has no table on the page"


def test_comments_are_read_where_they_stand():
    from agent.state.reaction import Reaction
    from snapshot.reasons import Reason

    assert comments.above(Reason)["RAW_SECRET"] == "step 12"
    assert comments.beside(Reaction)["FULL_RESYNC"] == "the scope's full snapshot, at once"
    assert comments.beside(Reaction).keys() == set(Reaction.__members__)


def test_each_kind_of_resource_is_on_the_page():
    page = (ROOT / "docs/resources.md").read_text()
    assert all(f"## {kind.KIND}\n" in page for kind in KINDS)

"""The pages made from the code say what the code says now, and leave nothing out."""

from typing import get_args

import pytest

from agent.config.configuration import AgentSettings
from coordinator.base.refusal import Code
from coordinator.base.remedies import EXPLANATIONS
from coordinator.base.settings import CoordinatorSettings
from tests.citations import ROOT
from tests.pages import PAGES, comments, http_errors, reasons
from tests.pages.configuration import TABLES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_what_the_code_says(path):
    """rules P26"""
    assert path.read_text() == PAGES[path](), "run `python -m tests.pages --write`"


@pytest.mark.parametrize("enumeration", reasons.enumerations(), ids=lambda each: each.__module__)
def test_each_code_is_explained(enumeration):
    page = reasons.page()
    assert [code for code in enumeration if f"| `{code.value}` |" not in page] == []
    assert "|  |" not in page.replace("|  |  |\n|---|---|", ""), "a code without a meaning or a remedy"


def test_each_refusal_of_the_coordinator_is_explained():
    assert set(EXPLANATIONS) == set(Code)
    assert all(each.meaning.endswith(".") and each.remedy.endswith(".") for each in EXPLANATIONS.values())


def test_each_error_of_a_listener_is_explained_and_no_other():
    """Also those whose code a variable names: they are the coordinator's, or the store's."""
    raised = {each.code for each in http_errors.codes()}
    assert raised <= http_errors.MEANINGS.keys()
    assert http_errors.MEANINGS.keys() - raised <= set(Code)


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

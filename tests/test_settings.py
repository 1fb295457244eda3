"""Every setting of both daemons has a reader in the product: none is taken, judged, shown and then passed over."""

import ast
import dataclasses

import pytest

from coordinator.base.settings import CoordinatorSettings
from coordinator.setup import configuration as coordinators
from tests.pages.configuration import TABLES
from tests.source import modules

DEFINED = {"agent/config/configuration.py", "coordinator/base/settings.py"}
"""Where settings are declared and held against each other: that alone changes nothing that a daemon does."""

COORDINATORS = {each.name for each in dataclasses.fields(CoordinatorSettings)}
LISTED = {each.name for each in dataclasses.fields(coordinators.Configuration)} - {"settings"}
AGENTS = {each.name for _, table in TABLES for each in dataclasses.fields(table)}
CONSENTS = {"short_lifetimes"}
"""Asked where settings are judged, for that is all it is for (tests/coordinator/test_settings.py)."""
DERIVED = {"token_file": "token_files", "section_bytes": "documents", "content_bytes": "documents"}
"""What the rest of the agent reads in place of the setting itself."""


def read_in(*packages):
    """Names of attributes that are read anywhere in these packages."""
    nodes = (node for module in modules(*packages) if module.path not in DEFINED for node in module.nodes)
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


@pytest.mark.parametrize(
    ("declared", "packages"),
    [(COORDINATORS, ["coordinator"]), (LISTED, ["coordinator"]), (AGENTS, ["agent"])],
    ids=["coordinator.toml [settings]", "coordinator.toml", "agent.toml"],
)
def test_every_setting_has_a_reader(declared, packages):
    read = read_in(*packages)
    assert len(declared) > 10
    assert {name for name in declared - CONSENTS if DERIVED.get(name, name) not in read} == set()


def test_a_setting_that_nobody_reads_would_be_found():
    assert "certificate_lifetime_s" not in read_in("coordinator")
    assert "certificate_lifetime_s" in read_in("agent")

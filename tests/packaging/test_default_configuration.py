"""The configuration that the packages install teaches every setting, with the defaults that the code has."""

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from agent.awaited import settings_without_a_node
from agent.config import configuration as agents
from coordinator.base.settings import CoordinatorSettings
from coordinator.setup import configuration as coordinators
from holdfast.ctl.operator import main as holdfastctl
from holdfast.ctl.setup import configuration_text
from tests.citations import ROOT

AGENT = ROOT / "packaging/etc/agent.toml"
COORDINATOR = ROOT / "packaging/etc/coordinator.toml"
TABLES = {
    "node": agents.NodeTable,
    "coordinator": agents.CoordinatorTable,
    "trust": agents.TrustTable,
    "local": agents.LocalTable,
    "intervals": agents.IntervalsTable,
    "limits": agents.LimitsTable,
    "log": agents.LogTable,
}
MODES = {"socket_mode", "projection_file_mode", "projection_directory_mode"}


def taken_up(path):
    """The file with each `#key = value` and `#[table]` taken up."""
    return tomllib.loads(re.sub(r"^#(?=[\[\w])", "", path.read_text(), flags=re.MULTILINE))


def of_a_member(value):
    return {name: table for name, table in value.items() if name != "manual"}


def of_a_manual_node(value):
    return {name: table for name, table in value.items() if name != "coordinator"}


def test_the_agents_as_installed_names_no_cluster():
    """rules A2, K29: so the agent runs, and says that it is not configured"""
    assert tomllib.loads(AGENT.read_text()) == {}
    settings = settings_without_a_node(AGENT)
    assert settings is not None
    assert (settings.local, settings.log) == (agents.LocalTable(), agents.LogTable())


@pytest.mark.parametrize("kind", [of_a_member, of_a_manual_node])
def test_all_that_the_agents_shows_is_accepted(kind):
    assert agents.parse(kind(taken_up(AGENT))) is not None


@pytest.mark.parametrize("name", TABLES)
def test_the_agents_shows_every_setting_with_its_default(name):
    """Where there is none, an example"""
    shown = taken_up(AGENT)[name]
    fields = dataclasses.fields(TABLES[name])
    assert list(shown) == [each.name for each in fields]
    for each in fields:
        if each.default not in (dataclasses.MISSING, None, ()):
            assert shown[each.name] == _as_toml(each.name, each.default), each.name


def _as_toml(name, default):
    if name in MODES:
        return f"{default:04o}"
    return str(default) if isinstance(default, Path) else default


@pytest.mark.parametrize(
    ("inside", "cls"),
    [
        (lambda value: value["service"], agents.ServiceTable),
        (lambda value: value["manual"]["source"], agents.MapEntry),
        (lambda value: value["manual"]["peer"], agents.ManualPeer),
        (lambda value: value["peers"]["bootstrap"], agents.BootstrapPeer),
        (lambda value: [value["access"]["route_policy"]], agents.AccessEntry),
    ],
)
def test_the_agents_shows_every_setting_of_what_there_may_be_several_of(inside, cls):
    shown = inside(taken_up(AGENT))
    assert set().union(*shown) == {each.name for each in dataclasses.fields(cls)}


def test_no_table_of_the_agents_is_missing():
    fields = {each.name for each in dataclasses.fields(agents.AgentSettings)}
    named = fields - {"services", "manual_peers"} | {"service"}
    assert {*taken_up(AGENT)} == named


def test_the_coordinators_as_installed_is_what_init_would_write():
    """rules K12: so `holdfastctl init` with its own defaults agrees with it"""
    init = holdfastctl.get_command(None, "init")
    needed = ["raven", "--url", "https://coordinator.example.org:7443", "--root-keys-to", "/media/stick"]
    given = init.make_context("init", needed).params
    state = given["state"]
    written = coordinators.parse(configuration_text(given, state, f"sqlite:///{state}/coordinator.db"))
    assert coordinators.load(COORDINATOR) == written


def test_the_coordinators_shows_every_setting_with_its_default():
    shown = taken_up(COORDINATOR)
    assert shown["settings"] == {each.name: each.default for each in dataclasses.fields(CoordinatorSettings)}
    assert {name: {*shown[name]} for name in coordinators.TABLES} == {
        name: {*keys} for name, keys in coordinators.TABLES.items()
    }
    for (table, key), default in coordinators.OPTIONAL.items():
        assert shown[table][key] == default


@pytest.mark.parametrize("path", [AGENT, COORDINATOR], ids=lambda path: path.name)
def test_every_setting_has_words(path):
    """No key stands without a comment above it, its own or that of the keys that it follows"""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"#?[a-z_]+ = ", line):
            above = next(each for each in reversed(lines[:number]) if not re.match(r"#?[a-z_]+ = ", each))
            assert above.startswith(("# ", "#[[", "#[access")), line
    assert max(map(len, lines)) <= 120

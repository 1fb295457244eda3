"""A value means the same wherever it is read: in a message, in agent.toml, in coordinator.toml, in a declared resource.

Each reader has words and remedies of its own; whether the value is in form they say alike.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.config import configuration as agent_toml
from agent.config import toml_form
from agent.config.toml_form import TomlForm
from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.declared import fields as declared
from coordinator.declared.fields import FieldFault, FieldForm
from coordinator.setup import configuration as coordinator_toml
from tests.examples import examples
from wire import forms
from wire.forms import Form

Verdict = Callable[[object], bool]
COORDINATOR_TOML = {
    "coordinator_id": "c",
    "database": {"url": "sqlite:///x"},
    "listen": {"fleet": "a:1", "join": "a:1"},
    "tls": {"certificate": "/c", "key": "/k"},
    "keys": {"directory": "/d", "token": "/t"},
}
CONNECTIONS = ("listen", "connections_per_address")


def of_declared(form: FieldForm) -> Verdict:
    def takes(value: object) -> bool:
        faults: list[FieldFault] = []
        form.read(value, (), faults)
        return not faults

    return takes


def of_toml(form: TomlForm) -> Verdict:
    def takes(value: object) -> bool:
        try:
            form(value)
        except ValueError:
            return False
        return True

    return takes


def of_agent_toml(table: type, name: str) -> Verdict:
    (form,) = (field.metadata["form"] for field in fields(table) if field.name == name)
    return of_toml(form)


def of_setting(name: str) -> Verdict:
    def takes(value: object) -> bool:
        try:
            CoordinatorSettings.from_mapping({name: value})
        except Refused as refused:
            return not refused.detail.startswith(f"{name} ")
        return True

    return takes


def of_coordinator_toml(table: str, name: str) -> Verdict:
    def takes(value: object) -> bool:
        members = {**COORDINATOR_TOML.get(table, {}), name: value} if name else value
        return not list(coordinator_toml._problems({**COORDINATOR_TOML, table: members}))

    return takes


CAPITALS = ("data", "witness")
FILE = declared.lines(1 << 20)
MEANINGS: dict[str, tuple[Form, list[Verdict]]] = {
    "id": (
        forms.IDENTIFIER,
        [
            of_declared(declared.IDENTIFIER),
            of_agent_toml(agent_toml.NodeTable, "node_id"),
            of_agent_toml(agent_toml.ServiceTable, "name"),
            of_coordinator_toml("coordinator_id", ""),
        ],
    ),
    "endpoint": (
        forms.ENDPOINT,
        [of_declared(declared.ENDPOINT), of_agent_toml(agent_toml.NodeTable, "direct_url")],
    ),
    "host and port": (
        forms.HOST_PORT,
        [of_declared(declared.HOST_PORT), of_agent_toml(agent_toml.LocalTable, "probes_listen")],
    ),
    "host": (forms.HOST, [of_declared(declared.HOST)]),
    "digest": (forms.DIGEST, [of_declared(declared.DIGEST)]),
    "true or false": (
        forms.BOOLEAN,
        [of_declared(declared.BOOLEAN), of_toml(toml_form.boolean), of_setting("short_lifetimes")],
    ),
    "word": (
        forms.one_of(*CAPITALS),
        [of_declared(declared.OneOf(CAPITALS)), of_agent_toml(agent_toml.NodeTable, "kind")],
    ),
    "integer": (
        forms.integer(5, 300),
        [
            of_declared(declared.integer(5, 300)),
            of_agent_toml(agent_toml.IntervalsTable, "heartbeat_interval_s"),
            of_setting("heartbeat_interval_s"),
        ],
    ),
    "count": (
        forms.integer(*coordinator_toml.RANGES[CONNECTIONS]),
        [of_coordinator_toml(*CONNECTIONS), of_toml(toml_form.number(*coordinator_toml.RANGES[CONNECTIONS]))],
    ),
    "line": (forms.text(256), [of_declared(declared.text(256))]),
    "account": (forms.text(64, 1), [of_agent_toml(agent_toml.LocalTable, "socket_group")]),
    "path": (forms.PATH, [of_agent_toml(agent_toml.NodeTable, "state_directory")]),
    "file's content": (forms.CONTENT, [of_declared(FILE)]),
}

CHARACTERS = st.characters() | st.sampled_from("az09AZ._-/:[]\0\n\x7f\u0663 \ud800")
NEAR = st.sampled_from(
    [
        *("data", "witness", "Data", "a..b", "a" * 64, "a" * 65, "/", "//", "/var/lib", "/a\0b", "/a\nb", "/" * 4097),
        *("https://h:1", "https://h:65535", "https://h:65536", "https://H:1", "h:1", "h:0", "[::1]:80", ":80", "h:٣"),
        *("0" * 64, "f" * 64, "F" * 64, "true", "30", "", "\0", "\ud800", "a\n", "é", "x" * 256, "x" * 257),
    ]
)
NUMBERS = st.sampled_from([-1, 0, 1, 4, 5, 300, 301, 65_536, 65_537, 2**53, 2**64]) | st.integers() | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | NEAR | st.text(CHARACTERS, max_size=300),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


@given(VALUES)
@examples(300)
@example("/a\nb")  # a path for agent.toml, once, and for no message
@example("a\0b")  # a file's content for `apply`, once, that no database keeps
@example("\ud800")
def test_any_value_gets_one_verdict_from_every_reader(value):
    """rules J39, K53, P23"""
    said = {
        meaning: [form.takes(value), *(verdict(value) for verdict in verdicts)]
        for meaning, (form, verdicts) in MEANINGS.items()
    }
    assert {meaning: verdicts for meaning, verdicts in said.items() if len(set(verdicts)) > 1} == {}


@pytest.mark.parametrize(
    ("meaning", "good"),
    [
        ("id", "gw-1"),
        ("endpoint", "https://gw-1.example:7443"),
        ("host and port", "[2001:db8::1]:443"),
        ("true or false", False),
        ("word", "witness"),
        ("integer", 300),
        ("count", 65_536),
        ("account", "www-data"),
        ("path", "/run/holdfast"),
        ("file's content", "two\nlines\n"),
    ],
)
def test_each_takes_what_it_is_for(meaning, good):
    form, verdicts = MEANINGS[meaning]
    assert form.takes(good)
    assert all(verdict(good) for verdict in verdicts)


@pytest.mark.parametrize("wrong", ["/run/a\nb", "/" + "a" * 4096, "run", "/a\0b", 7])
def test_a_path_out_of_form_is_named_with_what_it_must_be(wrong):
    with pytest.raises(ValueError, match=r"^must be an absolute path"):
        toml_form.absolute_path(wrong)
    assert toml_form.absolute_path("/run/holdfast") == Path("/run/holdfast")

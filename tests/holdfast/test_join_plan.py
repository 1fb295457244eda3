"""What `holdfast join FILE` would write, and when it refuses to."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from agent.config.configuration import ConfigurationError, parse
from holdfast.node.join_plan import DisagreesError, plan
from tests.citations import ROOT
from tests.wire.test_invitation import GOOD, HASH

PATH = Path("/etc/holdfast/agent.toml")
NODE = f"""
[node]
cluster_id = "raven"
node_id = "gw-1"
[coordinator]
urls = ["https://coordinator.example:7443"]
ca_file = "/etc/holdfast/ca.pem"
[trust]
root_key_ids = ["{HASH}"]
"""


def test_the_packages_configuration_keeps_all_its_lines() -> None:
    """rules A14: what teaches stays, and what comes behind it is a whole configuration."""
    text = (ROOT / "packaging/etc/agent.toml").read_text()
    made = plan(PATH, text, GOOD, "gw-1", None)
    assert made.configuration is not None and made.configuration.startswith(text)
    settings = parse(tomllib.loads(made.configuration))
    assert (settings.node.cluster_id, settings.node.node_id) == ("raven", "gw-1")
    assert settings.coordinator is not None
    assert (settings.coordinator.urls, settings.coordinator.join_urls) == (GOOD.urls, GOOD.join_urls)
    assert (settings.trust.root_key_ids, settings.trust.root_threshold) == (GOOD.root_key_ids, 1)
    assert (made.ca_file, made.token_file) == (Path("/etc/holdfast/ca.pem"), Path("/etc/holdfast/join.token"))


def test_a_further_agent_has_places_of_its_own() -> None:
    made = plan(Path("/etc/holdfast/agent-lab.toml"), "", GOOD, "gw-1", None)
    assert made.settings.node.state_directory == Path("/var/lib/holdfast-lab")
    assert (made.ca_file.name, made.token_file.name) == ("ca-lab.pem", "join-lab.token")


@pytest.mark.parametrize("text", ["[trust]\n", "[trust] # mine\n[log]\n", '[log]\nlevel = "info"', "[trust]"])
def test_roots_are_pinned_wherever_the_table_stands(text: str) -> None:
    made = plan(PATH, text, GOOD, "gw-1", None)
    assert made.settings.trust.root_key_ids == GOOD.root_key_ids


def test_a_configured_node_is_left_as_it_is() -> None:
    made = plan(PATH, NODE, GOOD, "gw-1", None)
    assert (made.configuration, made.pins_roots) == (None, True)
    assert plan(PATH, NODE, dataclasses.replace(GOOD, node_id=None), None, None).settings.node.node_id == "gw-1"
    without = NODE.partition("[trust]")[0]
    assert not plan(PATH, without, GOOD, "gw-1", None).pins_roots


@pytest.mark.parametrize(
    ("text", "node_id", "words"),
    [
        (NODE.replace("raven", "lab"), "gw-1", "cluster lab, the file for raven"),
        (NODE, "gw-2", "node gw-1, the file for gw-2"),
        (NODE.replace("ab" * 32, "cd" * 32), "gw-1", "other root keys"),
        (f'[trust]\nroot_key_ids = ["sha256:{"cd" * 32}"]', "gw-1", "other root keys"),
    ],
)
def test_what_disagrees_is_named(text: str, node_id: str, words: str) -> None:
    with pytest.raises(DisagreesError, match=words):
        plan(PATH, text, GOOD, node_id, None)


def test_a_wrong_configuration_is_not_written_over() -> None:
    with pytest.raises(ConfigurationError, match="did you mean"):
        plan(PATH, '[log]\nlevle = "info"\n', GOOD, "gw-1", None)

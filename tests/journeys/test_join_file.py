"""From `holdfastctl allow add --join-file` to a member with `holdfast join FILE`: no other step, the agent running."""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.holdfast.operator_lab import START_S, Lab, Ran, running
from tests.world import programs
from wire.invitation import Invitation

TOML = '# mine\n[local]\nsocket_path = "{folder}/run/agent.sock"\nprojection_directory = "{folder}/run"\n'


@dataclass
class NewNode:
    """An agent that has no cluster yet, as the package starts it."""

    folder: Path
    lab: Lab

    def __post_init__(self) -> None:
        (self.folder / "run").mkdir(parents=True)
        self.configuration.write_text(TOML.format(folder=self.folder))
        words, log = ("--config", self.configuration), self.folder / "log"
        self.process = programs.start("holdfast-agent", *words, folder=self.folder, log=log)
        end = time.monotonic() + START_S
        while not (self.folder / "run/agent.sock").exists():
            assert time.monotonic() < end and self.process.poll() is None, (self.folder / "log").read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    @property
    def configuration(self) -> Path:
        return self.folder / "agent.toml"

    def join(self, file: Path, *more: object) -> Ran:
        places = ("--config", self.configuration, "--socket", self.folder / "run/agent.sock")
        return self.lab.holdfast("join", file, *places, "--state-directory", self.folder / "state", *more)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_file())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    folder = tmp_path / "coordinator"
    folder.mkdir()
    with running(folder) as made:
        yield made


@pytest.fixture
def node(tmp_path: Path, lab: Lab) -> Iterator[NewNode]:
    made = NewNode(tmp_path / "node", lab)
    yield made
    made.end()


def test_one_file_and_one_command(lab: Lab, node: NewNode) -> None:
    """rules A3, K14: the same process becomes the member; what it was configured with stays, roots are pinned."""
    file = lab.folder / "gw-1.join"
    url = f"https://localhost:{lab.ports['fleet']}"
    added = lab.good("allow", "add", "gw-1", "--join-file", file, "--json").json
    assert (added["node_id"], added["join_file"]) == ("gw-1", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    invitation = Invitation.read(file.read_bytes())
    assert invitation.token not in json.dumps(added)
    assert invitation.join_urls == (f"https://localhost:{lab.ports['join']}",)
    elsewhere = json.loads(file.read_bytes()) | {"urls": [url]}  # the lab's URL names no port that it has
    file.write_text(json.dumps(elsewhere))
    joined = node.join(file, "--json")
    assert joined.status == 0, (joined, (node.folder / "log").read_text())
    assert (joined.json["node_id"], joined.json["cluster_id"]) == ("gw-1", "prod")
    assert node.process.poll() is None
    assert node.configuration.read_text().startswith(TOML.format(folder=node.folder))
    assert '"trusted_by": "configuration"' in (node.folder / "log").read_text()
    assert node.files() == ["agent.toml", "ca.pem", "log"]  # the token is used
    again = node.join(file)
    assert (again.status, "already" in again.err) == (0, True)


def test_what_is_refused_leaves_nothing_and_the_next_file_is_good(lab: Lab, node: NewNode) -> None:
    """A file with another CA, one for another cluster, one that ended; then the right one."""
    file = lab.folder / "gw-1.join"
    lab.good("allow", "add", "gw-1", "--join-file", file)
    before = node.files()
    good = json.loads(file.read_bytes())
    for wrong, words in (
        ({"expires_at": "2025-01-01T00:00:00Z"}, "ended at 2025-01-01"),
        ({"cluster_id": "lab"}, "for another cluster"),
        ({"root_threshold": 9}, "make it anew"),
    ):
        file.write_text(json.dumps(good | wrong))
        refused = node.join(file)
        assert (refused.status != 0, words in refused.err) == (True, True), refused
        assert (node.files(), node.configuration.read_text()) == (before, TOML.format(folder=node.folder))
    file.write_text(json.dumps(good))
    there = node.folder / "ca.pem"
    there.write_text("another")
    refused = node.join(file)
    assert (refused.status != 0, "move it away" in refused.err, there.read_text()) == (True, True, "another"), refused
    there.rename(node.folder / "ca.pem.before")
    assert node.join(file, "--json").status == 0


def test_a_file_for_an_image_lets_in_as_many_as_it_says(lab: Lab, tmp_path: Path) -> None:
    """rules J17: each under an id of its own; the next one is refused, and told why."""
    file = lab.folder / "image.join"
    lab.good("tokens", "create", "--uses", 2, "--nodes", "web-*", "--lifetime", "1h", "--join-file", file)
    nodes = [NewNode(tmp_path / f"web-{number}", lab) for number in range(3)]
    try:
        for number, node in enumerate(nodes):
            ran = node.join(file, "--node-id", f"web-{number}")
            assert ran.status == (0 if number < 2 else 1), ran
        assert "token_used" in ran.err
        (token,) = lab.good("tokens", "list", "--json").json["tokens"]
        assert (token["used"], token["uses"]) == (2, 2)
    finally:
        for node in nodes:
            node.end()


def test_no_half_of_a_file_is_left(lab: Lab) -> None:
    """A node that may not join, and a file that is there: no token is made, and the file is as it was."""
    file = lab.folder / "gw-1.join"
    assert lab.ctl("allow", "add", "gw-1", "--site", "nowhere", "--join-file", file).status != 0
    assert not file.exists()
    file.write_text("mine")
    assert lab.ctl("allow", "add", "gw-1", "--join-file", file).status != 0
    assert file.read_text() == "mine"
    assert lab.good("tokens", "list", "--json").json["tokens"] == []
    assert lab.good("allow", "list", "--json").json["entries"] == []

"""A node goes from one group to another and back, and each group is told something else: the shipped programs.

What a group is told is one document for all of its nodes. Whoever comes back finds the version of its group behind it,
and has to be given a newer one; whoever stayed is given nothing (coordinator/publishing/shared_documents.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import Gateway, until_published

MOVED, STAYS = "moved", "stays"
POLICY = "degraded_mode_policy"
HEAD = "head"
GROUPS = ("a", "b")
FABRIC = """\
kind: Cluster
id: prod
spec: {{coordinators: ["https://localhost:7443"]}}
---
kind: Node
id: moved
spec: {{roles: [thin], labels: {{group: {group}}}}}
---
kind: Node
id: stays
spec: {{roles: [thin], labels: {{group: a}}}}
---
kind: DegradedModePolicy
id: a
spec: {{applies_to: {{labels: {{group: a}}}}, allow: [continue_services], max_duration_s: 3600}}
---
kind: DegradedModePolicy
id: b
spec: {{applies_to: {{labels: {{group: b}}}}, allow: [continue_services], max_duration_s: 7200}}
---
kind: Config
id: only-a
spec: {{to: {{labels: {{group: a}}}}, files: {{app.conf: {{text: "workers 1\\n"}}, a/db.json: {{json: {{of: a}}}}}}}}
---
kind: Config
id: only-b
spec: {{to: {{labels: {{group: b}}}}, files: {{app.conf: {{text: "workers 2\\n"}}, b/db.json: {{json: {{of: b}}}}}}}}
---
kind: Config
id: everybody
spec: {{to: {{roles: [thin]}}, files: {{motd: {{text: "welcome\\n"}}}}}}
---
kind: Config
id: own
spec: {{to: {{roles: [thin]}}, files: {{who: {{text: "${{node.id}} of ${{node.labels.group}}\\n", template: true}}}}}}
"""
"""What a group is told: one scope whose content follows the group, a Config of each, and one that is a node's own."""

Applied = tuple[str, tuple[int, int]]
"""A scope, and the epoch and version that came active."""


@dataclass
class Pair:
    """The node that goes, and the one that stays."""

    lab: Lab
    moved: Gateway
    stays: Gateway

    def move(self, group: str) -> None:
        apply(self.lab, group)

    def until_in(self, group: str) -> None:
        """Until everything that the group is told is on the disk, and nothing of another group is."""
        until_published(self.lab)
        self.moved.until(lambda: on_disk(self.moved) == declared(MOVED, group), hinted=True)
        self.moved.until(lambda: policy(self.moved)["max_duration_s"] == 3600 * (1 + GROUPS.index(group)))


@pytest.fixture
def settings() -> str:
    """A change goes to all at once: in which order nodes get it is no question here."""
    return UNGUARDED


@pytest.fixture
def pair(lab: Lab, tmp_path: Path) -> Iterator[Pair]:
    """Both in group a, and active."""
    apply(lab, "a")
    nodes = [Gateway(tmp_path / node_id, lab, node_id=node_id) for node_id in (MOVED, STAYS)]
    try:
        for node in nodes:
            node.enrol()
            node.until(lambda node=node: on_disk(node) == declared(node.node_id, "a"))
        yield Pair(lab, *nodes)
    finally:
        for node in nodes:
            node.kill()


def apply(lab: Lab, group: str) -> None:
    (lab.folder / "fabric.yaml").write_text(FABRIC.format(group=group))
    lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes")


def declared(node_id: str, group: str) -> dict[str, bytes]:
    number = 1 + GROUPS.index(group)
    return {
        f"only-{group}/app.conf": f"workers {number}\n".encode(),
        f"only-{group}/{group}/db.json": f'{{"of":"{group}"}}'.encode(),
        "everybody/motd": b"welcome\n",
        "own/who": f"{node_id} of {group}\n".encode(),
    }


def on_disk(node: Gateway) -> dict[str, bytes]:
    """All files of Configs, as programs read them: from one generation, which stays for a while after the next."""
    place = (node.folder / "run" / "active").resolve() / "config"
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def policy(node: Gateway) -> dict:
    return node.client.get(POLICY, "policy").value


def journal(node: Gateway) -> list[dict]:
    """All that the node's store has written down, oldest first."""
    root = node.folder / "state"
    return node.lab.holdfast("store", "show", "--root", root, "--journal", "1000", "--json").json["journal"]


def applied(node: Gateway) -> list[Applied]:
    """Which versions came active, in order; heads apart, which are renewed by the clock."""
    return [(event["scope"], version(event["detail"])) for event in journal(node) if is_applied(event)]


def is_applied(event: dict) -> bool:
    return event["event"] == "applied" and event["scope"] != HEAD


def version(detail: str) -> tuple[int, int]:
    """Of `snapshot ID epoch E version V`."""
    _kind, _id, _epoch, epoch, _version, number = detail.split()
    return int(epoch), int(number)


def listing(lab: Lab, node_id: str) -> dict[str, str]:
    """The documents that a node is told to hold, by scope."""
    scopes = lab.good("explain", node_id, "--json").json["scopes"]
    named = [scope["scope"] for scope in scopes if scope["published"] is not None]
    return {scope: lab.good("explain", node_id, scope, "--json").json["published"]["snapshot_id"] for scope in named}


def versions_of(applied_: list[Applied], scope: str) -> list[tuple[int, int]]:
    return [pair for name, pair in applied_ if name == scope]


def test_a_node_goes_from_group_to_group_and_back(pair: Pair) -> None:
    """rules S69, S85: forward each time, with the content of its group; the coordinator starts anew in between."""
    lab, moved, stays = pair.lab, pair.moved, pair.stays
    told, had = listing(lab, STAYS), applied(stays)
    assert listing(lab, MOVED)[POLICY] == told[POLICY]
    assert listing(lab, MOVED)["config/only-a"] == told["config/only-a"]

    pair.move("b")
    pair.until_in("b")
    lab.stop()
    lab.start()
    pair.move("a")
    pair.until_in("a")
    assert listing(lab, MOVED)[POLICY] != told[POLICY]

    pair.move("b")
    lab.stop()
    lab.start()
    pair.until_in("b")
    pair.move("a")
    pair.until_in("a")

    for scope in (POLICY, "config/only-a", "config/own"):
        seen = versions_of(applied(moved), scope)
        assert len(seen) >= 3 and seen == sorted(set(seen)), (scope, seen)
    assert len(versions_of(applied(moved), "config/everybody")) == 1
    events = {event["event"] for event in journal(moved)} | told_of(lab, MOVED)
    assert not events & {"rejected", "version_conflict", "recovery_kept", "running_on_previous", "rolled_forward"}
    assert [moved.client.rejections(scope) for scope in (POLICY, "config/only-a", "config/own")] == [[], [], []]

    assert applied(stays) == had
    assert listing(lab, STAYS) == told
    assert on_disk(stays) == declared(STAYS, "a")


def told_of(lab: Lab, node_id: str) -> set[str]:
    return {event["event"] for event in lab.good("nodes", "events", node_id, "--json").json["events"]}

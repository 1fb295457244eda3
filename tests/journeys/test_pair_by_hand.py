"""Two nodes and nobody else: a pair by hand, without any coordinator (rules K3, K5, K6, K7, K34, K38).

Each shows its certificate, each has one entry for the other. What is handed to one of them as files reaches the other,
both ways and over restarts; of a resync only the side that refreshes automatically takes it unattended.
"""

import json
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.client import AgentDown, Client
from tests.fakes.cluster import CLUSTER_ID, DAY, NOW, Cluster, listing
from tests.fakes.ports import held_port
from tests.journeys import agent_process
from tests.world import programs
from wire.certificate import Certificate, fingerprint, pem_to_der

WITHIN_S = 120.0  # on a machine that has other work
BOOTSTRAP, ROUTES = "node_bootstrap", "route_policy"


@dataclass
class HandNode:
    """One of the two. `entries`: its map, as TOML."""

    folder: Path
    node_id: str
    held: socket.socket = field(default_factory=held_port)
    entries: str = ""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def port(self) -> int:
        return int(self.held.getsockname()[1])

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def socket_path(self) -> Path:
        return self.folder / "run" / "agent.sock"

    def start(self, offset: float) -> None:
        (self.folder / "run").mkdir(parents=True, exist_ok=True)
        (self.folder / "agent.toml").write_text(self.toml())
        self.process = agent_process.start(self.folder, offset)
        self.until(self.speaks_to_others)

    def speaks_to_others(self) -> bool:
        """What does is loaded after the first answer."""
        status = self.status()
        has_identity = (self.folder / "state" / "clusters" / CLUSTER_ID / "identity" / "node.pem").exists()
        return status is not None and has_identity and (not self.entries or status["relay"] is not None)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(WITHIN_S)
            self.process = None

    def toml(self) -> str:
        return f"""
[node]
cluster_id = "{CLUSTER_ID}"
node_id = "{self.node_id}"
state_directory = "{self.folder / "state"}"
direct_url = "{self.url}"
[peers]
listen = "127.0.0.1:{self.port}"
[trust]
bundle_file = "{self.folder.parent / "bundle.hfs"}"
[local]
socket_path = "{self.socket_path}"
projection_directory = "{self.folder / "run"}"
[limits]
map_bytes = {256 << 20}
[manual]
{self.entries}
"""

    def entry_for(self, other: "HandNode", certificate: str, **members: object) -> str:
        said = {"node_id": other.node_id, "url": other.url, "certificate": certificate} | members
        lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
        return "\n".join(["[[manual.peer]]", *lines, ""])

    def holdfast(self, *words: str) -> programs.Ran:
        return programs.run("holdfast", *words, folder=self.folder)

    def certificate(self) -> str:
        """As `holdfast show-certificate` prints it."""
        shown = self.holdfast("show-certificate", "--root", str(self.folder / "state"))
        assert shown.status == 0, shown.err
        begin = shown.out.index("-----BEGIN")
        end = shown.out.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
        return shown.out[begin:end]

    def hand_in(self, *files: Path) -> None:
        done = self.holdfast("import", "--socket", str(self.socket_path), *map(str, files))
        assert done.status == 0, done.out + done.err

    def may_speak_to(self, other: "HandNode", certificate: str) -> str:
        """The reason, as a service is given it."""
        client = Client(self.socket_path, self.folder / "none", timeout_s=WITHIN_S)
        return client.may("validate_peers", resource=other.node_id, certificate=certificate).reason

    def status(self) -> "dict[str, object] | None":
        """None while nobody answers."""
        try:
            return Client(self.socket_path, self.folder / "none", timeout_s=WITHIN_S).status()
        except AgentDown:
            return None

    def version(self, scope: str) -> "int | None":
        status = self.status()
        held = ((status or {}).get("scopes") or {}).get(scope) or {}
        return (held.get("active") or {}).get("config_version")

    def until(self, holds) -> None:
        until = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < until, (self.folder / "log").read_text()[-4000:]
            time.sleep(0.2)


def fingerprint_of(pem: str) -> str:
    return fingerprint(pem_to_der(pem.encode()))


@dataclass
class Stick:
    """Documents of both, signed elsewhere."""

    folder: Path
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        self.write("bundle", self.cluster.first_bundle)

    def write(self, name: str, document) -> Path:
        file = self.folder / f"{name}.hfs"
        file.write_bytes(document.to_bytes())
        return file

    def fill(self, round_number: int, *nodes: HandNode, **sections: object) -> list[Path]:
        """A new version of what each is to have, and its head."""
        times = {"issued_at": NOW, "valid_from": NOW, "refresh_after": NOW + DAY, "expires_at": NOW + 7 * DAY}
        shared = self.cluster.snapshot(
            {"routes": {"n": {"via": f"round-{round_number}"}}},
            ROUTES,
            subject_node_id="*",
            roles=["core_mesh"],
            **times,
        )
        files = [self.write(f"{round_number}-routes", shared)]
        for node in nodes:
            given = {"roles": ["core_mesh"], "subject_node_id": node.node_id, **times}
            own = self.cluster.snapshot({"node": {"round": round_number}}, BOOTSTRAP, **given)
            policy = self.cluster.snapshot({"policy": {}}, "degraded_mode_policy", **(given | {"roles": []}))
            scopes = {document.envelope.scope: listing(document) for document in (shared, own, policy)}
            head = self.cluster.head(scopes, subject_node_id=node.node_id, **times)
            for document in (own, policy, head):
                files.append(self.write(f"{round_number}-{node.node_id}-{document.envelope.scope}", document))
        self.routes = shared.envelope.config_version
        return files


@pytest.fixture
def pair(tmp_path):
    first, second = HandNode(tmp_path / "a", "node-a"), HandNode(tmp_path / "b", "node-b")
    yield first, second, Stick(tmp_path)
    for node in (first, second):
        node.stop()
        node.held.close()


def test_a_pair_by_hand(pair):
    """rules K3, K5, K6, K7, K11, K38, K48: as the worked example: two certificates, two entries, no coordinator"""
    a, b, stick = pair
    offset = NOW + 60 - time.time()
    for node in (a, b):
        node.start(offset)
    shown = {node.node_id: node.certificate() for node in (a, b)}
    assert Certificate.read(pem_to_der(shown["node-a"].encode())).names
    for node in (a, b):
        node.stop()
    a.entries = a.entry_for(b, shown["node-b"])
    b.entries = b.entry_for(a, shown["node-a"], automatic_refresh=True)
    for node in (a, b):
        node.start(offset)

    # All files of both are handed to a: b has nothing yet, and may refresh unattended.
    a.hand_in(*stick.fill(1, a, b))
    a.until(lambda: a.version(ROUTES) == stick.routes)
    b.until(lambda: b.version(ROUTES) == stick.routes)
    kinds = {source["kind"] for source in b.status()["sources"]}
    assert kinds == {"peer"}, "no coordinator is contacted"
    relay = a.status()["relay"]
    assert relay["for_nodes"] == ["node-b"]
    assert relay["documents"] == 2
    assert relay["heads"] == 1

    # A service at a asks whether who has shown a certificate is b (rules K49): agent.toml names it, and no directory.
    said = {pin: a.may_speak_to(b, pin) for pin in map(fingerprint_of, shown.values())}
    assert said == {fingerprint_of(shown["node-a"]): "not_pinned", fingerprint_of(shown["node-b"]): "ok"}

    # The other way round: a has a sound base, so a change comes by itself; both have been restarted meanwhile.
    for node in (a, b):
        node.stop()
    for node in (a, b):
        node.start(offset)
    b.hand_in(*stick.fill(2, a, b))
    b.until(lambda: b.version(ROUTES) == stick.routes)
    a.until(lambda: a.version(ROUTES) == stick.routes)


def test_a_resync_waits_on_the_side_that_is_attended(pair):
    """rules K7, K38: a holds nothing and does not refresh automatically: it says so, until its operator acts"""
    a, b, stick = pair
    offset = NOW + 60 - time.time()
    for node in (a, b):
        node.start(offset)
    shown = {node.node_id: node.certificate() for node in (a, b)}
    for node in (a, b):
        node.stop()
    a.entries = a.entry_for(b, shown["node-b"])
    b.entries = b.entry_for(a, shown["node-a"], automatic_refresh=True)
    for node in (a, b):
        node.start(offset)
    b.hand_in(*stick.fill(1, a, b))
    a.until(lambda: ROUTES in a.status()["refresh_required"] or BOOTSTRAP in a.status()["refresh_required"])
    assert a.version(ROUTES) is None
    a.process.send_signal(1)
    a.until(lambda: a.version(ROUTES) == stick.routes)
    assert a.status()["refresh_required"] == []

"""The thirteen cases of seed 001, section 15, each by name: a coordinator and an agent as processes, over real TLS.

What a coordinator never publishes is made here with the key that it signs with, and handed to the agent with `holdfast
import`, while the coordinator is held still: so nothing else changes meanwhile. A node with a fresh head takes only
what that lists, so what must get as far as the steps after the signature comes when the head has expired.
"""

import itertools
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.keys import keystore, signer, signing_key
from coordinator.keys.signer import Base, EnvelopeClaims, SignedDocument
from coordinator.keys.signing_key import SigningKey
from holdfast.client import Client
from snapshot import canonical
from snapshot.bundle import CONFIG
from snapshot.manifest import SectionChange
from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import FABRIC, Gateway, until_published

SCOPE, OF_TYPE, OF_WHAT = "service_assignment/web", "service_assignment", ("web",)
WITHIN_S = 120.0  # on a machine that has other work
NO = 1  # the exit status of `holdfast import` and `holdfast may`
HOUR = 3_600
SOON_S = 10
NOT_VOUCHED_FOR = 5  # up to this step nobody has signed for the scope that a document names, so none shows its refusal
FORBIDDEN = (
    "approve_enrolment", "issue_certificate", "assign_role", "change_cluster_policy", "change_organization_policy",
    "rotate_trust_root", "promote_partition", "fetch_unrelated_secret", "create_service_authority",
)  # fmt: skip

# A head is good for half an hour as a rule. Here it is good for seconds, so that its end can be waited for.
SETTINGS = """
[settings]
head_lifetime_s = 10
short_lifetimes = true
poll_after_s = 5
heartbeat_interval_s = 5
guarded_changes = false
"""

# So that a change of one port is smaller as an increment, and a document too large to come with its head.
MORE_ENDPOINTS = "".join(
    f"""\
    - {{{{name: {"more-" * 10}{number}, protocol: http, host: 127.0.0.1, port: {9000 + number}, exposed: true}}}}
"""
    for number in range(31)
)
ENDPOINT = "port: {port}, exposed: true}}\n"


@dataclass
class World:
    """A cluster of one coordinator, and a node that has joined it."""

    lab: Lab
    gateway: Gateway
    ports: Iterator[int] = field(default_factory=lambda: itertools.count(8081))

    @property
    def client(self) -> Client:
        return Client(self.gateway.folder / "run" / "agent.sock", self.gateway.folder / "run")

    @property
    def active(self) -> dict[str, Any]:
        return self.client.document(SCOPE, expired=True)

    @property
    def version(self) -> int:
        return int(self.active["envelope"]["config_version"])

    def held(self) -> object:
        """What a refusal must not change: generation, and of each scope what is active, was before, and waits."""
        status = self.client.status()
        return status["generation"], {
            name: (_identity(scope["active"]), scope["previous"], scope["pending"])
            for name, scope in status["scopes"].items()
            if scope["active"]
        }

    def refused(self) -> int:
        return int(self.client.status()["counters"].get("documents_rejected", 0))

    def mode(self) -> str:
        return str(self.client.status()["mode"])

    # ---- the good ways

    def declare(self, port: int | None = None) -> int:
        """Another port for the service, a new one unless it is given; it is returned."""
        port = port or next(self.ports)
        file = self.lab.folder / "fabric.yaml"
        file.write_text(FABRIC.replace(ENDPOINT, ENDPOINT + MORE_ENDPOINTS).format(port=port))
        self.lab.good("apply", "-f", file, "--yes")
        return port

    def next_is_applied(self) -> None:
        """What is declared next comes to the node's services, as if nothing had been."""
        port = self.declare()
        self.until(lambda: self.port() == port and self.mode() == "normal", hinted=True)

    def port(self) -> int | None:
        if SCOPE not in self.client.status()["scopes"]:
            return None
        sections = self.active["sections"].values()
        return next((one["web"]["endpoints"][0]["port"] for one in sections if "web" in one), None)

    def hint(self) -> None:
        """The agent need not wait for its back-off (rules P14)."""
        assert self.gateway.process is not None
        self.gateway.process.send_signal(signal.SIGHUP)

    def until(self, holds: Callable[[], bool], *, hinted: bool = False) -> None:
        """Looked at after each change of the node, and each second, since the end of a head is no change."""
        end = time.monotonic() + WITHIN_S
        while True:
            generation = self.client.status()["generation"]
            if holds():
                return
            assert self.gateway.process is not None and self.gateway.process.poll() is None, self.gateway.log()
            assert time.monotonic() < end, (self.client.status(), self.gateway.log(), self.lab.log())
            if hinted:
                self.hint()
            self.client.request("GET", f"/v1/watch?after={generation}&wait=1", wait_s=1)

    # ---- the coordinator held still

    @contextmanager
    def still(self) -> Iterator[None]:
        """The coordinator does nothing for the block, and then goes on. The node has all that it was told of."""
        assert self.lab.process is not None
        self.until(lambda: self.client.status()["awaited"] == {})
        self.lab.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.lab.process.send_signal(signal.SIGCONT)
            self.hint()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """As `still`, from when the node's head has expired."""
        with self.still():
            self.until(lambda: self.mode() == "degraded")
            yield

    # ---- what is forged

    def key(self) -> SigningKey:
        """The coordinator's own, which has signed what is active."""
        found = map(signing_key.from_file, keystore.files(self.lab.keys, CONFIG))
        return next(key for key in found if key.key_id == self.active["envelope"]["signer_key_id"])

    def claims(self, **members: object) -> EnvelopeClaims:
        """Good ones, of the version that would come next."""
        now, envelope = int(time.time()), self.active["envelope"]
        good = EnvelopeClaims(
            snapshot_id=secrets.token_hex(16),
            cluster_id=envelope["cluster_id"],
            scope_type=OF_TYPE,
            scope_ids=OF_WHAT,
            config_version=envelope["config_version"] + 1,
            authority_epoch=envelope["authority_epoch"],
            issued_at=now,
            refresh_after=now + HOUR,
            expires_at=now + 2 * HOUR,
            subject_node_id=envelope["subject_node_id"],
            roles=tuple(envelope["roles"]),
            organization_ids=tuple(envelope["organization_ids"]),
        )
        return replace(good, **members)  # type: ignore[arg-type]

    def forged(self, sections: Mapping[str, object] | None = None, **members: object) -> SignedDocument:
        """In form perfect, but for what is given; it sends the service's callers elsewhere."""
        content = with_port(self.active["sections"], 6666) if sections is None else sections
        return signer.snapshot(self.claims(**members), content, [self.key()])

    def refuses(self, document: SignedDocument | Path, step: int, reason: str) -> None:
        """With its code and step, to the caller and in the status; and nothing is changed by it (rules S53)."""
        file = document if isinstance(document, Path) else self.gateway.folder / "forged.hfs"
        if isinstance(document, SignedDocument):
            file.write_bytes(document.to_bytes())
        before, count = self.held(), self.refused()
        ran = self.gateway.ask("import", str(file))
        assert ran.status == NO, ran
        assert f"refused at step {step}: {reason}" in ran.err
        assert self.refused() == count + 1
        if step > NOT_VOUCHED_FOR:
            last = self.client.status()["scopes"][SCOPE]["last_rejected"]
            assert (last["reason"], last["step"]) == (reason, step)
        assert self.held() == before


def _identity(active: Mapping[str, Any]) -> object:
    """Without its grade, which goes with the head's."""
    return {name: value for name, value in active.items() if name != "grade"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("thirteen")
    (folder / "coordinator").mkdir()
    lab = Lab(folder / "coordinator")
    lab.init()
    with lab.configuration.open("a") as configuration:
        configuration.write(SETTINGS)
    lab.start()
    gateway = Gateway(folder / "node", lab)
    try:
        world = World(lab, gateway)
        world.declare()
        lab.good("allow", "add", "gateway")
        lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
        gateway.start()
        world.until(lambda: world.client.status()["state"] == "active" and world.port() is not None)
        yield world
    finally:
        gateway.kill()
        if lab.process is not None:
            lab.process.send_signal(signal.SIGCONT)
        lab.stop()


def with_port(sections: dict[str, Any], port: int) -> dict[str, Any]:
    """As the coordinator would make them with another port for the service."""
    for section in sections.values():
        if "web" in section:
            section["web"]["endpoints"][0]["port"] = port
    return sections


def spoilt(signature: tuple[str, bytes]) -> tuple[str, bytes]:
    key_id, data = signature
    return key_id, bytes([data[0] ^ 1]) + data[1:]


def test_a_valid_snapshot_applies(world: World) -> None:
    """rules S71, S67"""
    before = world.version
    world.next_is_applied()
    assert world.version == before + 1
    scope = world.client.status()["scopes"][SCOPE]
    assert (scope["previous"]["config_version"], scope["last_rejected"]) == (before, None)
    world.until(lambda: world.gateway.port() == world.port())


def test_an_invalid_signature_is_refused(world: World) -> None:
    """rules S72, S28, S53"""
    with world.still():
        good = world.forged()
        world.refuses(replace(good, signatures=tuple(map(spoilt, good.signatures))), 5, "bad_signature")
    world.next_is_applied()


def test_a_wrong_cluster_is_refused(world: World) -> None:
    """rules S73, S42, S53"""
    with world.still():
        world.refuses(world.forged(cluster_id="elsewhere"), 2, "wrong_cluster")
    world.next_is_applied()


def test_a_wrong_node_is_refused(world: World) -> None:
    """rules S74, S53"""
    with world.still():
        world.refuses(world.forged(subject_node_id="egress"), 3, "wrong_node")
    world.next_is_applied()


def test_an_expired_snapshot_is_refused(world: World) -> None:
    """rules S75, S29, S53: even of the version and content that the head lists"""
    with world.still():
        then, version = int(time.time()) - 2 * HOUR, world.version
        times = {"issued_at": then, "refresh_after": then + 60, "expires_at": then + HOUR}
        world.refuses(world.forged(world.active["sections"], config_version=version, **times), 7, "expired")
    world.next_is_applied()


def test_an_active_snapshot_that_expires_authorises_nothing_new(world: World) -> None:
    """rules S75, S16, S57: what the coordinator would publish next, but for its end, which comes in seconds"""
    port = next(world.ports)
    assert world.client.may("continue_services", resource="web").allowed, "it asks, and is seen running"
    with world.alone():
        end = int(time.time()) + SOON_S
        made = world.forged(with_port(world.active["sections"], port), refresh_after=end, expires_at=end)
        taken = world.client.request("POST", "/v1/import", made.to_bytes())  # the command's own start takes a while
        assert taken.value["outcome"] == "activated"
        assert world.client.may("continue_services", scope=SCOPE, resource="web").allowed
        world.until(lambda: time.time() >= end)
        assert world.client.may("continue_services", scope=SCOPE, resource="web").reason == "scope_expired"
    world.until(lambda: world.mode() == "normal", hinted=True)
    assert world.client.may("start_service", scope=SCOPE, resource="web").reason == "scope_expired"
    world.until(lambda: world.client.status()["state"] == "recovering")
    assert world.client.status()["cause"] == "scope_expired", "it is said, and nothing else is closed by it"
    world.declare(port)
    world.next_is_applied()
    assert world.client.may("start_service", scope=SCOPE, resource="web").allowed
    world.until(lambda: world.client.status()["state"] == "active")


def test_a_rollback_is_refused(world: World) -> None:
    """rules S76, S53, S86: what the coordinator itself has published, replayed"""
    tree = world.lab.folder / "tree"
    tree.mkdir()
    world.lab.good("publish", "--to", tree)
    ours = (b'"kind":"snapshot"', b'"scope_type":"%s"' % OF_TYPE.encode(), b'"subject_node_id":"gateway"')
    (old,) = (file for file in (tree / "documents").glob("*.hfs") if all(one in file.read_bytes() for one in ours))
    world.next_is_applied()
    with world.alone():
        world.refuses(old, 9, "rollback")
    world.next_is_applied()


def test_a_version_gap_triggers_a_full_resync(world: World) -> None:
    """rules S77, S27: away for two versions, so that no increment from its own leads to the one that is listed"""
    world.next_is_applied()
    before = world.version
    world.gateway.kill()
    world.declare()
    until_published(world.lab)  # or two changes might become one version
    port = world.declare()
    until_published(world.lab)
    world.gateway.start()
    world.until(lambda: world.port() == port)
    envelope = world.active["envelope"]
    assert (envelope["kind"], envelope["config_version"]) == ("snapshot", before + 2)
    assert world.client.status()["scopes"][SCOPE]["previous"]["config_version"] == before
    world.next_is_applied()
    assert world.active["envelope"]["kind"] == "increment"


def test_a_raw_secret_is_refused(world: World) -> None:
    """rules S78, S53"""
    with world.alone():
        world.refuses(world.forged({"vpn": {"password": "hunter2"}}), 12, "raw_secret")
    world.next_is_applied()


def test_unrelated_organization_data_is_refused(world: World) -> None:
    """rules S79, S53"""
    with world.alone():
        world.refuses(world.forged({"services": {"web": {"organization_id": "umber"}}}), 11, "unrelated_organization")
    world.next_is_applied()


def test_a_wrong_role_is_refused(world: World) -> None:
    """rules S80, S53"""
    with world.alone():
        world.refuses(world.forged(roles=("core_mesh",)), 10, "role_not_allowed")
    world.next_is_applied()


def test_an_increment_applies_to_its_base_only(world: World) -> None:
    """rules S81, S25, S53"""
    with world.alone():
        sections = {name: canonical.dumps(value) for name, value in world.active["sections"].items()}
        base = Base(world.version + 1, {name: signer.entry_of(data) for name, data in sections.items()})
        brought = canonical.dumps({"web": {"endpoints": []}})
        entry = signer.entry_of(brought)
        claims = world.claims(config_version=base.config_version + 1)
        made = signer.increment(
            claims, base, {"more": SectionChange("set", entry, entry)}, {"more": brought}, [world.key()]
        )
        world.refuses(made, 9, "base_mismatch")
    before = world.version
    world.next_is_applied()
    envelope = world.active["envelope"]
    assert (envelope["kind"], envelope["base_config_version"]) == ("increment", before)


def test_a_revoked_signer_is_refused(world: World) -> None:
    """rules S82, S61, S53"""
    stolen = world.key()
    root = ("--root-key", world.lab.roots, "--yes")
    world.lab.good("rotate", "add", "--new-key-to", world.lab.keys, *root)
    world.lab.reload()
    world.lab.good("revoke", "key", stolen.key_id, "--reason", "stolen", "--yes")
    world.until(lambda: world.key().key_id != stolen.key_id)
    with world.still():
        made = signer.snapshot(world.claims(), with_port(world.active["sections"], 6666), [stolen])
        world.refuses(made, 4, "key_revoked")
    world.next_is_applied()


def test_forbidden_actions_are_blocked_in_degraded_mode(world: World) -> None:
    """rules S83, S56a, S56b, S56c, S56d, S56e, S56f, S56g, S56h, S56i, S57"""
    assert world.client.may("continue_services", resource="web").allowed, "it asks, and is seen running"
    world.lab.stop()
    world.until(lambda: world.mode() == "degraded")
    for action in FORBIDDEN:
        ran = world.gateway.ask("may", action, "--json")
        assert (ran.status, ran.json["allowed"], ran.json["reason"]) == (NO, False, "forbidden_in_degraded"), action
    assert not world.client.may("start_service", scope=SCOPE, resource="web").allowed, "nothing new"
    assert world.client.may("continue_services", scope=SCOPE, resource="web").allowed
    world.lab.start()
    world.next_is_applied()

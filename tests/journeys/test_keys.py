"""The life of a cluster's keys, from the command line: root keys away, rotation, revocation, recovery, a new epoch.

Every document that comes of it is judged by `holdfast verify` as a process, before the node in this test takes it.
"""

import json
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import trio

from coordinator.keys import keystore
from coordinator.setup.ports import Ports
from coordinator.trust import signing_requests
from coordinator.trust.bundle_content import Trust
from snapshot.bundle import ROOT
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.manifest import ScopeVersion
from snapshot.verify import Verified
from tests.coordinator.daemon import Follower, Running, TlsNode
from tests.holdfast.operator_lab import UNGUARDED, Lab, running

STATE = """
kind: Cluster
id: prod
spec: {coordinators: ["https://localhost:7443"]}
---
kind: Organization
id: acme
---
kind: Node
id: n1
spec: {roles: [core_mesh, egress_service], organizations: [acme], addresses: ["10.0.0.1:7000"]}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [n1]}
  endpoints: [{name: http, protocol: http, host: localhost, port: 8080}]
---
kind: Route
id: front
spec: {organization: acme, service: web, match: {hosts: [HOST]}}
"""
ROUTES = "route_policy"
FIRST = (TRUST_BUNDLE, "node_bootstrap", "node_runtime")
BUNDLE_FIRST = ("unknown_key", "epoch_ahead", "trust_bundle_too_old")
NOWHERE = ScopeVersion(0, 0, "", "")
WITHIN_S = 300.0  # each document is judged by a process


class Judged(Follower):
    """A node each of whose documents lies in a file, and was judged by the command before it is taken."""

    def __init__(self, node: TlsNode, lab: Lab) -> None:
        self.lab = lab
        self.folder = lab.folder / "judged"
        for name in ("contexts", "documents"):
            (self.folder / name).mkdir(parents=True)
        self.taken: list[Verified] = []
        self.bundle: str | None = None
        self.recoveries: list[str] = []
        super().__init__(node)

    def take(self, data: bytes, kind: str, now: float | None = None) -> Verified:
        verdict, name = self.verdict(data, kind)
        assert verdict["verdict"] == "verified", verdict
        taken = super().take(data, kind, time.time())
        self.taken.append(taken)
        if taken.bundle is not None:
            self.bundle = name
        if kind == "recovery":
            self.recoveries.append(name)
        return taken

    def verdict(self, data: bytes, kind: str) -> tuple[dict, str]:
        """What `holdfast verify` says of a document, and the file that it lies in."""
        name = f"documents/{len(self.taken)}-{kind}.hfs"
        (self.folder / name).write_bytes(data)
        context = self.folder / "contexts" / f"{len(self.taken)}.json"
        context.write_text(json.dumps(self._context(kind, data)))
        ran = self.lab.holdfast("verify", "--json", "--context", context, self.folder / name)
        assert ran.status == (0 if ran.json["verdict"] == "verified" else 1), ran
        return ran.json, name

    async def sync(self, wait: int = 0, now: float | None = None) -> bool:
        """Follow the next head; where our bundle is too old for it, the bundles first (threats D-42)."""
        epoch = self.holder.marks["head"].authority_epoch if self.generation else 0
        answer = await self.node.head(self.generation, epoch, wait)
        if answer.status == 204:
            return False
        if self.verdict(answer.body, "head")[0]["reason"] in BUNDLE_FIRST:
            await self._follow(TRUST_BUNDLE, NOWHERE, now)
        if self.verdict(answer.body, "head")[0]["reason"] == "key_revoked":
            return False  # it was signed before that: the next one is on its way
        listed = self.take(answer.body, "head").head.scopes
        for scope in sorted(listed, key=lambda name: (name not in FIRST, name)):
            await self._follow(scope, listed[scope], now)
        return True

    def _context(self, kind: str, data: bytes) -> dict[str, object]:
        holder = self.holder
        roots: dict[str, object] = {}
        if holder.bundle is None:
            records = Trust.of(signing_requests.bundle_of(data)).sections()["keys"]
            pinned = {name: one for name, one in records.items() if one["purpose"] == ROOT}
            roots = {"root_keys": pinned, "root_threshold": holder.roots.threshold}
        return {
            "cluster_id": holder.cluster_id,
            "node_id": holder.node_id,
            "roles": sorted(holder.roles),
            "organization_ids": sorted(holder.organization_ids),
            "kind": kind,
            "trust_bundle": self.bundle,
            "floors": {scope: mark._asdict() for scope, mark in holder.marks.items()},
            "active": {},
            "recovery": self.recoveries,
            "used_nonces": sorted(holder.used_nonces),
            **roots,
        }

    async def _follow(self, scope: str, listed: ScopeVersion, now: float | None) -> None:
        """Full documents alone; where the head lists less than what was accepted, the recovery first (rules S86)."""
        held = self.holder.marks.get(scope)
        if scope == TRUST_BUNDLE or held is None:
            await super()._follow(scope, listed, now)
        elif held.content_hash != listed.content_hash or held.version != (
            listed.authority_epoch,
            listed.config_version,
        ):
            if (listed.authority_epoch, listed.config_version) < held.version:
                self.take((await self.node.get(f"/v1/recoveries/{quote(scope, safe='')}")).body, "recovery")
            self.take((await self.node.get(f"/v1/documents/{listed.snapshot_id}")).body, "snapshot")

    async def brought_up(self) -> list[Verified]:
        """What the next heads brought, until all is told that the coordinator has for this node now."""
        count = len(self.taken)
        wanted = self.lab.good("nodes", "show", "n1", "--json").json["generation"]
        with trio.fail_after(WITHIN_S):
            while self.generation < wanted:
                await self.sync(wait=10)
        assert len(self.taken) > count, "nothing came"
        return self.taken[count:]

    def signers(self) -> set[str]:
        """Of the last head."""
        return set([each for each in self.taken if each.kind == "head"][-1].signers)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with running(tmp_path, settings=UNGUARDED) as started:
        yield started


def apply(lab: Lab, host: str) -> None:
    path = lab.folder / "state.yaml"
    path.write_text(STATE.replace("HOST", host))
    lab.good("apply", "-f", path, "--yes")


@asynccontextmanager
async def joined(lab: Lab) -> AsyncIterator[Judged]:
    shutil.copy(lab.folder / "state" / "tls" / "ca.pem", lab.folder / "ca.pem")
    lab.good("allow", "add", "n1")
    token = lab.good("tokens", "create", "--node", "n1").out.strip()
    founded = SimpleNamespace(folder=lab.folder, now=time.time(), socket=lab.socket)
    at = Running(founded, None, Ports(**lab.ports))
    node = TlsNode(at, "n1")
    try:
        assert (await node.join(token)).outcome == "admitted"
        yield Judged(node, lab)
    finally:
        with trio.CancelScope(shield=True):
            for client in (at.operator, *at.clients):
                await client.aclose()


def sign_elsewhere(lab: Lab, request: Path, machines: list[Path]) -> None:
    """Copies of the request go to two machines, each with one root key, and come back."""
    copies = []
    for machine in machines[:2]:
        copy = machine / request.name
        shutil.copy(request, copy)
        lab.good("trust", "sign", copy, "--root-key", machine, "--yes")
        copies.append(copy)
    assert lab.ctl("trust", "import", copies[0]).status != 0, "one signature is not enough"
    lab.good("trust", "import", *copies)


def keys_moved_away(lab: Lab) -> list[Path]:
    """Each root key to a machine of its own; none is left where the coordinator is."""
    machines = []
    for number, path in enumerate(keystore.files(lab.roots, ROOT)):
        machine = lab.folder / f"machine-{number}"
        machine.mkdir(mode=0o700)
        path.rename(machine / path.name)
        machines.append(machine)
    lab.roots.rmdir()
    return machines


async def test_the_life_of_the_keys(lab: Lab) -> None:
    """rules S35, S36, S37, S40, S65, S87, K54; threats T16, D-62"""
    machines = keys_moved_away(lab)
    assert len(machines) == 3
    async with joined(lab) as node:
        old = await rotate(lab, node, machines)
        await revoke(lab, node, machines, old)
        await go_back(lab, node, machines)
        await raise_epoch(lab, node, machines)
    assert lab.good("status", "--json").json["publishing"]["fault"] == ""


async def rotate(lab: Lab, node: Judged, machines: list[Path]) -> str:
    """A new config key: announced, both sign, the old one retires, which is returned."""
    apply(lab, "one.example")
    await node.brought_up()
    old = lab.config_key()
    assert node.signers() == {old}
    request = lab.folder / "add.request.json"
    lab.good("rotate", "add", "--new-key-to", lab.keys, "--request", request)
    sign_elsewhere(lab, request, machines)
    lab.reload()
    await node.brought_up()
    apply(lab, "two.example")
    await node.brought_up()
    (new,) = node.signers() - {old}
    assert node.signers() == {old, new}
    request = lab.folder / "retire.request.json"
    lab.good("rotate", "retire", old, "--early", "--request", request)
    sign_elsewhere(lab, request, machines[1:])
    await node.brought_up()
    assert node.signers() == {new}
    return old


async def revoke(lab: Lab, node: Judged, machines: list[Path], old: str) -> None:
    """The old key turns up in wrong hands: heads say so at once, the bundle follows."""
    request = lab.folder / "revoke.request.json"
    lab.good("revoke", "key", old, "--reason", "found on a dump", "--yes")
    await node.brought_up()
    assert old in node.holder.revocations.key_ids
    lab.good("trust", "export-request", "--request", request)
    sign_elsewhere(lab, request, machines)
    await node.brought_up()
    assert node.holder.bundle.keys[old].status == "revoked"
    good = {name for name, one in node.holder.bundle.keys.items() if one.status == "active"}
    for scope, held in node.holder.active.items():
        assert good.intersection(held.envelope.signers), f"{scope} is left with a revoked signer"


async def go_back(lab: Lab, node: Judged, machines: list[Path]) -> None:
    """A scope goes back to what it was, once."""
    apply(lab, "three.example")
    await node.brought_up()
    versions = lab.good("nodes", "versions", "n1", ROUTES, "--json").json["versions"]
    last, before = versions[-1], versions[-2]
    assert node.holder.marks[ROUTES].config_version == last["config_version"]
    request = lab.folder / "recover.request.json"
    lab.good("recover", "n1", ROUTES, "--to", before["config_version"], "--request", request)
    sign_elsewhere(lab, request, machines)
    brought = await node.brought_up()
    assert [each.kind for each in brought if each.scope == ROUTES] == ["recovery", "snapshot"]
    assert node.holder.active[ROUTES].content_hash == before["content_hash"]
    assert node.holder.marks[ROUTES].config_version == last["config_version"], "the version given up never returns"


async def raise_epoch(lab: Lab, node: Judged, machines: list[Path]) -> None:
    """Everything anew, above all that there was."""
    request = lab.folder / "epoch.request.json"
    lab.good("epoch", "raise", "--request", request)
    sign_elsewhere(lab, request, machines)
    await node.brought_up()
    assert {mark.authority_epoch for mark in node.holder.marks.values()} == {2}


async def test_a_node_that_was_away_walks_the_bundles(lab: Lab) -> None:
    """rules S36: it ends equal, though every config key that it trusted has gone."""
    async with joined(lab) as node:
        await node.brought_up()
        known = set(node.holder.bundle.keys)
        for _ in range(2):
            replace = ("--reason", "drill", "--new-key-to", lab.keys, "--root-key", lab.roots, "--yes")
            lab.good("revoke", "key", lab.config_key(), *replace)
            lab.reload()
        apply(lab, "away.example")
        brought = await node.brought_up()
    assert node.holder.bundle.version == 3
    assert [each.bundle.version for each in brought if each.bundle] == [2, 3]
    assert node.signers().isdisjoint(known)
    assert len(lab.good("trust", "export", "--to", "exported", "--json").json["files"]) == 3

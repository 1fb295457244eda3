"""What must not wait goes through at once beside an open change, whatever that has come to; and the change goes on.

A change of two scopes of two nodes is asked about, bakes in its first ring, or is halted while the other thing is done.
Each node follows its heads, and judges what comes, with a verifier of its own, which refuses nothing of it.
"""

from collections.abc import Set
from copy import copy
from dataclasses import replace
from functools import partial

import pytest

from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import revocation
from coordinator.rollout import commands
from coordinator.trust import trust_import
from tests.coordinator import copies
from tests.coordinator.guarded import GuardedFleet, GuardedNode
from tests.coordinator.publishing import DAY, Press
from tests.coordinator.test_trust_import import recovery

NODES = ("node-a", "node-b")
ROUTES = "route_policy"
BAKES = "kind: RolloutPolicy\nid: standard\nspec: {rings: [{nodes: 1}, {percent: 100}], bake_s: 3, on_failure: halt}"
ROUTE = "kind: Route\nid: front\nspec: {{organization: acme, service: web, match: {{hosts: [{host}.example]}}}}"
CONFIG = "kind: Config\nid: motd\nspec: {{to: {{nodes: [node-a, node-b]}}, files: {{motd: {{text: {text}}}}}}}"


class Beside:
    """The fleet, and the verifier of each of its nodes."""

    def __init__(self, fleet: GuardedFleet) -> None:
        self.fleet, self.press = fleet, fleet.press
        self.readers = {node_id: self.press.reader(node_id) for node_id in NODES}

    def begin(self) -> None:
        self.press.apply("\n---\n".join((CONFIG.format(text="one"), ROUTE.format(host="one"), BAKES)))
        self.fleet.go_on()
        self.tell()
        self.press.change("\n---\n".join((CONFIG.format(text="two"), ROUTE.format(host="two"))))

    def over(self, database: Database) -> "Beside":
        """The same over a copy of its database, after a restart of the coordinator."""
        press = self.press.over(database)
        nodes = {node_id: copied_node(node, press) for node_id, node in self.fleet.nodes.items()}
        made = Beside(GuardedFleet(press, nodes, self.fleet.elapsed))
        for node_id, reader in self.readers.items():
            made.readers[node_id].holder, made.readers[node_id].head_id = reader.holder, reader.head_id
        return made

    def tell(self) -> None:
        """Heads that are due, and what nodes make of them."""
        self.press.publish()
        for reader in self.readers.values():
            before = reader.head_id
            if reader.follow().head_id != before:
                reader.judge()

    def go_on(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.fleet.go_on()
            self.tell()

    def until(self, *states: ChangeState) -> None:
        for _ in range(60):
            if self.state in states:
                return
            self.go_on()
        raise AssertionError(self.fleet.record(1))

    @property
    def state(self) -> ChangeState:
        return self.fleet.record(1).state

    def at(self, step: Step) -> set[str]:
        return {node_id for node_id, row in self.fleet.rows(1).items() if row.step is step}

    def run_by(self, word: bytes) -> set[str]:
        return {node_id for node_id, reader in self.readers.items() if word in reader.text(ROUTES)}

    def leave(self, node_id: str) -> None:
        del self.readers[node_id], self.fleet.nodes[node_id]


def copied_node(node: GuardedNode, press: Press) -> GuardedNode:
    own = {name: copy(getattr(node, name)) for name in ("refuses", "refused", "active", "marks")}
    return replace(node, press=press, **own)


pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(params=["asked", "bakes", "halted"])
def beside(database: Database, request: pytest.FixtureRequest) -> Beside:
    return copies.made(database, ("beside", request.param), partial(come_to, request.param)).over(database)


def come_to(state: str, database: Database) -> Beside:
    made = Beside(GuardedFleet.founded(database, *NODES))
    made.begin()
    if state == "asked":
        made.fleet.look()
        made.tell()
        assert made.at(Step.OFFERED) == set(NODES)
        return made
    made.until(ChangeState.ROLLING)
    made.go_on()
    if state == "halted":
        commands.halt(made.press.database, 1, "wait", actor="ann", now=made.press.now)
    assert len(made.run_by(b"two")) == 1
    return made


def ends(beside: Beside, *, but: Set[str] = frozenset()) -> None:
    """The change does, with a person's word where it was halted; then all have it, `but` these."""
    if beside.state is ChangeState.HALTED:
        beside.go_on(3)
        assert beside.state is ChangeState.HALTED and len(beside.run_by(b"two")) <= 1
        commands.resume(beside.press.database, 1, "go on", actor="ann", now=beside.press.now)
    beside.until(ChangeState.DONE)
    beside.go_on()
    assert beside.run_by(b"two") == set(beside.readers) - but


def test_a_revocation_a_key_that_goes_an_epoch_that_is_raised_and_a_renewal(beside: Beside) -> None:
    """One after the other"""
    revoke(beside)
    exchange_the_key(beside)
    raise_the_epoch(beside)
    renew(beside)
    ends(beside)


def revoke(beside: Beside) -> None:
    press = beside.press
    before = beside.run_by(b"two")
    revocation.revoke(press.database, "service_ids", "api", actor="root", now=press.now, reason="gone", unknown=True)
    beside.tell()
    assert all(reader.holder.revocations.service_ids == {"api"} for reader in beside.readers.values())
    assert beside.run_by(b"two") == before


def exchange_the_key(beside: Beside) -> None:
    """At once: what it has signed, candidates too, is signed anew"""
    press, new = beside.press, SigningKey.generate()
    press.keys = (new,)
    press.add_bundle(keys=(new,))
    beside.tell()
    for node_id, reader in beside.readers.items():
        assert reader.holder.bundle.version == press.bundles.version
        held = press.document(ROUTES, node_id)
        assert {key_id for key_id, _ in held.signatures} == {new.key_id}


def raise_the_epoch(beside: Beside) -> None:
    press, before = beside.press, beside.run_by(b"two")
    press.add_bundle(epoch=2, keys=press.keys)
    beside.tell()
    listed = [entry for node_id in NODES for entry in press.listing(node_id).values()]
    assert {entry.authority_epoch for entry in listed} == {2}
    assert beside.run_by(b"two") == before


def renew(beside: Beside) -> None:
    """What each has, for as long as it takes"""
    press, before = beside.press, beside.run_by(b"two")
    press.become(1, ChangeState.HALTED)
    for _ in range(4):
        press.now += 2 * DAY
        press.publish()
        for node_id, reader in beside.readers.items():
            reader.follow()
            reader.judge()
            assert press.document(ROUTES, node_id).expires_at > press.now + DAY
    assert beside.run_by(b"two") == before


def test_a_node_that_is_revoked(beside: Beside) -> None:
    """The one that has the change already, where one has it; the other gets it all the same"""
    press, gone = beside.press, min(beside.run_by(b"two") or {"node-b"})
    (left,) = set(NODES) - {gone}
    revocation.revoke_node(press.database, gone, actor="root", now=press.now, reason="stolen")
    beside.leave(gone)
    beside.tell()
    assert beside.readers[left].holder.revocations.node_ids == {gone}
    ends(beside)


def test_a_recovery_of_what_it_changes(beside: Beside) -> None:
    """node-a goes back in one scope to what it had before. Where it had the change, that is given up there, and stays
    so until something else is declared (rules S87); nobody else is kept from it.
    """
    press, has_it = beside.press, "node-a" in beside.run_by(b"two")
    trust_import.add_recovery(press.database, recovery(press, ROUTES, 1), actor="root", now=press.now)
    beside.fleet.nodes["node-a"].marks.pop(ROUTES)
    beside.tell()
    assert press.listing()[ROUTES].config_version == 1
    ends(beside, but={"node-a"} if has_it else set())
    press.change(ROUTE.format(host="three"))
    beside.go_on(10)
    assert all(b"three" in reader.text(ROUTES) for reader in beside.readers.values())

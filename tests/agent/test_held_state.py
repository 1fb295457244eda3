"""What a node holds, read in one go: roles, policy, revocations, and whose signature still counts."""

import pytest

from agent.state.held_state import is_vouched_for
from snapshot.grants import LateGrants
from snapshot.manifest import Revocations
from tests.agent.bench import bench
from tests.fakes.cluster import key
from tests.journeys.lab import POLICY, ROUTES

BOOTSTRAP, RUNTIME, POLICY_SCOPE = "node_bootstrap", "node_runtime", "degraded_mode_policy"


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.enrol()
        yield found


async def test_roles_are_those_of_the_runtime_else_of_the_bootstrap(made, mock_clock):
    """format.md 9"""
    assert made.node.holdings.roles == frozenset()
    await made.take(made.server.cluster.published[BOOTSTRAP])
    assert made.node.holdings.roles == {"core_mesh"}
    await made.take(made.server.snapshot({"node": {}}, RUNTIME, roles=["ingress", "thin"]))
    assert made.node.holdings.roles == made.node.holdings.holder.roles == {"ingress", "thin"}


async def test_a_revoked_role_is_assigned_and_authorises_nothing(made, mock_clock):
    """rules S61"""
    await made.take(made.server.cluster.published[BOOTSTRAP])
    revoked = Revocations(version=1, role_assignments=frozenset({"node-a/core_mesh", "node-b/core_mesh"}))
    await made.take(made.server.cluster.head(revocations=revoked, **made.server.times()))
    assert made.node.holdings.roles == {"core_mesh"}
    assert made.node.holdings.holder.roles == frozenset()
    assert not made.node.holdings.is_revoked


async def test_this_node_among_the_revoked(made, mock_clock):
    """rules A9, S60"""
    revoked = Revocations(version=1, node_ids=frozenset({"node-a"}))
    await made.take(made.server.cluster.head(revocations=revoked, **made.server.times()))
    assert made.node.holdings.is_revoked


async def test_a_policy_out_of_form_is_no_policy(made, mock_clock):
    """rules S58"""
    await made.take(made.server.cluster.published[BOOTSTRAP])
    await made.take(made.server.cluster.published[POLICY_SCOPE])
    assert made.node.holdings.policy.max_duration_s == POLICY["max_duration_s"]
    await made.take(made.server.snapshot({"policy": POLICY | {"more": 1}}, POLICY_SCOPE))
    assert made.node.holdings.policy is None
    await made.take(made.server.snapshot({"other": POLICY}, POLICY_SCOPE))
    assert made.node.holdings.policy is None


async def test_what_a_scope_names_is_read_once_for_each_content(made, mock_clock, monkeypatch):
    """A section that has not changed is not parsed again at the next change."""
    await made.take(made.server.cluster.published[BOOTSTRAP])
    await made.take(made.server.snapshot({"routes.a": {"north": {}}, "routes.b": {"south": {}}}, ROUTES))
    assert made.node.holdings.scopes[ROUTES].grants.routes == {"north", "south"}
    parsed = []
    from agent.state import held_state

    read = held_state.read_grants
    monkeypatch.setattr(
        held_state, "read_grants", lambda kind, named: (parsed.append(named[0][0]), read(kind, named))[1]
    )
    await made.take(made.server.snapshot({"routes.a": {"north": {}}, "routes.b": {"west": {}}}, ROUTES))
    assert made.node.holdings.scopes[ROUTES].grants.routes == {"north", "west"}
    assert parsed == ["routes.b"]


async def test_a_signer_that_is_revoked_vouches_for_nothing(made, mock_clock):
    """format.md 8, rules S82: marked, and left where it is"""
    await made.take(made.server.cluster.published[BOOTSTRAP])
    await made.take(made.server.cluster.published[ROUTES])
    held = made.node.holdings.kept.active[ROUTES]
    assert is_vouched_for(held, made.node.holdings.holder)
    assert not made.node.holdings.scopes[ROUTES].signer_revoked
    gone = Revocations(version=1, key_ids=frozenset({held.envelope.signer_key_id}))
    head = made.server.cluster.head(revocations=gone, keys=[key("config-2")], **made.server.times())
    await made.take(head)
    assert made.node.holdings.scopes[ROUTES].signer_revoked
    assert not made.node.holdings.scopes["trust_bundle"].signer_revoked
    assert made.node.holdings.kept.active[ROUTES].read("routes") == b'{"north":{"via":"a"}}'


async def test_the_head_that_was_accepted_and_the_one_that_is_held(made, mock_clock):
    assert made.node.holdings.held_head == (0, 0)
    await made.take(made.server.cluster.published["head"])
    assert made.node.holdings.held_head == (1, 1)
    assert made.node.holdings.head_expires_at > made.node.now()


async def test_what_a_large_scope_names_is_read_when_somebody_asks(made, mock_clock):
    """rules A10, A12, S57: a start does not wait for it; then it counts as any other"""
    await made.take(made.server.cluster.published[BOOTSTRAP])
    parts = {f"routes.{part}": {f"{part}-{n}": {"padding": "x" * 2000} for n in range(400)} for part in "ab"}
    await made.take(made.server.snapshot(parts, ROUTES))
    grants = made.node.holdings.scopes[ROUTES].grants
    assert isinstance(grants, LateGrants)
    assert ROUTES not in made.node.reader._read
    assert "a-7" in grants.routes
    assert "b-399" in grants.routes
    assert "c-1" not in grants.routes
    assert grants.endpoints == frozenset()

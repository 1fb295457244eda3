"""By which roles and organizations others are judged, while what establishes them is not active yet (format.md 9)."""

from dataclasses import replace

from agent.state.plan import FIRST
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified


def holder_after(verified: Verified, holder: VerifierState) -> VerifierState:
    """Roles and organizations as the candidate says, if it is one of the two that do (format.md 9)."""
    runtime = FIRST[1]
    if verified.scope not in FIRST or (verified.scope != runtime and runtime in holder.active):
        return holder
    taken = {role for role in verified.envelope.roles if f"{holder.node_id}/{role}" in _revoked_assignments(holder)}
    roles = frozenset(verified.envelope.roles) - taken
    return replace(holder, roles=roles, organization_ids=frozenset(verified.envelope.organization_ids))


def _revoked_assignments(holder: VerifierState) -> frozenset[str]:
    of_bundle = holder.bundle.revocations.role_assignments if holder.bundle else frozenset()
    return holder.revocations.role_assignments | of_bundle

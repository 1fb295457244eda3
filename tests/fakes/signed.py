"""Heads from what they list, as tests say it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordinator.keys import signer
from coordinator.keys.signer import EnvelopeClaims, SignedDocument
from coordinator.keys.signing_key import SigningKey
from snapshot import canonical
from snapshot.identifiers import HEAD
from snapshot.manifest import Revocations, ScopeVersion


def signed_head(
    claims: EnvelopeClaims,
    scopes: Mapping[str, ScopeVersion],
    keys: Sequence[SigningKey],
    *,
    poll_after_s: int = 15,
    revocations: Revocations | None = None,
    candidates: Mapping[str, ScopeVersion] | None = None,
) -> SignedDocument:
    """The head of `claims.subject_node_id`; its generation is `claims.config_version`."""
    members = signer.head_members(
        claims.config_version,
        {scope: version.members() for scope, version in scopes.items()},
        {scope: version.members() for scope, version in (candidates or {}).items()},
        poll_after_s=poll_after_s,
        revocations=signer.revocation_members(revocations or Revocations(), of_head=True),
    )
    return signer.sign(replace(claims, scope_type=HEAD).envelope(HEAD), canonical.dumps(members), (), keys)

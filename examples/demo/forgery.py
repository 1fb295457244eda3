"""What an attacker would offer: a route policy of his own making, newer than the real one, in form perfect.

The library that signs for the coordinator is used here, with a key of the attacker's: the form is no secret.
"""

import secrets
from dataclasses import replace

from coordinator.keys import signer
from coordinator.keys.signer import EnvelopeClaims
from coordinator.keys.signing_key import SigningKey

HOUR = 3_600


def route_policy(
    cluster_id: str, node_id: str, version: int, now: float, *, in_the_name_of: str | None = None
) -> bytes:
    """A document that sends the intranet to a service of the attacker's.

    `in_the_name_of`: a key id that it claims as its signer's; without one, the attacker's own.
    """
    key = SigningKey.generate()
    if in_the_name_of is not None:
        key = replace(key, key_id=in_the_name_of)
    claims = EnvelopeClaims(
        snapshot_id=secrets.token_hex(16),
        cluster_id=cluster_id,
        scope_type="route_policy",
        config_version=version,
        authority_epoch=1,
        issued_at=int(now),
        refresh_after=int(now) + HOUR,
        expires_at=int(now) + 2 * HOUR,
        subject_node_id=node_id,
        roles=("ingress",),
        organization_ids=("aurora",),
    )
    match = {"protocol": "http", "hosts": ["intranet.aurora.example"], "path_prefix": "/", "port": 0}
    route = {"organization_id": "aurora", "service_id": "attackers-own", "match": match, "ttl_s": HOUR}
    return signer.snapshot(claims, {"routes": {"aurora-intranet": route}}, [key]).to_bytes()

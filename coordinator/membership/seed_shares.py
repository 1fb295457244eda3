"""Shares of the seed for the owners that the manifest in place names (rules H4, H39).

Sealed to the owners' keys, so whoever carries them learns nothing; and to nobody but those whom the signed history
names, so an operator cannot have one made for somebody else.
"""

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, history, history_manifest
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import seed_share
from coordinator.keys.owner_key import OwnerPublic
from coordinator.keys.seed import Seed

NAME_THEM = "holdfastctl coordinators set NAME... --seed-share-owner FILE"


def seal_all(database: Database, seed: Seed | None, *, actor: str, now: float) -> dict[str, str]:
    """The text of each owner's share, by the owners' ids; one audit row. `no_state` where there is no owner."""
    if not isinstance(database.history, LinkedHistory) or seed is None:
        raise Refused(Code.NO_STATE, "this coordinator has no seed of a signed history", remedy=history.BEGIN)
    with database.change(actor=actor, now=now) as transaction:
        manifest = database.history.latest(transaction).transition.manifest
        owners = history_manifest.owners_of(history.get(transaction, history.MANIFESTS, manifest))
        if not owners:
            raise Refused(Code.NO_STATE, "nobody owns a share of the seed", remedy=f"name owners: {NAME_THEM}")
        cluster_id = cluster_state.standing(transaction).cluster_id
        transaction.audit("seed_share.seal", cluster_id, None, {"owners": sorted(owners)})
    found = (OwnerPublic(name, str(key)) for name, key in owners.items())
    return {owner.owner: seed_share.seal(seed, cluster_id, owner).to_bytes().decode() for owner in found}

"""What an owner brings where no coordinator has the seed any more: the seed, signed (rules H5, H31, H51).

    judge         whether it may be believed: the manifest names the owner, the whole history verifies with it, and the
                  root keys that are named here lead to the manifest's trust bundle (rules H50)
    take_up       one link of the history, as the owner: this coordinator is known by the identity that it has now

The manifest that names the owner is read before anybody can verify it, as in peer_recovery.py; it is believed once the
history that names it verifies with what the owner has brought. So neither a store that was forged nor a person with a
seed of their own is believed: the one has not signed with the seed, and the other is not named by what the seed signed.
Who exchanges the whole database has a seed and an owner of their own in it, and verifies: there root keys decide alone.

Whatever is wrong, nothing is adopted.
"""

import hashlib
from collections.abc import Mapping

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, history, history_manifest, object_store
from coordinator.database.database import CANCEL_EXPORT, Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import owner_key, seed_recovery
from coordinator.keys.owner_key import OwnerPublic
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import BYTES, Seed
from coordinator.keys.seed_recovery import BroughtSeed, RecoveryPlace
from coordinator.keys.seed_share import ANOTHER
from coordinator.membership import moving, peer_recovery, replicas
from coordinator.membership.peer_recovery import UnverifiedManifest

REPEAT = "repeat it"


def manifest_hash(tried: UnverifiedManifest) -> str:
    return hashlib.sha256(tried.content).hexdigest()


def judge(
    database: Database, tried: UnverifiedManifest, coordinator_id: str, brought: BroughtSeed, roots: PinnedRootKeys
) -> Seed:
    """`database`: without a history of its own, for this call alone. `roots`: those that are named here, if any are.
    `not_an_owner`, `bad_share`, `wrong_seed`, `concurrent_update`, `manifest_mismatch`, `untrusted_history`; and where
    it would be of no use: `not_in_manifest`, `moved`.
    """
    place = _place(database, tried, coordinator_id)
    if brought.manifest != place.manifest:
        detail = "the owner has signed for another manifest than the newest"
        raise Refused(Code.CONCURRENT_UPDATE, detail, remedy=REPEAT)
    _check_named(coordinator_id, tried.pins)
    if (move := moving.exported_to(database)) is not None:
        detail = f"the cluster was exported from here to {move.coordinator_id}, {move.url}"
        raise Refused(Code.MOVED, detail, remedy=f"bring it there; if it was never started: {CANCEL_EXPORT}")
    _check_owner(tried, place, brought)
    for name, value in (("seed", brought.seed), ("salt", brought.salt)):
        if len(value) != BYTES or value == bytes(BYTES):
            raise Refused(Code.BAD_SHARE, f"the {name} that came is not {BYTES} random bytes", remedy=ANOTHER)
    seed = Seed(brought.seed, brought.salt)
    _check_signer(database, seed)
    database.history = LinkedHistory(seed.history_key)
    if peer_recovery.read_verified(database) != tried.content:
        raise Refused(Code.MANIFEST_MISMATCH, "the history has moved on to another manifest", remedy=REPEAT)
    if roots.key_ids:
        peer_recovery.follow_roots(database, tried, roots)
    return seed


def take_up(
    database: Database, coordinator_id: str, pin: str, owner: str, *, is_forced: bool, about: str, now: float
) -> None:
    """`database`: with the history of the seed that was judged. `about`: what was known of the other coordinators.
    `not_in_manifest` where it names no coordinator of this id.
    """
    known = {replica.coordinator_id: replica.identity_sha256 for replica in replicas.list_replicas(database)}
    _check_named(coordinator_id, known)
    actor = f"owner:{owner}"
    if known[coordinator_id] != pin:
        replicas.pin(database, coordinator_id, pin, actor=actor, now=now)
    said = {"owner": owner, "identity_sha256": pin, "is_forced": is_forced, "others": about}
    with database.change(actor=actor, now=now) as transaction:
        transaction.audit("coordinator.recover_by_owner", coordinator_id, None, said)


def _check_named(coordinator_id: str, known: Mapping[str, str]) -> None:
    if coordinator_id not in known:
        detail = f"the manifest names {', '.join(sorted(known))}, and not {coordinator_id}"
        remedy = "set this machine up under the id of one that is lost: coordinator_id in coordinator.toml"
        raise Refused(Code.NOT_IN_MANIFEST, detail, remedy=remedy)


def _place(database: Database, tried: UnverifiedManifest, coordinator_id: str) -> RecoveryPlace:
    with database.read() as transaction:
        cluster_id = cluster_state.standing(transaction).cluster_id
    return RecoveryPlace(cluster_id, coordinator_id, manifest_hash(tried))


def _check_owner(tried: UnverifiedManifest, place: RecoveryPlace, brought: BroughtSeed) -> None:
    owners = history_manifest.owners_of(tried.content)
    if brought.owner not in owners:
        named = ", ".join(sorted(owners)) or "nobody"
        raise Refused(Code.NOT_AN_OWNER, f"{brought.owner} is no owner of the seed: the manifest names {named}")
    key = owners[brought.owner]
    if not owner_key.is_key(key):
        raise Refused(Code.NOT_AN_OWNER, f"the manifest names no key of {brought.owner}")
    known = OwnerPublic(brought.owner, str(key))
    said = seed_recovery.message_of(brought.owner, place, brought.seed, brought.salt)
    if not known.has_signed(said, brought.signature):
        detail = f"this was not signed with the key of {brought.owner} that the manifest names, or not for this place"
        raise Refused(Code.NOT_AN_OWNER, detail, remedy="give the owner's own key")


def _check_signer(database: Database, seed: Seed) -> None:
    """Before all of the history is read: it says by which key it was signed."""
    with database.read() as transaction:
        pointer = object_store.pointer(transaction, history.LATEST)
    if pointer is not None and pointer.signer != seed.history_key.key_id:
        detail = f"the history is of another seed, {pointer.signer}, and this one gives {seed.history_key.key_id}"
        raise Refused(Code.WRONG_SEED, detail, remedy="look whether the share is of this cluster; or another owner's")

"""User recovery: no coordinator has the seed any more, and an owner brings it (rules H31, H40, H51).

    1  something is missing here: the seed, or the mesh key of the manifest
    2  the other coordinators are asked first; where one is ready, or nobody can say who they are, an owner is refused,
       unless by force, which the audit log has
    3  what the owner says is judged (membership/owner_recovery.py), and kept like what a peer hands over
    4  a new mesh key, and a set of the same coordinators that lists it and raises the epoch: for root keys to sign

It is ready once that set is committed. The same transaction gives others a manifest whose mesh key they lack, under a
higher epoch, so that they stop; and get it from this one, without an operator.

Rejected: a transition of its own with the new key before root keys have signed. It would stop coordinators that work,
by the word of one owner; and nothing could be signed by it: nodes believe no key that root keys have not listed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.database.history import LinkedHistory
from coordinator.keys import identity, keystore
from coordinator.keys.atomic_files import replace_file
from coordinator.keys.seed import Seed
from coordinator.keys.seed_recovery import BroughtSeed
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import coordinator_sets, owner_recovery, peer_recovery, replica_reports
from coordinator.membership.coordinator_sets import SetAdditions
from coordinator.membership.peer_recovery import UnverifiedManifest
from coordinator.membership.replica_reports import READY
from coordinator.runtime.context import Coordinator
from coordinator.trust.ceremony import PublicKey, RaiseEpoch
from coordinator.trust.coordinator_set import CoordinatorSet
from wire.logs import log

FORCE = "if you know that none of them is ready: --force"


@dataclass(frozen=True)
class MissingSecrets:
    """Of this coordinator. `manifest`: the newest one, unverified; `lacks`: in words, nothing where it has all."""

    manifest: UnverifiedManifest
    lacks: str


async def look(at: Coordinator) -> MissingSecrets:
    """`no_state` where there is no history; `peers_unknown` where it cannot be read who the coordinators are."""
    try:
        found = await in_library(peer_recovery.read_unverified, at.database, at.coordinator_id)
    except Refused as refused:
        raise _unknown(refused.detail) from refused
    if found is None:
        raise Refused(Code.NO_STATE, "this database has no signed history: it has no seed and no owners")
    if not isinstance(at.database.history, LinkedHistory):
        return MissingSecrets(found, "the seed")
    is_held = any(key.key_id == found.mesh_key for key in at.publisher.keys)
    return MissingSecrets(found, "" if is_held else "the mesh key of the manifest")


async def recover(
    at: Coordinator, brought: BroughtSeed, *, is_forced: bool, despite_reports: bool = False
) -> CoordinatorSet:
    """What root keys are to sign."""
    missing = await look(at)
    if not missing.lacks:
        raise Refused(Code.CONFLICT, "nothing is missing here: this coordinator has the seed and the mesh key")
    about = "not asked" if is_forced else await _ask_peers(at, missing.manifest)
    seed = await in_library(_judge, at, missing.manifest, brought)
    at.database.history = await in_database(partial(_adopt, at, brought, seed, is_forced=is_forced, about=about))
    log.warning("the seed came from an owner", owner=brought.owner, is_forced=is_forced)
    made, keys = await in_database(partial(_draft, at, missing.manifest, despite_reports=despite_reports))
    at.publisher.sign_with(keys)
    return made


async def _ask_peers(at: Coordinator, manifest: UnverifiedManifest) -> str:
    """What is known of them; Refused where one is ready, or nobody can be asked."""
    others = sorted(manifest.pins.keys() - {at.coordinator_id})
    if at.peers.ask is not None:
        await at.peers.ask()
        if not (await look(at)).lacks:
            detail = "another coordinator was ready, and what was missing here came from it"
            raise Refused(
                Code.PEERS_READY, detail, remedy="nothing is left to be done: holdfastctl coordinators status"
            )
    try:
        heard = await in_library(replica_reports.all_of, at.database)
    except SQLAlchemyError as error:
        raise _unknown(line_of(error)) from error
    standings = [judged for replica in heard if (judged := replica_reports.judge(replica, at.now())) is not None]
    states = {found.coordinator_id: found.state for found in standings if found.coordinator_id in others}
    if ready := [name for name, state in states.items() if state == READY]:
        detail = f"{', '.join(ready)} said within two minutes that it is ready, and has what is missing here"
        remedy = f"let it name this one: holdfastctl coordinators set, there; or wait until it is silent; {FORCE}"
        raise Refused(Code.PEERS_READY, detail, remedy=remedy)
    asked = {peer.coordinator_id for peer in manifest.peers} if at.peers.ask is not None else set()
    if unasked := [name for name in others if name not in asked]:
        why = "their identities are not in the database" if at.peers.ask else "[listen] coordinators is not set here"
        raise _unknown(f"{', '.join(unasked)} cannot be asked: {why}")
    return ", ".join(f"{name} {states.get(name, 'unheard')}" for name in others) or "there is no other"


def _unknown(why: str) -> Refused:
    return Refused(Code.PEERS_UNKNOWN, why, remedy=f"put that right, and repeat; {FORCE}")


def _judge(at: Coordinator, manifest: UnverifiedManifest, brought: BroughtSeed) -> Seed:
    with _beside(at) as database:
        return owner_recovery.judge(database, manifest, at.coordinator_id, brought, at.peers.roots)


def _adopt(at: Coordinator, brought: BroughtSeed, seed: Seed, *, is_forced: bool, about: str) -> LinkedHistory:
    """Files first: what is stopped in between is done again."""
    own = identity.load(at.keys_directory, os.environ)
    if own is None:
        own = identity.generate(at.coordinator_id, at.now())
        keystore.own_directory(at.keys_directory)
        replace_file(at.keys_directory / identity.FILE, identity.to_bytes(own))
    at.secrets.keep_seed(seed)
    pin = identity.pin_of(own)
    with _beside(at) as database:
        database.history = LinkedHistory(seed.history_key)
        take_up = partial(owner_recovery.take_up, is_forced=is_forced, about=about, now=at.now())
        take_up(database, at.coordinator_id, pin, brought.owner)
    return at.peers.link(seed)


def _draft(
    at: Coordinator, manifest: UnverifiedManifest, *, despite_reports: bool
) -> tuple[CoordinatorSet, tuple[SigningKey, ...]]:
    """The key is kept before anybody is asked to list it."""
    key = SigningKey.generate()
    draft = partial(
        coordinator_sets.draft,
        answering=at.coordinator_id,
        more=SetAdditions(wishes=(RaiseEpoch(),)),
        despite_reports=despite_reports,
    )
    wanted = dict.fromkeys(manifest.pins, "")
    made = draft(at.database, wanted, PublicKey(key.algorithm, key.public_key), at.settings, at.now())
    at.secrets.keep_key(key)
    return made, at.secrets.config_keys()


@contextmanager
def _beside(at: Coordinator) -> Iterator[Database]:
    """A connection of its own: that of the coordinator has no history yet, or one that lets it change nothing."""
    database = Database(at.database.url)
    try:
        yield database
    finally:
        database.close()

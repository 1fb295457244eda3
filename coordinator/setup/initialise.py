"""`holdfastctl init`: a cluster's first state, whole or not at all (rules J34, J35, K12, K26, K48; format.md 8).

    1  nothing is there: neither a cluster in the database nor a file that would be written
    2  the passphrase is asked for: an `init` that is refused reads no secret
    3  a note of what is about to be written, then the files: root keys, config key, seed, its owners' shares, identity,
       token key, TLS certificate
    4  one transaction: the cluster, the site `default`, the coordinator's own entry, trust bundle 1, the owners of the
       seed's shares; it is the first link of the history
    5  the note goes

Stopped anywhere before 4 has committed, the files of the note are removed: at once, or by the next `init`.
"""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state as authority
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import (
    atomic_files,
    identity,
    server_certificate,
    signer,
)
from coordinator.keys.signer import EnvelopeClaims
from coordinator.keys.signing_key import SigningKey
from coordinator.setup import cluster_files, cluster_request, lost_database, new_database
from coordinator.setup.cluster_files import ClusterPlan
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.trust import ceremony, trust_import
from coordinator.trust.ceremony import Add, CeremonyMoment, PublicKey
from snapshot.bundle import CONFIG, ROOT, SCOPE

YEAR = 365 * 86_400
ROOT_LIFETIME_S = 20 * YEAR
CONFIG_LIFETIME_S = YEAR
NOTE = "init.incomplete"


@dataclass(frozen=True)
class MadeCluster:
    """What there is now."""

    cluster_id: str
    root_keys: tuple[tuple[str, Path], ...]  # key id, file
    config_key: tuple[str, Path]
    certificate: Path
    certificate_sha256: str
    authority: Path  # the CA file that nodes are given
    ca_key: Path | None  # None: it follows from the seed
    configuration: Path | None
    declared: Path | None
    shares: tuple[tuple[str, Path], ...] = ()  # owner, file


def initialise(wanted: ClusterRequest, *, actor: str, now: float) -> MadeCluster:
    """Refused `already_initialised`, or for what is at odds; then nothing has changed."""
    cluster_request.check(wanted)
    written = (wanted.configuration, wanted.declared)
    others = [
        *cluster_request.places_to_take_away(wanted),
        *(copies[0].parent for copies in written if copies),
    ]
    with atomic_files.directories(wanted.state, others), new_database.open_new(wanted) as database:
        is_done = partial(new_database.is_initialised, database)
        note = atomic_files.note_in(wanted.state, wanted.notes, NOTE)
        atomic_files.clear_up(note, is_done)
        if is_done():
            raise Refused(Code.ALREADY_INITIALISED, "this database holds a cluster", remedy="use another database")
        lost_database.check_new(*cluster_files.beginnings(wanted.state))
        plan = cluster_files.plan_files(wanted, now)
        with atomic_files.together(note, plan.files, is_done):
            database.history = LinkedHistory(plan.seed.history_key)
            _found_cluster(database, wanted, plan, actor=actor, now=now)
    return _summary(wanted, plan)


def _found_cluster(database: Database, wanted: ClusterRequest, plan: ClusterPlan, *, actor: str, now: float) -> None:
    founding = Founding(
        wanted.cluster_id,
        wanted.coordinator_id,
        wanted.url,
        plan.certificate_sha256,
        plan.token.public_key,
        identity.pin_of(plan.identity),
    )
    with database.change(actor=actor, now=now) as transaction:
        one = new_database.OneTransaction(transaction)
        authority.initialise(one, founding, actor=actor, now=now)
        trust_import.add_trust_bundle(one, _first_bundle(wanted, plan, now), actor=actor, now=now)
        transaction.named_owners = {owner.owner: owner.key for owner in wanted.owners}


def _first_bundle(wanted: ClusterRequest, plan: ClusterPlan, now: float) -> bytes:
    """Signed by every root key: whoever pins some of them can count them."""
    start = int(now)
    moment = CeremonyMoment(wanted.cluster_id, start, wanted.settings.key_rollout_s)
    adds = [Add(_public(key), ROOT, start + ROOT_LIFETIME_S) for key in plan.roots]
    adds.append(Add(_public(plan.config), CONFIG, start + CONFIG_LIFETIME_S))
    trust = ceremony.first_trust(adds, wanted.threshold, moment)
    lifetime_s = wanted.settings.trust_bundle_lifetime_s
    claims = EnvelopeClaims(
        snapshot_id=os.urandom(16).hex(),
        cluster_id=wanted.cluster_id,
        scope_type=SCOPE,
        config_version=1,
        authority_epoch=1,
        issued_at=start,
        refresh_after=start + lifetime_s // 2,
        expires_at=start + lifetime_s,
    )
    return signer.snapshot(claims, trust.sections(), plan.roots).to_bytes()


def _public(key: SigningKey) -> PublicKey:
    return PublicKey(key.algorithm, key.public_key)


def _summary(wanted: ClusterRequest, plan: ClusterPlan) -> MadeCluster:
    paths = [path for path, _ in plan.files]
    return MadeCluster(
        cluster_id=wanted.cluster_id,
        root_keys=tuple((key.key_id, path) for key, path in zip(plan.roots, paths, strict=False)),
        config_key=(plan.config.key_id, paths[wanted.roots]),
        certificate=wanted.state / "tls" / "server.pem",
        certificate_sha256=plan.certificate_sha256,
        authority=wanted.state / "tls" / server_certificate.AUTHORITY,
        ca_key=cluster_request.ca_key_file(wanted),
        configuration=wanted.configuration[0] if wanted.configuration else None,
        declared=wanted.declared[0] if wanted.declared else None,
        shares=cluster_files.shares_of(wanted),
    )

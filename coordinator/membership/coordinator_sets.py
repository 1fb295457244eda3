"""Who the coordinators are, declared as one change that root keys sign (rules H0, H3, H24, H38, H39, H49).

    draft     from the manifest in place: who is to stay, by which identity, and the public half of a new mesh key
    commit    what came back signed: the bundle that lists the key, the entries, and so the manifest, in one transaction

A set carries the manifest that it was made from. Of two that were made at once the second one finds another manifest in
place: `concurrent_update`, and nothing of it remains. So does one that is brought in twice.

A further coordinator has been prepared on its machine (setup/prepare.py): the certificate of its identity lies in the
database, by its hash. Whoever names that hash has its id and URL by it, and root keys sign all three. It enters its
token key and the certificate that it shows by itself, once it can change anything.

Rejected: a table of sets that are under way. Whoever gives one up would have to say so; a file that nobody brings back
is forgotten by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import update

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import cluster_state, history, history_manifest, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import PIN
from coordinator.keys import identity
from coordinator.membership import peer_recovery, replicas
from coordinator.publishing import published_state
from coordinator.trust import coordinator_set, request_builder, trust_import
from coordinator.trust.bundle_content import CONFIG_SCOPES
from coordinator.trust.ceremony import Add, PublicKey, Wish
from coordinator.trust.coordinator_set import ROLE, CoordinatorSet, entries_of
from coordinator.trust.trust_changes import DEFAULT_LIFETIME_S
from snapshot import canonical
from snapshot.bundle import CONFIG
from wire.operators.operator_answers import Replica

SET = "holdfastctl coordinators set"
_TABLE = schema.coordinators


@dataclass(frozen=True)
class SetAdditions:
    """What a set says beside who the coordinators are. `owners`: of shares of the seed, for a cluster that has none.
    `wishes`: for the bundle.
    """

    owners: Mapping[str, str] | None = None
    wishes: tuple[Wish, ...] = ()


NOTHING_MORE = SetAdditions()


def draft(
    database: Database,
    wanted: Mapping[str, str],
    mesh_key: PublicKey,
    settings: CoordinatorSettings,
    now: float,
    *,
    answering: str,
    more: SetAdditions = NOTHING_MORE,
    despite_reports: bool = False,
) -> CoordinatorSet:
    """`wanted`: each coordinator that is to be one, with the pin of another identity, or nothing. Changes nothing.

    `no_state` without a history, `not_found`, `in_use` for a set without the one that answers, `contradiction`.
    """
    if answering not in wanted:
        raise Refused(Code.IN_USE, f"{answering} is the one that answers", remedy="ask one that is to stay")
    with database.read() as transaction:
        before = _newest_manifest(database, transaction)[1]
        coordinators = {name: _wanted_entry(transaction, name, before, pin) for name, pin in wanted.items()}
    _check_owners(before, more.owners)
    add = Add(mesh_key, CONFIG, int(now) + DEFAULT_LIFETIME_S[CONFIG], CONFIG_SCOPES)
    request = request_builder.bundle_request(
        database, [add, *more.wishes], settings, now, despite_reports=despite_reports
    )
    return coordinator_set.make(request, before, coordinators, mesh_key.key_id, more.owners)


def commit(
    database: Database,
    signed: CoordinatorSet,
    held: Sequence[str],
    *,
    actor: str,
    now: float,
    despite_reports: bool = False,
) -> None:
    """`held`: the ids of the config keys of this coordinator, the mesh key among them, or nobody could sign by it.

    `wrong_cluster`, `conflict` while signatures are missing, `not_found` for the key, `concurrent_update`.
    """
    with database.read() as transaction:
        _check(database, transaction, signed)
    if signed.mesh_key not in held:
        remedy = f"commit it on the coordinator where it was made, or bring its key here, or make another: {SET}"
        raise Refused(Code.NOT_FOUND, f"the mesh key of this set, {signed.mesh_key}, is not here", remedy=remedy)
    document = signed.document().to_bytes()
    also = partial(_carry_out, database=database, signed=signed)
    trust_import.add_trust_bundle(database, document, actor=actor, now=now, despite_reports=despite_reports, also=also)


def _carry_out(transaction: Transaction, _epoch: int, *, database: Database, signed: CoordinatorSet) -> None:
    _check(database, transaction, signed)
    present = {replica.coordinator_id: replica for replica in replicas.replicas_in(transaction)}
    for name in present.keys() - signed.coordinators.keys():
        replicas.forget(transaction, name)
    for name, entry in signed.coordinators.items():
        if name not in present:
            replicas.add_entry(transaction, name, str(entry["url"]), str(entry["certificate_sha256"]))
        elif present[name].identity_sha256 != entry["certificate_sha256"]:
            row = update(_TABLE).where(_TABLE.c.coordinator_id == name)
            transaction.run(row.values(identity_sha256=entry["certificate_sha256"]))
    if signed.named_owners:
        transaction.named_owners = signed.named_owners
    transaction.audit(
        "coordinator.set", signed.cluster_id, _pins(present), {**_describe(signed), "follows": signed.follows}
    )


def _check(database: Database, transaction: Transaction, signed: CoordinatorSet) -> None:
    cluster_id = cluster_state.standing(transaction).cluster_id
    if signed.cluster_id != cluster_id:
        detail = f"this set is of cluster {signed.cluster_id}, and here is {cluster_id}"
        raise Refused(Code.WRONG_CLUSTER, detail, remedy="bring it to a coordinator of its own cluster")
    digest, _ = _newest_manifest(database, transaction)
    detail = ""
    if digest != signed.follows:
        detail = f"this set follows the manifest {signed.follows}, and {digest} is in place"
    elif (version := _bundle_version(transaction)) != signed.bundle.present.version:  # its content may be the same
        detail = f"this set follows trust bundle {signed.bundle.present.version}, and {version} is in place"
    if detail:
        raise Refused(
            Code.CONCURRENT_UPDATE, detail, remedy=f"it came too late, or twice; look, and make another: {SET}"
        )


def _bundle_version(transaction: Transaction) -> int:
    found = published_state.latest_bundle(transaction)
    return 0 if found is None else found[1].version


def _newest_manifest(database: Database, transaction: Transaction) -> tuple[str, bytes]:
    """Its hash, and itself."""
    if not isinstance(database.history, LinkedHistory):
        raise Refused(Code.NO_STATE, "there is no manifest without a signed history", remedy=history.BEGIN)
    digest = database.history.latest(transaction).transition.manifest
    return digest, history.get(transaction, history.MANIFESTS, digest)


def _check_owners(before: bytes, owners: Mapping[str, str] | None) -> None:
    there_are = history_manifest.owners_of(before)
    if owners and there_are:
        detail = f"the owners of the seed's shares are {', '.join(sorted(there_are))}, and stay so"
        raise Refused(
            Code.CONTRADICTION, detail, remedy="leave them out: a set keeps them; for another share of one: shares"
        )


def _wanted_entry(transaction: Transaction, name: str, before: bytes, pin: str) -> Mapping[str, object]:
    known = entries_of(_object(before))
    if name not in known and pin:
        return {"url": _prepared_url(transaction, name, pin), "certificate_sha256": pin, "roles": [ROLE]}
    if name not in known:
        begins = f"a further one begins with `{replicas.PREPARE}`, and is named {name}=sha256:..."
        remedy = f"it has {', '.join(known)}; {begins}"
        raise Refused(Code.NOT_FOUND, f"{name} is no coordinator of this cluster", remedy=remedy)
    if not pin and not _present_pin(transaction, name):
        raise Refused(Code.CONTRADICTION, f"{name} has no identity yet", remedy=f"on its machine, stopped: {PIN}")
    return {**known[name], "certificate_sha256": pin} if pin else known[name]


def _present_pin(transaction: Transaction, name: str) -> str:
    return _pins({replica.coordinator_id: replica for replica in replicas.replicas_in(transaction)}).get(name, "")


def _prepared_url(transaction: Transaction, name: str, pin: str) -> str:
    """`not_found` where nothing was prepared by this certificate; `contradiction` where it is of another one."""
    der = peer_recovery.identity_certificate(transaction, pin)
    if der is None:
        remedy = f"on its machine, over this database: {replicas.PREPARE} {name}"
        raise Refused(Code.NOT_FOUND, f"no coordinator was prepared with the certificate {pin}", remedy=remedy)
    owner, url = identity.owner_of(der)
    if owner != name or not url:
        remedy = f"name it by the certificate that `{replicas.PREPARE} {name}` has printed"
        raise Refused(Code.CONTRADICTION, f"the certificate {pin} was made for {owner}, not for {name}", remedy=remedy)
    return url


def _pins(present: Mapping[str, Replica]) -> dict[str, str]:
    return {name: replica.identity_sha256 for name, replica in present.items()}


def _describe(signed: CoordinatorSet) -> dict[str, object]:
    pins = {name: entry["certificate_sha256"] for name, entry in signed.coordinators.items()}
    return {"coordinators": pins, "mesh_key": signed.mesh_key, "seed_share_owners": signed.content["seed_share_owners"]}


def _object(data: bytes) -> Mapping[str, object]:
    value = canonical.loads(data)
    return value if isinstance(value, dict) else {}

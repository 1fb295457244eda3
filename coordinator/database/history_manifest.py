"""The manifest: who the coordinators are, and whom nodes believe, as one object (rules H0, H24, H39, H49).

    coordinators        {id: {url, certificate_sha256, roles: ["coordinator"]}}: of its identity (keys/identity.py); of
                        one that has none pinned yet, of the certificate that it shows to nodes
    seed_share_owners   {id: public key (keys/owner_key.py)}: who is given a share of the seed, sealed to that key
    trust_bundle        content hash of the latest bundle, or nothing
    mesh_key            id of the newest config key that it lists as active, or nothing
    created_at          Unix seconds

Made anew when one of these changes; a link whose change wrote none of the tables it is made from names the one before.

Owners are named once: by `init`, or by the first set of coordinators that names any. They stand in no table: each
manifest has those of the one before, so that no update can change them, and nobody who writes to the database and has
no seed.
"""

from collections.abc import Mapping

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import object_store, schema
from coordinator.database.database import Transaction
from coordinator.database.documents import section_key
from coordinator.keys import mesh_key
from snapshot import bundle, canonical, manifest

MADE_FROM = frozenset({schema.coordinators.name, schema.trust_bundles.name})
ROLE = "coordinator"


def follow(transaction: Transaction, before: bytes | None) -> bytes:
    """The manifest of the tables as they are: the one before, where it says the same."""
    now_so = content(transaction, _owners(transaction, {} if before is None else owners_of(before)))
    if before is not None and without_time(before) == now_so:
        return before
    return canonical.dumps({**now_so, "created_at": int(transaction.now)})


def without_time(data: bytes) -> dict[str, object]:
    value = canonical.loads(data)
    if not isinstance(value, dict):
        return {}
    return {name: said for name, said in value.items() if name != "created_at"}


def content(transaction: Transaction, owners: Mapping[str, object]) -> dict[str, object]:
    """All but the time."""
    return {"coordinators": _coordinators(transaction), "seed_share_owners": owners, **_trust(transaction)}


def owners_of(data: bytes) -> Mapping[str, object]:
    """The owners that a manifest names."""
    found = without_time(data).get("seed_share_owners")
    return found if isinstance(found, dict) else {}


def _owners(transaction: Transaction, before: Mapping[str, object]) -> Mapping[str, object]:
    """`contradiction` for others than there are."""
    named = transaction.named_owners
    if named is None or named == before:
        return before
    if before:
        detail = f"the owners of the seed's shares are {', '.join(sorted(before))}, and stay so"
        raise Refused(Code.CONTRADICTION, detail, remedy="leave them out: they need not be named again")
    return named


def _coordinators(transaction: Transaction) -> Mapping[str, object]:
    table = schema.coordinators
    return {
        row.coordinator_id: {
            "url": row.url,
            "certificate_sha256": row.identity_sha256 or row.certificate_sha256,
            "roles": [ROLE],
        }
        for row in transaction.rows(select(table))
    }


def _trust(transaction: Transaction) -> Mapping[str, object]:
    table, kept = schema.trust_bundles, schema.documents
    joined = table.join(kept, table.c.snapshot_id == kept.c.snapshot_id)
    newest = select(kept.c.content_hash, kept.c.manifest).select_from(joined).order_by(table.c.config_version.desc())
    row = transaction.row(newest.limit(1))
    if row is None:
        return {"trust_bundle": "", "mesh_key": ""}
    entry = manifest.parse_state(bytes(row.manifest))["keys"]
    keys = bundle.parse_keys(canonical.loads(object_store.get(transaction, section_key(entry.sha256))))
    return {"trust_bundle": row.content_hash, "mesh_key": mesh_key.newest_of(keys.values())}

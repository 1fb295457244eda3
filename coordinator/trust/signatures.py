"""Who signed a document, and how its keys stand now: the bundle's status, and what keeps one from verifying."""

from collections.abc import Sequence

from coordinator.database.database import Transaction
from coordinator.publishing import published_state
from snapshot.bundle import CONFIG, ROOT, SCOPE
from snapshot.identifiers import format_time
from snapshot.reasons import Reason
from wire.operators.fleet_answers import Signer


def signers(
    transaction: Transaction, key_ids: Sequence[str], scope_type: str, *, cluster_id: str, now: float
) -> tuple[tuple[Signer, ...], int]:
    """Each key in the order of the signatures, and how many valid ones the bundle asks for (0 without a bundle)."""
    found = published_state.latest_bundle(transaction)
    if found is None:
        return tuple(Signer(key_id, "unknown", Reason.UNKNOWN_KEY.value) for key_id in key_ids), 0
    bundle, purpose = found[1], ROOT if scope_type == SCOPE else CONFIG
    revoked = published_state.read_revocations(transaction).key_ids | bundle.revocations.key_ids

    def signer(key_id: str) -> Signer:
        record = bundle.keys.get(key_id)
        if record is None:
            return Signer(key_id, "unknown", Reason.UNKNOWN_KEY.value)
        fault = record.fault(cluster_id, now, scope_type, purpose, key_id in revoked)
        times = format_time(record.not_before), format_time(record.not_after)
        return Signer(key_id, record.status, fault.value if fault else None, record.purpose, *times)

    needed = bundle.thresholds[ROOT] if purpose == ROOT else bundle.config_threshold(scope_type)
    return tuple(map(signer, key_ids)), needed

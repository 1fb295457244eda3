"""Heartbeats as a node sends them (protocol 3)."""

from coordinator.reports import heartbeat_form
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from snapshot import canonical
from snapshot.extension import FEATURES


def mark(version: int, *, epoch: int = 1, content: str = "ab") -> dict[str, object]:
    return {
        "authority_epoch": epoch,
        "config_version": version,
        "content_hash": "sha256:" + content * 32,
        "snapshot_id": f"doc-{version}",
        "signer_key_id": "sha256:" + "cd" * 32,
        "applied_at": "2027-01-15T08:00:00Z",
        "expires_at": "2027-01-22T08:00:00Z",
        "grade": "fresh",
    }


def scope(active: dict[str, object] | None) -> dict[str, object]:
    return {"active": active, "previous": None, "pending": None, "last_rejected": None, "notified": {}}


def rejected(version: int | None, reason: str = "raw_secret", at: str = "2099-01-01T00:00:00Z") -> dict[str, object]:
    return {"config_version": version, "snapshot_id": None, "reason": reason, "step": 12, "at": at}


def vote(scope: str, reason: str = "", **other: object) -> dict[str, object]:
    """On a candidate; refused where there is a reason."""
    said = {"verdict": "refused", "step": 12} if reason else {"verdict": "accepted", "step": None}
    named = {"scope": scope, "snapshot_id": "doc-4", "content_hash": "sha256:" + "ef" * 32}
    return {**named, **said, "reason": reason, "detail": "it says no" if reason else "", **other}


def value(node_id: str = "node-a", versions: dict[str, int] | None = None, **other: object) -> dict[str, object]:
    scopes = {name: scope(mark(version)) for name, version in (versions or {"route_policy": 3}).items()}
    return {
        "node_id": node_id,
        "cluster_id": "prod",
        "incarnation": "i-1",
        "boot_id": "9d1f3f6e-boot",
        "agent_version": "0.1.0",
        "sent_at": "2027-01-15T08:00:00Z",
        "uptime_s": 12,
        "state": "active",
        "mode": "normal",
        "degraded_since": None,
        "clock": {"synchronised": True, "offset_floor_s": 0},
        "head": {"generation": 2, "authority_epoch": 1, "age_s": 3, "grade": "fresh"},
        "scopes": scopes,
        "trust_bundle_version": 1,
        "features": list(FEATURES),
        "counters": {"rejections": 0},
        "journal": [],
        **other,
    }


def body(*arguments: object, **other: object) -> bytes:
    return canonical.dumps(value(*arguments, **other))


def heartbeat(*arguments: object, **other: object) -> ReceivedHeartbeat:
    return heartbeat_form.parse(body(*arguments, **other))


def events(*sequences: int) -> list[dict[str, object]]:
    return [event(number) for number in sequences]


def event(sequence: int, name: str = "activated", detail: str = "", scope: str = "") -> dict[str, object]:
    return {"sequence": sequence, "at": "2027-01-15T08:00:00Z", "event": name, "scope": scope, "detail": detail}

"""Where each key stands in its life, and what comes next and when (rules S36; Numbers: key rollout). Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from coordinator.trust.bundle_content import Trust
from snapshot.bundle import RETIRING, REVOKED, ROOT, KeyRecord
from snapshot.identifiers import format_time

ADD, RETIRE, REMOVE = "add", "retire", "remove"


@dataclass(frozen=True)
class Dates:
    """Seconds: how long a retiring key stays, and how long two keys sign side by side before one retires."""

    key_rollout_s: int
    both_sign_s: int


@dataclass(frozen=True)
class RotationStep:
    """The next thing to do about one key. `due` is Unix seconds; before it, the step is too early."""

    key_id: str
    purpose: str
    status: str
    not_after: int
    action: str
    due: int | None
    why: str

    def is_due(self, now: float) -> bool:
        return self.due is not None and now >= self.due


def steps(trust: Trust, dates: Dates, now: float) -> list[RotationStep]:
    """One for each key: roots after config keys, the one that ends first, first."""
    ordered = sorted(trust.keys.values(), key=lambda each: (each.purpose, each.not_after, each.key_id))
    return [_step(record, trust, dates, now) for record in ordered]


def _step(record: KeyRecord, trust: Trust, dates: Dates, now: float) -> RotationStep:
    if record.status == RETIRING:
        return _make(record, REMOVE, record.not_after, "what it signed is good until then")
    if record.status == REVOKED:
        return _make(record, REMOVE, record.not_after, "it is named as revoked until it would be over anyway")
    if now >= record.not_after:
        return _make(record, REMOVE, record.not_after, "it is over")
    successor = _successor(record, trust, now)
    if successor is not None:
        return _retirement(record, successor, dates)
    due = record.not_after - 2 * dates.key_rollout_s
    return _make(record, ADD, due, f"it needs a successor well before {format_time(record.not_after)}")


def _retirement(record: KeyRecord, successor: KeyRecord, dates: Dates) -> RotationStep:
    """Documents are signed anew as time goes on; bundles are not, so a root key need not wait."""
    if record.purpose == ROOT:
        return _make(record, RETIRE, successor.not_before, f"{successor.key_id} has taken over")
    both = successor.not_before + dates.both_sign_s
    return _make(record, RETIRE, both, f"{successor.key_id} has taken over; both have signed everything by then")


def _successor(record: KeyRecord, trust: Trust, now: float) -> KeyRecord | None:
    """The oldest of those that came after it and can do all that it does, when the rest can do without it."""
    able = list(_able(record, trust, now))
    younger = [key for key in able if _age(key) > _age(record)]
    return younger[0] if younger and len(able) >= trust.thresholds[record.purpose] else None


def _able(record: KeyRecord, trust: Trust, now: float) -> Iterator[KeyRecord]:
    for key in sorted(trust.active(record.purpose, now), key=_age):
        if key.key_id != record.key_id and set(record.scope_types) <= set(key.scope_types):
            yield key


def _age(record: KeyRecord) -> tuple[int, int]:
    return record.not_before, record.not_after


def _make(record: KeyRecord, action: str, due: int | None, why: str) -> RotationStep:
    return RotationStep(record.key_id, record.purpose, record.status, record.not_after, action, due, why)

"""What a trust bundle says, as a value that a ceremony can change and write down again (format.md 8). Pure."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator.keys import signer
from snapshot import bundle as bundles
from snapshot.bundle import ACTIVE, CONFIG, ROOT, KeyRecord, TrustBundle
from snapshot.identifiers import HEAD, SCOPE_TYPES, format_time
from snapshot.manifest import Revocations

# All that config keys sign: every scope type but the trust bundle, and heads.
CONFIG_SCOPES = tuple(sorted(scope for scope in (*SCOPE_TYPES, HEAD) if scope != bundles.SCOPE))
# What a bundle revokes by name; keys are revoked in their records.
CATEGORIES = ("endpoints", "node_ids", "role_assignments", "service_ids")


@dataclass(frozen=True)
class Trust:
    """The content of one bundle."""

    keys: Mapping[str, KeyRecord]
    thresholds: Mapping[str, int]
    authority_epoch: int
    revocations: Revocations

    @classmethod
    def of(cls, bundle: TrustBundle) -> "Trust":
        return cls(bundle.keys, bundle.thresholds, bundle.authority_epoch, bundle.revocations)

    def sections(self) -> dict[str, object]:
        """The four sections of format.md 8."""
        return signer.trust_bundle_sections(
            {key_id: record_members(record) for key_id, record in self.keys.items()},
            root_threshold=self.thresholds[ROOT],
            config_threshold=self.thresholds[CONFIG],
            authority_epoch=self.authority_epoch,
            revocations=self.revocations,
            of_types={name: n for name, n in self.thresholds.items() if name not in (ROOT, CONFIG)},
        )

    def active(self, purpose: str, now: float | None = None) -> tuple[KeyRecord, ...]:
        """Those that sign: `active` in name and, where a time is given, within their validity. By their ids."""
        return tuple(
            record
            for _, record in sorted(self.keys.items())
            if record.purpose == purpose
            and record.status == ACTIVE
            and (now is None or record.not_before <= now < record.not_after)
        )


def record_members(record: KeyRecord) -> dict[str, object]:
    """One member of the section `keys`, as a bundle holds it."""
    return {
        "algorithm": record.algorithm,
        "public_key": base64.b64encode(record.public_key).decode(),
        "purpose": record.purpose,
        "cluster_id": record.cluster_id,
        "scope_types": list(record.scope_types),
        "not_before": format_time(record.not_before),
        "not_after": format_time(record.not_after),
        "status": record.status,
    }


def differences(before: Trust | None, after: Trust) -> list[str]:
    """What a reader would learn from `after` who knows `before`, a line each; for people who are about to sign it."""
    return [*_keys(before.keys if before else {}, after.keys), *_numbers(before, after), *_names(before, after)]


def _keys(before: Mapping[str, KeyRecord], after: Mapping[str, KeyRecord]) -> Iterator[str]:
    for key_id in sorted(before.keys() | after.keys()):
        old, new = before.get(key_id), after.get(key_id)
        if new is None:
            yield f"removes {before[key_id].purpose} key {key_id}"
        elif old is None:
            until = format_time(new.not_after)
            yield f"adds {new.purpose} key {key_id} ({new.algorithm}, {new.status}, until {until})"
        elif old.status != new.status:
            until = format_time(new.not_after)
            yield f"{new.purpose} key {key_id} is {new.status} instead of {old.status}, until {until}"
        elif old != new:
            yield f"changes {new.purpose} key {key_id}: {', '.join(_member_changes(old, new))}"


def _member_changes(old: KeyRecord, new: KeyRecord) -> Iterator[str]:
    before, after = record_members(old), record_members(new)
    return (f"{name} is {after[name]} instead of {before[name]}" for name in after if before[name] != after[name])


def _numbers(before: Trust | None, after: Trust) -> Iterator[str]:
    for purpose in (ROOT, CONFIG):
        old = before.thresholds[purpose] if before else None
        if old != after.thresholds[purpose]:
            yield f"asks for {after.thresholds[purpose]} {purpose} signatures{_instead(old)}"
    old = before.authority_epoch if before else None
    if old != after.authority_epoch:
        yield f"announces epoch {after.authority_epoch}{_instead(old)}"


def _names(before: Trust | None, after: Trust) -> Iterator[str]:
    for category in CATEGORIES:
        old = getattr(before.revocations, category) if before else frozenset()
        new = getattr(after.revocations, category)
        yield from (f"revokes {category} {value}" for value in sorted(new - old))
        yield from (f"no longer revokes {category} {value}" for value in sorted(old - new))


def _instead(old: int | None) -> str:
    return "" if old is None else f" instead of {old}"

"""A node that takes what its head lists, but for contents that it refuses, and reports it (protocol 3)."""

from dataclasses import dataclass, field

from coordinator.database.documents import HeadEntry
from coordinator.reports import heartbeat_form, heartbeats
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.reports.report_merge import RecordedAnswer
from snapshot import canonical
from snapshot.identifiers import format_time
from tests.coordinator import reports
from tests.coordinator.publishing import Press

WORDS = "web: a port is missing"


@dataclass
class Picky:
    """`refuses`: scopes whose next new content it does not take; content that it has is taken again at all times."""

    press: Press
    node_id: str = "node-a"
    refuses: set[str] = field(default_factory=set)
    reason: str = "validator_refused"
    active: dict[str, HeadEntry] = field(default_factory=dict)
    expires: dict[str, int] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    last: dict[str, dict[str, object]] = field(default_factory=dict)
    sequence: int = 0
    times: int = 0  # that something was refused

    def follow(self) -> "Picky":
        """What the head lists now, and a report of it."""
        journal = []
        for scope, entry in self.press.listing(self.node_id).items():
            if self.active.get(scope) == entry:
                continue
            if scope in self.refuses and self._is_new(scope, entry):
                if self.last.get(scope, {}).get("snapshot_id") != entry.snapshot_id:
                    journal.append(self._refuse(scope, entry))
                continue
            self.active[scope] = entry
            self.applied[scope] = int(self.press.now)
            self.expires[scope] = self.press.document(scope, self.node_id).expires_at
        self.report(journal=journal)
        return self

    def version(self, scope: str) -> int:
        return self.active[scope].config_version

    def heartbeat(self, **other: object) -> ReceivedHeartbeat:
        body = reports.value(self.node_id, **{"journal": [], **other})
        body["scopes"] = {scope: self._scope(scope) for scope in self.active.keys() | self.last.keys()}
        return heartbeat_form.parse(canonical.dumps(body))

    def report(self, **other: object) -> RecordedAnswer:
        return heartbeats.record(self.press.database, [self.heartbeat(**other)], now=self.press.now)[0]

    def _is_new(self, scope: str, entry: HeadEntry) -> bool:
        return scope not in self.active or self.active[scope].content_hash != entry.content_hash

    def _refuse(self, scope: str, entry: HeadEntry) -> dict[str, object]:
        self.times += 1
        self.sequence += 1
        at = format_time(int(self.press.now))
        self.last[scope] = {
            "config_version": entry.config_version,
            "snapshot_id": entry.snapshot_id,
            "reason": self.reason,
            "step": 12,
            "at": at,
        }
        detail = f"step 12: {self.reason}; {WORDS}"
        return {"sequence": self.sequence, "at": at, "event": "rejected", "scope": scope, "detail": detail}

    def _scope(self, scope: str) -> dict[str, object]:
        entry = self.active.get(scope)
        mark = None
        if entry is not None:
            times = {"applied_at": format_time(self.applied[scope]), "expires_at": format_time(self.expires[scope])}
            mark = {**vars(entry), "signer_key_id": "sha256:" + "cd" * 32, **times, "grade": "fresh"}
        return {**reports.scope(mark), "last_rejected": self.last.get(scope)}

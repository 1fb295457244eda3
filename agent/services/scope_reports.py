"""What the node says of each scope, in its status as in its heartbeats (protocol.md 3, 4). Synchronous: it reads."""

from collections.abc import Callable, Collection, Mapping

from agent.services.services import Notified as ToldService
from agent.state.view import ActiveScope, View, Views
from snapshot import envelope as envelopes
from snapshot.envelope import SNAPSHOT, Envelope
from snapshot.identifiers import HEAD, is_id
from snapshot.reasons import Rejected
from store.base.documents import StoredDocument
from store.base.pending import Waiting
from store.base.records import FailedContent, Rejection
from wire.local.local_answers import RejectionDetail
from wire.messages import Active, HeldVersion, LastRejected, NotifiedVersion, Reverted, ScopeReport


def scope_reports(
    views: Views,
    view: View,
    listed: Collection[str] | None,
    told: Mapping[str, ToldService],
    now: float,
    validates: Callable[[str], bool] = lambda _: False,
) -> dict[str, ScopeReport]:
    """Of every active scope, and of those that wait or were refused before anything of them was active.

    `listed`: the scopes of the held head, None without one. What it does not list is not missing (rules S3).
    `validates`: whether a service's validator sees a scope; where none does, nothing is said.
    """
    store = views.store
    waiting = store.waiting()
    refused = {
        rejection.scope
        for rejection in store.rejections.ring()
        if rejection.scope and _matters(rejection, view, listed)
    }
    names = sorted({*view.scopes, *waiting, *refused})
    with store.read() as reading:
        trials = {name: reading.trial(name) for name in names}
    return {
        name: ScopeReport(
            active=_active(view, view.scopes.get(name), now),
            previous=_held_version(views.previous(name)),
            pending=_waiting(waiting.get(name)),
            last_rejected=_last_rejection(last) if (last := store.rejections.last(name)) else None,
            notified={
                service: _notified_version(notice, name) for service, notice in told.items() if name in notice.versions
            },
            good=trials[name].good,
            probation_until=_seconds(trials[name].until),
            attempted=_attempted_version(trials[name].failed, view.scopes.get(name)),
            reverted=_failure_report(trials[name].failed),
            has_validator=validates(name) or None,
        )
        for name in names
    }


def _matters(refused: Rejection, view: View, listed: Collection[str] | None) -> bool:
    """Of a head, which is reported apart: when it was refused since the held one came."""
    if refused.scope == HEAD:
        return view.head is None or refused.at > view.head.record.activated_at
    return listed is None or refused.scope in listed


def rejection_report(rejection: Rejection) -> RejectionDetail:
    """What stands in the status, and what it was about: words of the verifier or of a service's validator."""
    return RejectionDetail(**vars(_last_rejection(rejection)), detail=rejection.detail, source=rejection.source)


def _active(view: View, scope: ActiveScope | None, now: float) -> Active | None:
    if scope is None:
        return None
    envelope = scope.document.envelope
    return Active(
        authority_epoch=envelope.authority_epoch,
        config_version=envelope.config_version,
        content_hash=scope.document.content_hash,
        snapshot_id=envelope.snapshot_id,
        signer_key_id=envelope.signer_key_id,
        applied_at=int(scope.record.activated_at),
        expires_at=envelope.expires_at,
        grade=str(view.grade_of(scope, now)),
    )


def _held_version(document: StoredDocument | None) -> HeldVersion | None:
    return None if document is None else _of(document.envelope)


def _waiting(waiting: Waiting | None) -> HeldVersion | None:
    envelope = None if waiting is None else envelope_of(waiting)
    return None if envelope is None else _of(envelope)


def envelope_of(waiting: Waiting) -> Envelope | None:
    """Of a snapshot that has passed all steps but that its time has not come (rules X26)."""
    try:
        return envelopes.parse(waiting.envelope, SNAPSHOT)
    except Rejected:
        return None


def _of(envelope: Envelope) -> HeldVersion:
    return HeldVersion(envelope.authority_epoch, envelope.config_version, envelope.state_hash, envelope.snapshot_id)


def _seconds(until: float | None) -> int | None:
    return None if until is None else int(until)


def _attempted_version(failed: FailedContent | None, active: ActiveScope | None) -> HeldVersion | None:
    """What serves in its place may be a renewal of what was good."""
    if failed is None or active is None or active.document.content_hash == failed.content_hash:
        return None
    if not is_id(failed.snapshot_id):  # its document could not be read any more
        return None
    return HeldVersion(failed.authority_epoch, failed.config_version, failed.content_hash, failed.snapshot_id)


def _failure_report(failed: FailedContent | None) -> Reverted | None:
    if failed is None:
        return None
    return Reverted(failed.config_version, failed.content_hash, failed.check, failed.detail, int(failed.at))


def _last_rejection(rejection: Rejection) -> LastRejected:
    """What the refused document claimed of itself stands there only where it is in form."""
    return LastRejected(
        config_version=rejection.config_version or None,
        snapshot_id=rejection.snapshot_id if is_id(rejection.snapshot_id) else None,
        reason=rejection.reason,
        step=rejection.step,
        at=int(rejection.at),
    )


def _notified_version(told: ToldService, scope: str) -> NotifiedVersion:
    return NotifiedVersion(told.versions[scope][1], told.ok)

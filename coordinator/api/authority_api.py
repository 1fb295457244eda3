"""What an operator asks about trust and publication, on the Unix socket: bundles, recoveries, keys, revocations."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.threads import in_database, in_library, in_planner
from coordinator.database import cluster_state, documents, history
from coordinator.database import revocations as revoked
from coordinator.database.cluster_state import ClusterState
from coordinator.database.database import Database
from coordinator.database.documents import container_of
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import revocation
from coordinator.publishing import published_state, signing_context
from coordinator.runtime.context import Coordinator, unavailable
from coordinator.runtime.reminder import Reminder
from coordinator.storage import static_tree
from coordinator.trust import restored_backup, trust_import
from snapshot.identifiers import HEAD, MAX_INTEGER, SCOPE_TYPES, format_time
from wire import forms
from wire.answer_message import AnswerMessage
from wire.endings import EndingThing
from wire.operators.operator_answers import CoordinatorStatus, PresentBundle, PresentCertificate, PublishingHealth
from wire.operators.operator_messages import PublishRequest, RevocationRequest
from wire.operators.trust_answers import (
    BundleDocuments,
    HeadRevocations,
    HeldKey,
    HeldKeys,
    RevocationDone,
    TakenBundle,
    TakenRecovery,
)
from wire.operators.trust_messages import SUBMISSION_BYTES, BundleSubmission, RecoverySubmission
from wire.request import Request
from wire.routes import HttpRoute

Result = TypeVar("Result")
PUBLISH_S = 600.0


class AuthorityApi:
    def __init__(self, coordinator: Coordinator, reminder: Reminder) -> None:
        self._at = coordinator
        self._reminder = reminder

    def routes(self) -> tuple[HttpRoute, ...]:
        most = SUBMISSION_BYTES
        return (
            HttpRoute("GET", "/v1/status", for_operators(self.status)),
            HttpRoute("GET", "/v1/keys", for_operators(self.keys)),
            HttpRoute("GET", "/v1/trust", for_operators(self.trust)),
            HttpRoute("POST", "/v1/trust", for_operators(self.add_trust_bundle), body_bytes=most),
            HttpRoute("POST", "/v1/recoveries", for_operators(self.add_recovery), body_bytes=most),
            HttpRoute("GET", "/v1/revocations", for_operators(self.revocations)),
            HttpRoute("POST", "/v1/revocations", for_operators(self.revoke)),
            HttpRoute("DELETE", "/v1/revocations/{category}/{value}", for_operators(self.restore)),
            HttpRoute("POST", "/v1/publish", for_operators(self.publish), deadline_s=PUBLISH_S),
        )

    async def status(self, _request: Request) -> AnswerMessage:
        at, health = self._at, self._at.publisher.health
        try:
            standing, bundle, sites = await in_library(_standing, at.database)
        except SQLAlchemyError as error:
            raise unavailable(error, is_operator=True, meanwhile=at.absence.words) from error
        failed = {
            node_id: {scope: str(fault) for scope, fault in scopes.items()} for node_id, scopes in health.failed.items()
        }
        certificate = at.shown.certificate
        await self._reminder.look()
        return CoordinatorStatus(
            cluster_id=standing.cluster_id,
            authority_epoch=standing.authority_epoch,
            revision=standing.revision,
            state_id=standing.state_id,
            restored_backup=restored_backup.reason_of(standing),
            sites=sites,
            trust_bundle=bundle,
            coordinator_id=at.coordinator_id,
            held_polls=at.board.waiting,
            alarms=dict(at.alarms),
            certificate=PresentCertificate(certificate.fingerprint, format_time(int(certificate.not_after))),
            publishing=PublishingHealth(health.reason, health.behind, health.conflicts, failed),
            due=tuple(EndingThing.of(thing, at.now()) for thing in self._reminder.due()),
            history=await in_library(history.describe, at.database, at.standstill.history),
            moved="" if (to := at.standstill.moved) is None else f"{to.coordinator_id}, {to.url}",
        )

    async def keys(self, _request: Request) -> AnswerMessage:
        """The config keys that this replica holds, for what each of them signs now, and where it looks for them."""
        at = self._at
        held = await in_library(_keys, at.database, at.publisher.keys, at.now())
        return HeldKeys(str(at.keys_directory), held)

    # ---- what root keys have signed

    async def trust(self, request: Request) -> AnswerMessage:
        start = request.query_integer("from", 0, 0, MAX_INTEGER)
        found = await in_library(documents.trust_bundles, self._at.database, start)
        return BundleDocuments(tuple(map(container_of, found)))

    async def add_trust_bundle(self, request: Request) -> AnswerMessage:
        asked = await message_of(request, BundleSubmission)
        add = partial(trust_import.add_trust_bundle, despite_reports=asked.despite_reports)
        bundle = await self._receive(request, asked.document, add)
        return TakenBundle(bundle.version, bundle.authority_epoch, format_time(bundle.expires_at))

    async def add_recovery(self, request: Request) -> AnswerMessage:
        asked = await message_of(request, RecoverySubmission)
        recovery = await self._receive(request, asked.document, trust_import.add_recovery)
        of = recovery.document
        return TakenRecovery(of.subject, of.scope, recovery.from_config_version, recovery.to_config_version)

    async def _receive(self, request: Request, document: bytes, add: Callable[..., Result]) -> Result:
        at = self._at
        added = await in_database(add, at.database, document, actor=request.peer.name, now=at.now())
        async with at.standstill.reading:
            # A raised epoch ends it.
            at.standstill.reason = await in_library(restored_backup.reason, at.database, at.standstill.behind)
            at.publisher.reconsider()
        return added

    # ---- revocations beside those of nodes

    async def revocations(self, _request: Request) -> AnswerMessage:
        return await in_library(_revocations, self._at.database)

    async def revoke(self, request: Request) -> AnswerMessage:
        at, asked = self._at, await message_of(request, RevocationRequest)
        because = partial(revocation.revoke, reason=asked.reason, unknown=asked.unknown)
        await in_database(because, at.database, asked.category, asked.value, actor=request.peer.name, now=at.now())
        at.publisher.wake()
        return RevocationDone(asked.category, asked.value)

    async def restore(self, request: Request) -> AnswerMessage:
        at = self._at
        category, value = (
            parameter(request, "category", forms.text(64, 1).takes),
            parameter(request, "value", forms.text(320, 1).takes),
        )
        await in_database(revocation.restore, at.database, category, value, actor=request.peer.name, now=at.now())
        at.publisher.wake()
        return RevocationDone(category, value)

    # ---- as files

    async def publish(self, request: Request) -> AnswerMessage:
        asked = await message_of(request, PublishRequest)
        return await in_planner(static_tree.publish, self._at.database, Path(asked.to))


def _standing(database: Database) -> tuple[ClusterState, PresentBundle | None, dict[str, int]]:
    with database.read() as transaction:
        standing = cluster_state.standing(transaction)
        found = published_state.latest_bundle(transaction)
        sites = cluster_state.site_generations(transaction)
    bundle = None
    if found is not None:
        entry, content = found
        bundle = PresentBundle(**vars(entry), expires_at=format_time(content.expires_at))
    return standing, bundle, sites


def _keys(database: Database, keys: Sequence[SigningKey], now: float) -> tuple[HeldKey, ...]:
    with database.read() as transaction:
        standing = cluster_state.standing(transaction)
        found = published_state.latest_bundle(transaction)
        revocations = published_state.read_revocations(transaction)
    described: list[HeldKey] = []
    for key in keys:
        faults: dict[str, str | None] = dict.fromkeys((*SCOPE_TYPES, HEAD), "no_trust_bundle")
        if found is not None:
            faults = {
                scope: signing_context.fault_of(key, found[1], revocations, standing.cluster_id, scope, now)
                for scope in faults
            }
        faults.pop(documents.TRUST_BUNDLE)
        described.append(HeldKey(key.key_id, key.algorithm, faults))
    return tuple(described)


def _revocations(database: Database) -> HeadRevocations:
    with database.read() as transaction:
        told = published_state.read_revocations(transaction)
    return HeadRevocations(told.version, **{name: tuple(sorted(getattr(told, name))) for name in revoked.CATEGORIES})

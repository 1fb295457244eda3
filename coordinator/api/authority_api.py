"""What an operator asks about trust and publication, on the Unix socket: bundles, recoveries, keys, revocations."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from coordinator.api.operator_route import body_of, for_operators, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.requests import BodyMember, flag_in, is_text, text_in
from coordinator.base.threads import in_database, in_library
from coordinator.database import cluster_state, documents
from coordinator.database import revocations as revoked
from coordinator.database.database import Database
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import revocation
from coordinator.publishing import published_state, signing_context, static_tree
from coordinator.publishing.publisher import container_of
from coordinator.runtime.context import Coordinator
from coordinator.runtime.reminder import Reminder
from coordinator.trust import restored_backup, trust_import
from snapshot.identifiers import HEAD, MAX_INTEGER, SCOPE_TYPES, format_time
from wire.request import Request
from wire.routes import HttpRoute

Result = TypeVar("Result")
DOCUMENT_BYTES = 2 << 20
PUBLISH_S = 600.0

_DOCUMENT = {"document": BodyMember(is_text(DOCUMENT_BYTES))}
_BUNDLE = {**_DOCUMENT, "despite_reports": BodyMember(lambda value: isinstance(value, bool), required=False)}
_REVOCATION = {
    "category": BodyMember(is_text(64)),
    "value": BodyMember(is_text(320)),
    "reason": BodyMember(is_text(256)),
    "unknown": BodyMember(lambda value: isinstance(value, bool), required=False),
}
_PUBLISH = {"to": BodyMember(lambda value: isinstance(value, str) and value.startswith("/") and value.isprintable())}


class AuthorityApi:
    def __init__(self, coordinator: Coordinator, reminder: Reminder) -> None:
        self._at = coordinator
        self._reminder = reminder

    def routes(self) -> tuple[HttpRoute, ...]:
        most = DOCUMENT_BYTES
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

    async def status(self, _request: Request) -> object:
        at, health = self._at, self._at.publisher.health
        standing = await in_library(_standing, at.database)
        failed = {
            node_id: {scope: str(fault) for scope, fault in scopes.items()} for node_id, scopes in health.failed.items()
        }
        publishing = {
            "fault": health.reason,
            "behind": health.behind,
            "conflicts": health.conflicts,
            "failed": failed,
        }
        replica = {"coordinator_id": at.coordinator_id, "held_polls": at.board.waiting, "alarms": dict(at.alarms)}
        shown = at.shown.certificate
        certificate = {"sha256": shown.fingerprint, "expires_at": format_time(int(shown.not_after))}
        await self._reminder.look()
        due = [each.to_value(at.now()) for each in self._reminder.due()]
        return {**standing, **replica, "certificate": certificate, "publishing": publishing, "due": due}

    async def keys(self, _request: Request) -> object:
        """The config keys that this replica holds, for what each of them signs now, and where it looks for them."""
        at = self._at
        held = await in_library(_keys, at.database, at.publisher.keys, at.now())
        return {"directory": str(at.keys_directory), "keys": held}

    # ---- what root keys have signed

    async def trust(self, request: Request) -> object:
        start = request.query_integer("from", 0, 0, MAX_INTEGER)
        found = await in_library(documents.trust_bundles, self._at.database, start)
        return {"documents": [base64.b64encode(container_of(each)).decode() for each in found]}

    async def add_trust_bundle(self, request: Request) -> object:
        body = await body_of(request, _BUNDLE)
        add = partial(trust_import.add_trust_bundle, despite_reports=body.get("despite_reports") is True)
        bundle = await self._received(request, body, add)
        return {
            "version": bundle.version,
            "authority_epoch": bundle.authority_epoch,
            "expires_at": format_time(bundle.expires_at),
        }

    async def add_recovery(self, request: Request) -> object:
        recovery = await self._received(request, await body_of(request, _DOCUMENT), trust_import.add_recovery)
        return {
            "node_id": recovery.document.subject,
            "scope": recovery.document.scope,
            "from_config_version": recovery.from_config_version,
            "to_config_version": recovery.to_config_version,
        }

    async def _received(self, request: Request, body: Mapping[str, object], add: Callable[..., Result]) -> Result:
        at = self._at
        data = _decoded(text_in(body, "document"))
        added = await in_database(add, at.database, data, actor=request.peer.name, now=at.now())
        async with at.standstill.reading:
            # A raised epoch ends it.
            at.standstill.reason = await in_library(restored_backup.reason, at.database, at.standstill.behind)
            at.publisher.reconsider()
        return added

    # ---- revocations beside those of nodes

    async def revocations(self, _request: Request) -> object:
        return await in_library(_revocations, self._at.database)

    async def revoke(self, request: Request) -> object:
        at, body = self._at, await body_of(request, _REVOCATION)
        category, value = text_in(body, "category"), text_in(body, "value")
        because = partial(revocation.revoke, reason=text_in(body, "reason"), unknown=flag_in(body, "unknown"))
        await in_database(because, at.database, category, value, actor=request.peer.name, now=at.now())
        at.publisher.wake()
        return {"category": category, "value": value}

    async def restore(self, request: Request) -> object:
        at = self._at
        category, value = parameter(request, "category", is_text(64)), parameter(request, "value", is_text(320))
        await in_database(revocation.restore, at.database, category, value, actor=request.peer.name, now=at.now())
        at.publisher.wake()
        return {"category": category, "value": value}

    # ---- as files

    async def publish(self, request: Request) -> object:
        to = Path(str((await body_of(request, _PUBLISH))["to"]))
        return vars(await in_library(static_tree.publish, self._at.database, to))


def _standing(database: Database) -> dict[str, object]:
    with database.read() as transaction:
        standing = cluster_state.standing(transaction)
        found = published_state.latest_bundle(transaction)
        sites = cluster_state.site_generations(transaction)
    bundle = None
    if found is not None:
        entry, content = found
        bundle = {**vars(entry), "expires_at": format_time(content.expires_at)}
    return {
        "cluster_id": standing.cluster_id,
        "authority_epoch": standing.authority_epoch,
        "revision": standing.revision,
        "state_id": standing.state_id,
        "sites": sites,
        "restored_backup": restored_backup.reason_of(standing),
        "trust_bundle": bundle,
    }


def _keys(database: Database, keys: Sequence[SigningKey], now: float) -> list[dict[str, object]]:
    with database.read() as transaction:
        standing = cluster_state.standing(transaction)
        found = published_state.latest_bundle(transaction)
        revocations = published_state.read_revocations(transaction)
    described: list[dict[str, object]] = []
    for key in keys:
        faults: dict[str, str | None] = dict.fromkeys((*SCOPE_TYPES, HEAD), "no_trust_bundle")
        if found is not None:
            faults = {
                scope: signing_context.fault_of(key, found[1], revocations, standing.cluster_id, scope, now)
                for scope in faults
            }
        faults.pop(documents.TRUST_BUNDLE)
        described.append({"key_id": key.key_id, "algorithm": key.algorithm, "faults": faults})
    return described


def _revocations(database: Database) -> object:
    with database.read() as transaction:
        return dict(revoked.manifest(transaction))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(Code.BAD_REQUEST, "the document is not base64") from error

"""How a node becomes a member, and stays the same one (rules J1..J16, K13..K17, K27..K29; protocol.md 1).

    1 token      from its file; without one nothing is asked
    2 chain      the coordinator's TLS chain is checked before a byte of the token leaves (rules K15)
    3 nonce      single use
    4 request    the body, signed by the certificate's key
    5 bundles    the first one judged, its roots pinned outside of the store, the next ones followed
    6 documents  node_bootstrap and whatever else the grant has, by the same path as every update

A crash anywhere repeats safely: what is pinned stays, and a member asks again without a token (rules J12).
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import trio

from agent import enrolling
from agent.chunks import Chunks
from agent.identity import IdentityFile, renew_at
from agent.node import Node
from agent.sources import deadlines
from agent.token import read_token
from agent.update import Update
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts
from snapshot.reasons import Rejected
from snapshot.verify import Verified, follow
from store.errors import StoreError
from wire.backoff import BackOff
from wire.certificate import KeyPair, prove
from wire.client import Answer, Call, Client, ClientError, HttpsConnector
from wire.contexts import Identity
from wire.endpoint import Endpoint, path
from wire.messages import BadMessageError, JoinGrant, JoinNonce, JoinRequest
from wire.request import JSON

LOOK_AGAIN_S = 15.0  # a token may be put there while we run
LONGEST_SLEEP_S = 86_400.0
FORBIDDEN = 403
BUNDLE_BYTES = 2 << 20

log = structlog.get_logger(__name__)


class NotGrantedError(Exception):
    """The grant is not one: its documents do not lead to a trust bundle that we believe."""


@dataclass
class Joining:
    node: Node
    update: Update
    identity: IdentityFile
    uniform: Callable[[float, float], float]
    renewed: Callable[[Identity], Awaitable[None]]
    joined: trio.Event = field(default_factory=trio.Event)
    retry: trio.Event = field(default_factory=trio.Event)  # set: there is a reason to try at once

    async def run(self) -> None:
        """Until the node is a member; then its certificate is renewed in time. Until cancelled."""
        back_off = BackOff(self.uniform, cap_s=float(self.node.settings.intervals.backoff_cap_s))
        while not self._is_member():
            with trio.move_on_after(await self._attempt(back_off)):
                await self.retry.wait()
                self.retry = trio.Event()
        self.node.learnt.member, self.node.learnt.joining = True, False
        self.node.tell()
        self.joined.set()
        await self._keep_certificate(back_off)

    async def _attempt(self, back_off: BackOff) -> float:
        """One try with whatever there is; the seconds until the next."""
        learnt, settings = self.node.learnt, self.node.settings
        try:
            if settings.coordinator is None:
                await self._install()
                return 0.0
            token = read_token(settings.token_file())
            if token is None and self.node.store.enrolment is None:
                return LOOK_AGAIN_S  # rules K29
            learnt.joining = True
            self.node.tell()
            await self.join(token)
            learnt.refusal = ""
            return 0.0
        except ClientError as error:
            learnt.refusal = error.code if error.status == FORBIDDEN else ""
            wait_s = back_off.failed(error.retry_after_s)
            failed: Exception = error
        except (Rejected, NotGrantedError, BadMessageError, StoreError, OSError) as error:
            wait_s, failed = back_off.failed(), error
        log.warning("not joined", error=str(failed)[:300], code=learnt.refusal)
        self.node.counters.add("joins_failed")
        self.node.tell()
        return max(1.0, wait_s)

    def _is_member(self) -> bool:
        return self.node.store.enrolment is not None and TRUST_BUNDLE in self.node.holdings.kept.marks

    # ---- the handshake

    async def join(self, token: str | None) -> None:
        """One attempt at each coordinator in turn, until one grants. The last one's refusal is raised."""
        settings = self.node.settings
        assert settings.coordinator is not None  # noqa: S101 - the caller looked
        pair = await self.node.threads.write(self.identity.ensure, settings.node, self.node.now())
        client = Client(HttpsConnector.to_authority(settings.coordinator.ca_file), deadlines(settings))
        failed: Exception | None = None
        try:
            for url in settings.coordinator.join_urls or settings.coordinator.urls:
                try:
                    grant = await self._ask(client, Endpoint.parse(url, configured=True), pair, token)
                    await self.accept(grant)
                    return
                except (ClientError, NotGrantedError, BadMessageError) as error:
                    failed = error
        finally:
            await closed(client)
        if failed is not None:
            raise failed

    async def _ask(self, client: Client[Endpoint], endpoint: Endpoint, pair: KeyPair, token: str | None) -> JoinGrant:
        greeting = await client.fetch(endpoint, Call("GET", path("v1", "join", "nonce")))
        body = self._request(pair, JoinNonce.parse(greeting.body).nonce, greeting, token)
        headers = [JSON, ("holdfast-proof", prove(pair.key_pem, body))]
        if token is not None:
            headers.append(("authorization", f"Bearer {token}"))
        call = Call("POST", path("v1", "join"), headers=headers, body=body, limit=JoinGrant.MOST_BYTES)
        answer = await client.fetch(endpoint, call)
        return JoinGrant.parse(answer.body)

    def _request(self, pair: KeyPair, nonce: str, greeting: Answer, token: str | None) -> bytes:
        node = self.node.settings.node
        return JoinRequest(
            cluster_id=node.cluster_id,
            node_id=node.node_id,
            kind=node.kind,
            certificate=pair.der,
            incarnation=self.node.store.incarnation,
            nonce=nonce,
            server=greeting.server,
            token_sha256=None if token is None else "sha256:" + hashlib.sha256(token.encode()).hexdigest(),
            direct_url=node.direct_url,
        ).to_bytes()

    # ---- the grant

    async def accept(self, grant: JoinGrant) -> None:
        """Verified and durable, or NotGrantedError (rules J15)."""
        bundles, others = enrolling.split_grant(grant.documents, self.node.holdings.holder.limits)
        await self._trust(bundles)
        log.info("joined", outcome=grant.outcome, coordinator=grant.coordinator_id)
        for kind, data in others:
            try:
                await self.update.take(Chunks(data), kind, "join")
            except Rejected:
                continue  # recorded; the head will name it again

    async def _trust(self, bundles: list[bytes]) -> None:
        """The roots are pinned before the bundle is activated: where they stand, there is no second first use."""
        node = self.node
        if not bundles:
            raise NotGrantedError("the grant has no trust bundle")
        if node.store.enrolment is None:
            await self._pin(bundles)
        await node.reload()
        await self.update.trust.walk(bundles, "join")
        if TRUST_BUNDLE not in node.holdings.kept.marks:
            raise NotGrantedError("no trust bundle of the grant is one that this node believes")

    async def _pin(self, bundles: list[bytes]) -> None:
        node, limits = self.node, self.node.holdings.holder.limits
        trust = node.settings.trust
        installed = _installed(trust.bundle_file)
        roots, trusted_by = enrolling.roots_for(bundles[0], trust, installed, limits)
        node.reader.roots = roots
        await node.reload()
        run = follow([ChunkParts([data], limits) for data in bundles], node.holder(), now=node.now())
        verified = await node.threads.verify(_first, run)
        if verified is None:
            raise NotGrantedError("the first trust bundle is not valid yet")
        enrolled = enrolling.enrolment(node.settings.node.node_id, verified, roots, trusted_by, node.now())
        await node.threads.write(node.store.enrol, enrolled)
        log.info("root keys pinned", trusted_by=trusted_by, root_key_ids=sorted(enrolled.root_keys))

    async def _install(self) -> None:
        """Without a coordinator: the first bundle is a file (rules K3)."""
        installed = _installed(self.node.settings.trust.bundle_file)
        if installed is None:
            raise NotGrantedError("trust.bundle_file is not there")
        await self._trust([installed])

    # ---- the certificate

    async def _keep_certificate(self, back_off: BackOff) -> None:
        """Renewed over a connection that the old one authenticates, with the proof by the new key (protocol.md 1)."""
        node = self.node
        while True:
            pair = await node.threads.write(self.identity.ensure, node.settings.node, node.now())
            due_in_s = renew_at(pair, node.settings.node) - node.now()
            if due_in_s > 0 or node.settings.coordinator is None:
                await trio.sleep(min(LONGEST_SLEEP_S, max(1.0, due_in_s)))
                continue
            try:
                await self.renew()
                back_off.succeeded()
            except (ClientError, BadMessageError, StoreError, OSError) as error:
                log.warning("certificate not renewed", error=str(error)[:300])
                await trio.sleep(max(1.0, back_off.failed()))

    async def renew(self) -> None:
        node = self.node
        assert node.settings.coordinator is not None  # noqa: S101 - the caller looked
        pair = await node.threads.write(self.identity.successor, node.settings.node, node.now())
        authority = node.settings.coordinator.ca_file
        client = Client(HttpsConnector.to_authority(authority, self.identity.identity), deadlines(node.settings))
        try:
            await self._ask(client, Endpoint.parse(node.settings.coordinator.urls[0], configured=True), pair, None)
        finally:
            await closed(client)
        await node.threads.write(self.identity.succeed)
        await self.renewed(self.identity.identity)
        log.info("certificate renewed")


async def closed(client: Client[Endpoint]) -> None:
    """Also when we are cancelled."""
    with trio.CancelScope(shield=True):
        await client.aclose()


def _first(run: Iterator[Verified]) -> Verified | None:
    return next(run, None)


def _installed(file: Path | None) -> bytes | None:
    if file is None:
        return None
    data = file.read_bytes()
    if len(data) > BUNDLE_BYTES:
        raise NotGrantedError(f"{file} has more than {BUNDLE_BYTES} bytes")
    return data

"""The join request, from the nonce to the grant (rules J1..J7, K13, K15..K17; protocol.md 1).

1 chain      the coordinator's TLS chain is checked before a byte of the token leaves (rules K15)
2 nonce      single use
3 request    the body, signed by the certificate's key
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from agent.sources.authorities import believed_authorities
from agent.sources.connecting import authority_connector
from agent.sources.sources import deadlines
from agent.state.join_codes import UnusableFileError
from agent.state.node import RunningNode
from wire.addresses import AddressBook
from wire.certificate import KeyPair, prove
from wire.client import Call, HttpClient, Reply
from wire.endpoint import Endpoint, path
from wire.messages import JoinGrant, JoinNonce, JoinRequest
from wire.request import JSON
from wire.tls_contexts import TlsIdentity


@dataclass(frozen=True)
class Handshake:
    node: RunningNode

    async def ask(
        self, client: HttpClient[Endpoint], endpoint: Endpoint, pair: KeyPair, token: str | None
    ) -> JoinGrant:
        """What is granted, nothing of it verified yet. ClientError, BadMessageError."""
        greeting = await client.fetch(endpoint, Call("GET", path("v1", "join", "nonce")))
        body = self._request(pair, JoinNonce.parse(greeting.body).nonce, greeting, token)
        headers = [JSON, ("holdfast-proof", prove(pair.key_pem, body))]
        if token is not None:
            headers.append(("authorization", f"Bearer {token}"))
        call = Call("POST", path("v1", "join"), headers=headers, body=body, limit=JoinGrant.MOST_BYTES)
        answer = await client.fetch(endpoint, call)
        return JoinGrant.parse(answer.body)

    def _request(self, pair: KeyPair, nonce: str, greeting: Reply, token: str | None) -> bytes:
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


@asynccontextmanager
async def coordinators(
    node: RunningNode, addresses: AddressBook, identity: TlsIdentity | None = None
) -> AsyncIterator[HttpClient[Endpoint]]:
    """For the coordinators; it is closed also when we are cancelled. `addresses`: where their names have led.
    UnusableFileError.
    """
    assert node.settings.coordinator is not None  # noqa: S101 - the callers looked
    authority = node.settings.coordinator.ca_file
    try:
        connector = authority_connector(believed_authorities(node), authority, identity)
    except OSError as error:  # ssl's own are, too
        raise UnusableFileError(f"coordinator.ca_file {authority}: {error.strerror or error}") from error
    connector.remember_in(addresses)
    client = HttpClient(connector, deadlines(node.settings))
    try:
        yield client
    finally:
        with trio.CancelScope(shield=True):
            await client.aclose()

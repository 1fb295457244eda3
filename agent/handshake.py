"""The join request, from the nonce to the grant (rules J1..J7, K13, K15..K17; protocol.md 1).

1 chain      the coordinator's TLS chain is checked before a byte of the token leaves (rules K15)
2 nonce      single use
3 request    the body, signed by the certificate's key
"""

import hashlib
from dataclasses import dataclass

from agent.node import Node
from wire.certificate import KeyPair, prove
from wire.client import Answer, Call, Client
from wire.endpoint import Endpoint, path
from wire.messages import JoinGrant, JoinNonce, JoinRequest
from wire.request import JSON


@dataclass(frozen=True)
class Handshake:
    node: Node

    async def ask(self, client: Client[Endpoint], endpoint: Endpoint, pair: KeyPair, token: str | None) -> JoinGrant:
        """What is granted, nothing of it verified yet. ClientError, BadMessageError."""
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

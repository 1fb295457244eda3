"""Operators who ask over TLS (protocol 2)."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from tests.coordinator.daemon import PATIENT, Running, refusal
from wire.certificate import KeyPair, make_identity
from wire.client import Call, HttpClient, HttpsConnector
from wire.endpoint import Endpoint
from wire.tls_contexts import TlsIdentity


@dataclass
class Afar:
    """Somebody with a key and a certificate who asks over TLS."""

    at: Running
    name: str
    pair: KeyPair = None
    authority: Path = None

    def __post_init__(self) -> None:
        folder = self.at.founded.folder
        self.pair = self.pair or make_identity(self.name, self.at.founded.now)
        self.identity = TlsIdentity(folder / f"{self.name}.crt", folder / f"{self.name}.key")
        self.identity.certificate.write_bytes(self.pair.certificate_pem)
        self.identity.key.write_bytes(self.pair.key_pem)
        authority = self.authority or folder / "ca.pem"
        self.client = HttpClient(HttpsConnector.to_authority(authority, self.identity), PATIENT)
        self.at.clients.append(self.client)

    @property
    def place(self) -> Endpoint:
        return Endpoint("localhost", self.at.ports.operators, configured=True)

    async def ask(self, method: str, path: str, body: object = None) -> dict:
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.client.fetch(self.place, Call(method, path, body=data, limit=16 << 20))
        return json.loads(answer.body)

    async def is_unknown(self) -> None:
        """Once TLS has followed the table, it refuses the handshake itself."""
        await self.client.aclose()
        await self.at.daemon.transports.operators.wait_settled()
        assert await refusal(self.ask("GET", "/v1/status")) == "tls_failed"

    async def added(self, **how: str) -> "Afar":
        await add(self.at, self.name, self.pair, **how)
        return self


async def add(at: Running, name: str, pair: KeyPair, **how: str) -> dict:
    body = {"certificate": base64.b64encode(pair.der).decode(), **how}
    return await at.ask("POST", f"/v1/operators/{name}", body)

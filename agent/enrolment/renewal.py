"""The node's certificate, renewed in time (protocol.md 1; rules K48, X8).

Over a connection that the old one authenticates, with the proof by the new key; both pins hold until the new one was
used. A renewal that fails is tried again, with the same certificate (rules J12).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from agent.enrolment.identity import IdentityFile, renew_at
from agent.enrolment.join_request import Handshake, coordinators
from agent.state.join_codes import EXPECTED, code_of, detail_of
from agent.state.node import RunningNode
from wire.addresses import AddressBook
from wire.backoff import LEAST_S, BackOff
from wire.certificate import KeyPair
from wire.endpoint import Endpoint
from wire.logs import log
from wire.tls_contexts import TlsIdentity

LONGEST_SLEEP_S = 86_400.0


@dataclass(frozen=True)
class Renewal:
    """`renewed` is told the new identity."""

    node: RunningNode
    identity: IdentityFile
    handshake: Handshake
    renewed: Callable[[TlsIdentity], Awaitable[None]]
    addresses: AddressBook

    async def run(self, back_off: BackOff) -> None:
        """Until cancelled."""
        node = self.node
        while True:
            try:
                pair = await node.threads.write(self.identity.ensure, node.settings.node, node.now())
                due_in_s = renew_at(pair, node.settings.node) - node.now()
                if due_in_s > 0 or node.settings.coordinator is None:
                    await trio.sleep(min(LONGEST_SLEEP_S, max(LEAST_S, due_in_s)))
                    continue
                await self.renew()
                back_off.note_success()
                await trio.sleep(LEAST_S)  # also where the new one is due at once
            except EXPECTED as error:
                log.warning("certificate not renewed", code=code_of(error), detail=detail_of(error))
                await trio.sleep(back_off.note_failure())

    async def renew(self) -> None:
        """Once, at the first coordinator that does. The last one's error is raised."""
        node = self.node
        pair = await node.threads.write(self.identity.successor, node.settings.node, node.now())
        await self._ask(pair)
        await node.threads.write(self.identity.succeed)
        await self.renewed(self.identity.identity)
        log.info("certificate renewed")

    async def _ask(self, pair: KeyPair) -> None:
        settings = self.node.settings
        assert settings.coordinator is not None  # noqa: S101 - `run` looked
        failed: Exception | None = None
        async with coordinators(self.node, self.addresses, self.identity.identity) as client:
            for url in settings.coordinator.urls:
                try:
                    await self.handshake.ask(client, Endpoint.parse(url, configured=True), pair, None)
                except EXPECTED as error:
                    failed = error
                else:
                    return
        if failed is not None:
            raise failed

"""Probes and metrics over TCP, for the operator's tools, on a listener of their own (rules J46).

A port that is taken costs the probes and nothing else (rules A14): it is said, and tried again until it is free.
"""

import random
from dataclasses import dataclass, field

import trio

from agent.local.local_api import LocalApi
from wire.backoff import BackOff
from wire.limits import LOCAL
from wire.listening import ListenError, hosts_of, tcp_listener
from wire.logs import log
from wire.routes import Routes
from wire.server import Server

FLOOR_S, BASE_S, CAP_S = 5.0, 5.0, 300.0
SETTING = "[local] probes_listen"


@dataclass
class ProbeListener:
    """`listen`: host:port, or None where there are no probes but those of the socket."""

    listen: str | None
    api: LocalApi
    back_off: BackOff = field(default_factory=lambda: BackOff(random.uniform, BASE_S, CAP_S))

    async def run(self) -> None:
        """Until cancelled."""
        if self.listen is None:
            return
        from wire.tls import PlainTransport  # noqa: PLC0415 - it loads X.509, which the first answer does not wait for

        listener = await self._listener(self.listen)
        routes, hosts = Routes(*self.api.probe_routes()), hosts_of(_host(self.listen))
        await Server("probes", routes, PlainTransport(), LOCAL, hosts=hosts).serve(listener)

    async def _listener(self, listen: str) -> trio.SocketListener:
        """Said once for each cause."""
        port = listen.rpartition(":")[2]
        said = ""
        while True:
            try:
                made = await tcp_listener(_host(listen), int(port), setting=SETTING)
            except ListenError as error:
                if str(error) != said:
                    said = str(error)
                    log.error("no probes", remedy=said)  # noqa: TRY400 - no trace needed
                await trio.sleep(self.back_off.note_failure(FLOOR_S))
            else:
                if said:
                    log.info("probes are served", listen=listen)
                return made


def _host(listen: str) -> str:
    return listen.rpartition(":")[0].strip("[]")

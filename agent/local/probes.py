"""Probes and metrics over TCP, for the operator's tools, on a listener of their own (rules J46).

A port that is taken costs the probes and nothing else (rules A14): it is said, and tried again until it is free.
"""

import random
from dataclasses import field

from agent.local.local_api import LocalApi
from snapshot.frozen import mutable
from wire.backoff import BackOff
from wire.limits import LOCAL
from wire.listening import host_of, hosts_of, patient_listener
from wire.routes import Routes
from wire.server import Server

FLOOR_S, BASE_S, CAP_S = 5.0, 5.0, 300.0
SETTING = "[local] probes_listen"


@mutable
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

        listener = await patient_listener(self.listen, self.back_off, FLOOR_S, setting=SETTING, what="probes")
        routes, hosts = Routes(*self.api.probe_routes()), hosts_of(host_of(self.listen))
        await Server("probes", routes, PlainTransport(), LOCAL, hosts=hosts).serve(listener)

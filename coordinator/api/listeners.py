"""The listeners: what each of them answers, and to whom.

admin      the operator's Unix socket          protocol 2
operators  the same over TLS, by remote_admin.py       protocol 2
coordinators  each other, by identities that the manifest pins    membership/peer_recovery.py
fleet      nodes, by pinned certificates       protocol 1
join       who is no node yet                  protocol 1
probes     probes and metrics                  rules J46
"""

import random
from dataclasses import dataclass, replace

from coordinator.api.admin_api import AdminApi
from coordinator.api.authority_api import AuthorityApi
from coordinator.api.ca_api import CaApi
from coordinator.api.ceremony_api import CeremonyApi
from coordinator.api.changes_api import ChangesApi
from coordinator.api.content_api import ContentApi
from coordinator.api.due_api import DueApi
from coordinator.api.history_api import HistoryApi
from coordinator.api.invitation_api import InvitationApi
from coordinator.api.leaving_api import LeavingApi
from coordinator.api.node_api import NodeApi
from coordinator.api.operator_api import OperatorApi
from coordinator.api.owner_api import OwnerApi
from coordinator.api.recover_api import RecoverApi
from coordinator.api.recovered_route import asking_others_first
from coordinator.api.replica_api import ReplicaApi
from coordinator.api.resource_api import ResourceApi
from coordinator.api.roster_api import RosterApi
from coordinator.api.storage_api import StorageApi
from coordinator.runtime.context import Coordinator
from coordinator.runtime.fleet_figures import Lately
from coordinator.runtime.metrics import ProbeRoutes, Readiness
from coordinator.runtime.reminder import Reminder
from coordinator.runtime.remote_admin import Door
from wire.certificate import KeyPair
from wire.limits import ADMIN, LOCAL, ListenerLimits
from wire.listening import hosts_of
from wire.pins import PinTable
from wire.routes import HttpRoute, Routes
from wire.server import CAPACITY, Server
from wire.shedding import Gate
from wire.tls import PinnedTransport, PlainTransport, ServerAuthTransport, operator_peer
from wire.unix import HOSTS, UnixTransport


@dataclass(frozen=True)
class LimitsByListener:
    """Of members, and of who is none yet."""

    fleet: ListenerLimits
    join: ListenerLimits


@dataclass(frozen=True)
class Transports:
    """Those that show the coordinator's certificate."""

    fleet: PinnedTransport
    join: ServerAuthTransport
    operators: PinnedTransport

    def show(self, shown: KeyPair) -> None:
        """Another certificate, whose key fits it."""
        for transport in (self.fleet, self.join, self.operators):
            transport.show(shown)


def transports(coordinator: Coordinator, door: Door, shown: KeyPair, limits: LimitsByListener) -> Transports:
    """Nodes and operators have a table each: the certificate of one opens nothing of the other's."""
    return Transports(
        fleet=PinnedTransport(coordinator.pins.table, shown, limits.fleet),
        join=ServerAuthTransport(shown, limits.join),
        operators=PinnedTransport(door.table, shown, ADMIN, peer=operator_peer),
    )


def servers(
    coordinator: Coordinator,
    door: Door,
    readiness: Readiness,
    reminder: Reminder,
    lately: Lately,
    over: Transports,
    limits: LimitsByListener,
    *,
    probes_at: str,
) -> dict[str, Server]:
    """Fleet and joins share one gate: heads go before heartbeats, joins and documents, wherever they come in."""
    nodes = NodeApi(coordinator)
    gate = Gate(CAPACITY, random.random)
    routes = admin_routes(coordinator, door, reminder)
    afar = [replace(route, handler=door.guard(route)) for route in routes]
    limit_s = float(coordinator.settings.local_request_s)
    near, far = replace(LOCAL, deadline_s=limit_s), replace(ADMIN, deadline_s=limit_s)
    made = {
        "admin": Server("admin", Routes(*routes), UnixTransport(), near, hosts=HOSTS),
        "operators": Server("operators", Routes(*afar), over.operators, far),
        "fleet": Server("fleet", nodes.fleet_routes(), over.fleet, limits.fleet, gate=gate),
        "join": Server("join", nodes.join_routes(), over.join, limits.join, gate=gate),
    }
    probes = ProbeRoutes(coordinator, readiness, reminder, lately, made)
    return {**made, "probes": Server("probes", probes.routes(), PlainTransport(), LOCAL, hosts=hosts_of(probes_at))}


def among_coordinators(coordinator: Coordinator, table: PinTable, own: KeyPair) -> Server:
    """Shows the coordinator's identity, and lets in those of the others."""
    over = PinnedTransport(table, own, ADMIN)
    return Server("coordinators", RecoverApi(coordinator).peer_routes(), over, ADMIN)


def admin_routes(coordinator: Coordinator, door: Door, reminder: Reminder) -> list[HttpRoute]:
    """Everything that an operator may ask."""
    apis = (
        AdminApi(coordinator),
        AuthorityApi(coordinator, reminder),
        CeremonyApi(coordinator),
        ChangesApi(coordinator),
        ContentApi(coordinator),
        InvitationApi(coordinator),
        OperatorApi(coordinator, door),
        ReplicaApi(coordinator),
        OwnerApi(coordinator),
        CaApi(coordinator),
        DueApi(reminder),
        HistoryApi(coordinator),
        ResourceApi(coordinator),
        LeavingApi(coordinator),
        RosterApi(coordinator),
        StorageApi(coordinator),
    )
    return [asking_others_first(coordinator, route) for api in apis for route in api.routes()]

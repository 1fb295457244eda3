"""An agent whose agent.toml names no cluster yet: it runs, and says so, where a caller would otherwise wait for ever.

    serve       the local socket, until the process is told to stop, or its file names a node (awaited.py)

Nothing is asked of anybody, and the store is not touched (rules A2, K29). Once the file names a node and can be read,
the process becomes the agent of that node by executing itself anew: as after a restart, and without one by hand.
"""

import trio

from agent.access.access import Access
from agent.awaited import Awaited
from agent.base.clock import SystemClock
from agent.config.configuration import AgentSettings
from agent.local import listening
from snapshot.codes import CATALOGUE, Area
from snapshot.identifiers import format_time
from wire.limits import LOCAL
from wire.local.local_answers import Liveness, NodeReadiness
from wire.local.node_status import FilesCondition, HiddenFromCaller, NodeClock, NodeStatus, StoreCondition
from wire.logs import log
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.systemd import SystemdNotifier
from wire.unix import UnixTransport
from wire.version import VERSION

NOT_CONFIGURED = "not_configured"
REMEDY = CATALOGUE[Area.STATE][NOT_CONFIGURED].text


async def serve(settings: AgentSettings, *, awaited: Awaited, notifier: SystemdNotifier, stop: trio.Event) -> None:
    """Until `stop` is set, or `awaited` has come. SocketError before anything is served."""
    with listening.listener(settings.local) as listener:
        async with trio.open_nursery() as nursery:
            server = Server("local", _routes(), UnixTransport(), LOCAL, first=Access(()).first)
            await nursery.start(listening.serve, server, listener, stop, nursery.cancel_scope)
            log.warning("not configured", remedy=REMEDY)
            notifier.ready(f"unenrolled {NOT_CONFIGURED}: {REMEDY}")
            nursery.start_soon(notifier.watchdog)
            await awaited.come()
            stop.set()


def _routes() -> Routes:
    answered = [
        HttpRoute("GET", "/v1/status", _status),
        HttpRoute("GET", "/probe/startup", _alive),
        HttpRoute("GET", "/probe/liveness", _alive),
        HttpRoute("GET", "/probe/readiness", _readiness),
    ]
    scopes = "/v1/scopes/{scope}"
    others = [("GET", path) for path in ("/v1/scopes", scopes, f"{scopes}/sections/{{name}}", "/v1/watch", "/metrics")]
    others += [("GET", "/v1/quarantine"), ("POST", "/v1/quarantine/clear")]
    others += [("POST", path) for path in ("/v1/may", "/v1/import", "/v1/trust/confirm")]
    return Routes(*answered, *(HttpRoute(method, template, _refuse) for method, template in others))


async def _status(request: Request) -> Response:
    return Response.json(report(SystemClock().read().wall).to_value())


def report(now: float) -> NodeStatus:
    """Of a node that has nothing."""
    return NodeStatus(
        now=format_time(now),
        node_id="",
        cluster_id="",
        agent_version=VERSION,
        incarnation="",
        state="unenrolled",
        cause=NOT_CONFIGURED,
        remedy=REMEDY,
        mode="fenced",
        fence=NOT_CONFIGURED,
        grade="expired",
        generation=0,
        head=None,
        join=None,
        degraded_since=None,
        rollback_check="unconfirmed",
        roles=(),
        roots=None,
        trust_bundle_version=0,
        clock=NodeClock(synchronised=None, offset_floor_s=0, regressed=False),
        sources=(),
        awaited={},
        candidates={},
        origins={},
        recovering=(),
        refresh_required=(),
        passed_over=(),
        store=StoreCondition("", floor_lost=False),
        relay=None,
        storage=None,
        ends=(),
        counters={},
        scopes={},
        refused={},
        expired=(),
        services={},
        files=FilesCondition(generation=0, fault="", error=""),
        hidden=HiddenFromCaller(scopes=0, services=0),
    )


async def _alive(request: Request) -> Response:
    return Response.json(Liveness(alive=True).to_value())


async def _readiness(request: Request) -> Response:
    answer = NodeReadiness(ready=False, mode="fenced", cause=NOT_CONFIGURED, expired=(), warnings=())
    return Response.json(answer.to_value(), 503)


async def _refuse(request: Request) -> Response:
    raise HttpError(503, NOT_CONFIGURED, REMEDY, retry_after=60)

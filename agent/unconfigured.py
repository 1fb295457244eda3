"""An agent whose agent.toml names no cluster yet: it runs, and says so, where a caller would otherwise wait for ever.

    settings_without_a_node     what the file says beside, or None where it names a node
    serve                       the local socket, until the process is told to stop, or its file names a node

Nothing is asked of anybody, and the store is not touched (rules A2, K29). Once the file names a node and can be read,
the process becomes the agent of that node by executing itself anew: as after a restart, and without one by hand. A file
that cannot be read yet, since somebody is at it, is said and waited for.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import trio

from agent.access.access import Access
from agent.base.clock import SystemClock
from agent.config.configuration import AgentSettings, ConfigurationError, load, parse
from agent.local import local
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
LOOK_EVERY_S = 1.0
ABOUT_A_NODE = ("node", "coordinator", "manual")
_NOBODY = {
    "node": {"cluster_id": "none", "node_id": "none"},
    "coordinator": {"urls": ["https://none:1"], "ca_file": "/none"},
}


def settings_without_a_node(path: Path) -> AgentSettings | None:
    """None also where the file cannot be read as TOML: that is for `load` to say. ConfigurationError for the rest."""
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if any(name in value for name in ABOUT_A_NODE):
        return None
    return parse({**value, **_NOBODY})


@dataclass
class Awaited:
    """The file that does not name a node yet; `named` once it does, and whatever else is right with it."""

    path: Path
    named: bool = False

    async def come(self) -> None:
        """Until it has. It is looked at first of all: it may have come since the process has read it."""
        seen: tuple[int, ...] | None = ()
        said = ""
        while not self.named:
            await trio.sleep(LOOK_EVERY_S)
            if (stamp := _stamp(self.path)) == seen:
                continue
            seen = stamp
            try:
                self.named = settings_without_a_node(self.path) is None and load(self.path) is not None
            except ConfigurationError as error:
                if str(error) != said:
                    said = str(error)
                    log.error("not taken up", problems=error.problems)  # noqa: TRY400 - no trace needed


async def serve(settings: AgentSettings, *, awaited: Awaited, notifier: SystemdNotifier, stop: trio.Event) -> None:
    """Until `stop` is set, or `awaited` has come. SocketError before anything is served."""
    with local.listener(settings.local) as listener:
        async with trio.open_nursery() as nursery:
            server = Server("local", _routes(), UnixTransport(), LOCAL, first=Access(()).first)
            await nursery.start(local.serve, server, listener, stop, nursery.cancel_scope)
            log.warning("not configured", remedy=REMEDY)
            notifier.ready(f"unenrolled {NOT_CONFIGURED}: {REMEDY}")
            nursery.start_soon(notifier.watchdog)
            await awaited.come()
            stop.set()


def _stamp(path: Path) -> tuple[int, ...] | None:
    """A stat of one local file: no thread's work."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


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

"""What local services see, built from the configuration: the API, the files, and who is told of a change."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from agent.access.access import Access, group_id
from agent.base.generation import Generation
from agent.config.configuration import AgentSettings, LocalTable, ServiceTable
from agent.config.units import Verb
from agent.files.file_access import FileAccess
from agent.files.generations import Generations, Permissions
from agent.files.projection import Projection
from agent.local.decisions import Decisions
from agent.local.local_api import LocalApi
from agent.local.local_backend import Front
from agent.local.watching import Watching as WatchApi
from agent.services.notifiers import Command, Notifier, NotifierWatch, RequestedVerb
from agent.services.publishing import Publishing
from agent.services.running import Running
from agent.services.services import LocalService, Services
from agent.services.unit_states import read_state
from agent.services.validators import Validator, Validators
from agent.state.node import RunningNode
from agent.state.view import Views
from store.base.tables import Name
from wire.lasting import LastingListener
from wire.limits import LOCAL
from wire.server import Server
from wire.systemd import passed_sockets
from wire.unix import HOSTS, UnixTransport, passed_listener, unix_listener

LINK = "active"


@dataclass(frozen=True)
class Local:
    """`active` follows the store, `published` the files."""

    front: Front
    active: Generation
    publishing: Publishing
    watching: WatchApi
    services: Services
    validators: Validators
    api: LocalApi
    server: Server


def build(settings: AgentSettings, node: RunningNode, views: Views, folder: Path) -> Local:
    """`folder` is the agent's alone, for candidates that validators look at. ValueError names an unknown account."""
    active, published = Generation(), Generation()
    units = {one.name: one.unit for one in settings.services if one.unit is not None}
    running = Running(node, units, read_state)
    front = Front(node, Decisions(node), running)
    access = Access.configured(settings.access, socket_group(settings.local))
    publishing = Publishing(
        views,
        _projection(settings.local, access),
        node.threads,
        active,
        published,
        node.now,
        lambda: node.standing().state == "revoked",
    )
    services = Services(
        tuple(_service(one, settings.local) for one in settings.services),
        views,
        node.store.table(Name.SERVICES),
        node.threads,
        published,
        node.now,
        random.uniform,
        on_told=lambda name: _told(name, services, running, node),
        may_tell=node.has_confirmed_roots,
    )
    watching = WatchApi(views, node.threads, active)
    limits = settings.limits.documents()
    api = LocalApi(front, views, node.threads, access, services, publishing, watching, node.now, limits)
    asked = [one for one in settings.services if one.validate]
    validators = Validators(
        [Validator(one.name, one.scopes, one.validate, one.validate_timeout_s) for one in asked], folder, node.threads
    )
    local_limits = replace(LOCAL, deadline_s=float(settings.intervals.local_request_s))
    server = Server("local", api.routes(), UnixTransport(), local_limits, hosts=HOSTS, first=access.first)
    return Local(front, active, publishing, watching, services, validators, api, server)


@contextmanager
def listener(local: LocalTable) -> Iterator[LastingListener]:
    """The socket that systemd passes, else one of our own. From here on callers wait, and are not refused."""
    passed = passed_sockets()
    if passed:
        yield passed_listener(next(iter(passed.values())))
        return
    group = group_id(local.socket_group) if local.socket_group else None
    where, named = local.socket_path, "[local] socket_path"
    with unix_listener(where, mode=local.socket_mode, group=group, setting=named) as made:
        yield made


async def serve(
    server: Server,
    listener: LastingListener,
    stop: trio.Event,
    scope: trio.CancelScope,
    *,
    task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Once `stop` is set nobody new is let in, whoever has asked is answered, and then `scope` is cancelled."""
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        task_status.started()
        await stop.wait()
        server.stop()
    scope.cancel()


def socket_group(local: LocalTable) -> int:
    return group_id(local.socket_group) if local.socket_group else os.getegid()


def _projection(local: LocalTable, access: Access) -> Projection | None:
    if local.projection_directory is None:
        return None
    gid = group_id(local.projection_group) if local.projection_group else None
    given = Permissions(local.projection_file_mode, local.projection_directory_mode, gid)
    whose = FileAccess.configured(local.projection_access, given, access)
    most = local.projection_bytes
    return Projection(Generations(local.projection_directory, LINK, whose.top, most_bytes=most), whose)


def _told(name: str, services: Services, running: Running, node: RunningNode) -> None:
    """That a command told it well shows that it runs; that it watches by itself shows nothing."""
    notifier = next(one.notifier for one in services.services if one.name == name)
    if isinstance(notifier, Command) and services.notified[name].ok:
        running.told(name)
    node.tell_news()


def _service(one: ServiceTable, local: LocalTable) -> LocalService:
    return LocalService(one.name, one.scopes, _notifier(one, local))


def _notifier(one: ServiceTable, local: LocalTable) -> Notifier:
    if one.notify == "command":
        return Command(one.command, one.timeout_s)
    if one.notify == "none" or one.unit is None:
        return NotifierWatch()
    requests, answers = local.reload_directory, local.reload_answers_directory
    return RequestedVerb(Verb(one.notify), one.unit, requests, answers, one.timeout_s, one.signal)
